"""Enable the sessions of a job: what `lakescan run` does once the job first uses a table of ours."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from lakescan.spark.drop_in.enable import enable_every_session, install
from lakescan.spark.drop_in.interception import running
from lakescan.spark.drop_in.sessions import find_session, note_change
from lakescan.spark.drop_in.settings import CLASS_PATHS, EXTENSIONS, JARS, PACKAGES, PREFIX, read_jar_settings
from lakescan.spark.session import is_connect

_ARGUMENTS = {"--packages": PACKAGES, "--jars": JARS, "--driver-class-path": CLASS_PATHS[0]}


def prepare() -> None:
    """Enable every session that this process makes from now on."""
    enable_every_session()


def enable_session(spark: Any) -> None:
    """Enable a session, or read its settings again if it is enabled."""
    install(is_connect(spark))
    note_change(PREFIX)
    with running():
        find_session(spark)


def clean_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """Return those of the settings with which Spark starts that name the JARs, without them."""
    found = read_jar_settings(settings)
    names = [name for name in (EXTENSIONS, PACKAGES, JARS, *CLASS_PATHS) if name in {**found.removed, **found.changed}]
    return {name: found.changed.get(name, "") for name in names}


def clean_submit_arguments(text: str) -> str:
    """Return the arguments in `PYSPARK_SUBMIT_ARGS` without the JARs and their classes."""
    words, kept = shlex.split(text), []
    while words:
        name, equals, value = words.pop(0).partition("=")
        if name not in (*_ARGUMENTS, "--conf", "-c") or not (equals or words):
            kept.append(f"{name}{equals}{value}")
            continue
        value = value if equals else words.pop(0)
        key, _, given = value.partition("=") if name in ("--conf", "-c") else (_ARGUMENTS[name], "", value)
        changed = clean_settings({key: given}).get(key, given)
        if changed:
            kept += [name, f"{key}={changed}" if name in ("--conf", "-c") else changed]
    return shlex.join(kept)
