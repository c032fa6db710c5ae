"""The JVM implementations as peers: a process of PySpark 4.1 with their JARs, called over a pipe."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PYTHON = Path(".venv-spark41/bin/python")


@contextmanager
def jvm() -> Iterator[Callable[[dict[str, Any]], Any]]:
    """Yield a function that calls `benchmarks/jvm_server.py` and waits; the pipe costs some tens of microseconds."""
    command = [str(PYTHON), "benchmarks/jvm_server.py"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None

        def ask(question: dict[str, Any]) -> Any:
            assert server.stdin is not None
            assert server.stdout is not None
            server.stdin.write(json.dumps(question) + "\n")
            server.stdin.flush()
            return json.loads(server.stdout.readline())

        while server.stdout.readline().strip() != "ready":
            continue
        yield ask
        server.stdin.close()


@contextmanager
def jvm_readers() -> Iterator[Callable[..., Any]]:
    """Yield a function that reads a table by format and path: see `_read` of the server. The last argument is a key."""
    with jvm() as ask:
        yield lambda form, path, what, key=0: ask({"format": form, "path": path, "what": what, "key": key})
