"""A small HDFS of two namenodes behind one name, and Python processes that use it through Hadoop's client."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyspark

from tests.support.stores import STORES, skip_without

_SOURCE = Path(__file__).parent / "HighAvailability.java"
_SPARK_JARS = Path(pyspark.__file__).parent / "jars"
_SECONDS = 300  # the timeout of a process


@dataclass
class HighlyAvailable:
    """The cluster. `root` is the location of its name service, `conf` the folder of its clients' configuration."""

    process: subprocess.Popen[str]
    conf: Path
    root: str = "hdfs://lake"

    def fail_over(self, to: str) -> None:
        """Make the namenode `one` or `two` the active one."""
        self._order(f"to {to}")

    def kill(self, which: str) -> None:
        """Kill the active namenode, `one` or `two`; it comes back as the standby."""
        self._order(f"kill {which}")

    def _order(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()
        _await(self.process, "done")

    @property
    def environment(self) -> dict[str, str]:
        """Return exactly the environment variables that a process needs."""
        kept = {name: value for name, value in os.environ.items() if name not in ("CLASSPATH", "JAVA_HOME")}
        home = self.conf / "home"
        (home / "lib" / "native").mkdir(parents=True, exist_ok=True)
        if not (link := home / "lib" / "native" / "libhdfs.so").exists():
            link.symlink_to(STORES / "native" / "libhdfs.so")
        return {**kept, "HADOOP_HOME": str(home), "HADOOP_CONF_DIR": str(self.conf)}

    @contextmanager
    def running(self, body: Callable[[str], None], folder: str) -> Iterator[subprocess.Popen[str]]:
        """Run a function of a folder in a process during the block, and check that it ended successfully."""
        with subprocess.Popen(
            self._command(body, folder), env=self.environment, stdout=subprocess.PIPE, text=True
        ) as it:
            try:
                yield it
                assert it.wait(_SECONDS) == 0
            finally:
                it.kill()

    def run(self, body: Callable[[str], None], folder: str, environment: dict[str, str] | None = None) -> str:
        """Run a function of a folder in a separate process; return its standard error."""
        done = subprocess.run(
            self._command(body, folder),
            env=environment or self.environment,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
        )
        assert done.returncode == 0, done.stderr[-4000:]
        return done.stderr

    def _command(self, body: Callable[[str], None], folder: str) -> list[str]:
        source = textwrap.dedent(inspect.getsource(body))
        text = f"from __future__ import annotations\n{source}\n{body.__name__}({f'{self.root}/{folder}'!r})\n"
        return [sys.executable, "-c", text]


def _await(process: subprocess.Popen[str], word: str) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith(word):
            return
    raise AssertionError(f"the cluster ended with {process.wait()}")


@contextmanager
def hdfs_cluster(folder: Path) -> Iterator[HighlyAvailable]:
    """Start the cluster, with its files in a folder."""
    skip_without(STORES / "native" / "libhdfs.so", STORES / "jars", "java")
    jars = [*STORES.glob("jars/*.jar")]
    for name in ("slf4j-api", "log4j-", "jcl-over", "commons-"):
        jars += _SPARK_JARS.glob(f"{name}*.jar")
    (folder / "conf").mkdir()
    command = ["java", "-cp", os.pathsep.join(map(str, jars)), str(_SOURCE), str(folder / "conf")]
    with open(folder / "log", "w") as log:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, cwd=folder
        )
    try:
        _await(process, "ready")
        yield HighlyAvailable(process, folder / "conf")
    finally:
        process.kill()
        process.wait()
