"""Run one target under Atheris for some seconds; started by `python -m tests.fuzz.guided`.

Failing inputs are written to a folder, one for each kind of error and code line, and the run continues.
"""

from __future__ import annotations

import hashlib
import sys
import traceback
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["lakescan"], enable_loader_override=False):
    from tests.fuzz.guided.targets import TARGETS, failure


def place_of(error: BaseException) -> str:
    """Return the kind of an error and the last line of lakescan in its traceback."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "/lakescan/" in f.filename]
    at = f"{frames[-1].filename.rpartition('/lakescan/')[2]}:{frames[-1].lineno}" if frames else "?"
    return f"{type(error).__name__} at {at}"


def main() -> None:
    """Run with the arguments: the target, the folder of findings, and libFuzzer's arguments."""
    name, found = sys.argv[1], Path(sys.argv[2])
    target, known = TARGETS[name], set[str]()

    def one(data: bytes) -> None:
        error = failure(target, data)
        if error is None or (place := place_of(error)) in known:
            return
        known.add(place)
        found.mkdir(parents=True, exist_ok=True)
        (found / hashlib.sha256(data).hexdigest()[:16]).write_bytes(data)
        print(f"FOUND {name}: {place}: {str(error)[:200]!r}", flush=True)

    atheris.Setup([sys.argv[0], *sys.argv[3:]], one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
