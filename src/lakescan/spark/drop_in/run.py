"""Run a job with every session enabled: what `lakescan run` does before and around the job's own code."""

from __future__ import annotations

import os
import re
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lakescan.errors import InvalidOption
from lakescan.spark.drop_in.enable import enable_every_session
from lakescan.spark.drop_in.interception import intercept_function
from lakescan.spark.drop_in.settings import EXTENSIONS, JARS, PACKAGES, read_jar_settings


def prepare() -> None:
    """Enable every session that this process makes from now on, and provide the module `delta`."""
    _clean_submit_arguments()
    _intercept_builder()
    enable_every_session()


def run_script(path: str, arguments: Sequence[str]) -> None:
    """Run a Python script as `python path arguments` does."""
    if not os.path.exists(path):
        raise InvalidOption(f"there is no script {path}")
    prepare()
    sys.argv = [path, *arguments]
    sys.path.insert(0, str(Path(path).resolve().parent))
    runpy.run_path(path, run_name="__main__")


def run_module(name: str, arguments: Sequence[str]) -> None:
    """Run a module as `python -m name arguments` does."""
    prepare()
    sys.argv = [name, *arguments]
    sys.path.insert(0, os.getcwd())
    runpy.run_module(name, run_name="__main__", alter_sys=True)


def _intercept_builder() -> None:
    """Leave the JARs' classes and packages out of the settings with which sessions are made."""
    from pyspark.sql import SparkSession

    def make(original: Any) -> Any:
        def getOrCreate(self: Any) -> Any:  # noqa: N802  PySpark's name
            options = self._options
            found = read_jar_settings({key: str(value) for key, value in options.items()})
            for key in (EXTENSIONS, PACKAGES, JARS):
                if key in found.removed:
                    del options[key]
                elif key in found.changed:
                    options[key] = found.changed[key]
            return original(self)

        return getOrCreate

    intercept_function(SparkSession.Builder, "getOrCreate", make)


def _clean_submit_arguments() -> None:
    """Leave the JARs' packages out of PYSPARK_SUBMIT_ARGS."""
    text = os.environ.get("PYSPARK_SUBMIT_ARGS")
    if not text:
        return

    def kept(found: re.Match[str]) -> str:
        key = {"--packages": PACKAGES, "--jars": JARS}[found[1]]
        settings = read_jar_settings({key: found[2]})
        if key in settings.removed:
            return ""
        return f"{found[1]} {settings.changed.get(key, found[2])}"

    os.environ["PYSPARK_SUBMIT_ARGS"] = re.sub(r"(--packages|--jars)[ =](\S+)", kept, text)
