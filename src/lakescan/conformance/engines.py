"""Ask engines to read a table, each in a separate process, so that a crash or a hang is reported as an answer."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import lakescan
from lakescan.api.open import table
from lakescan.errors import LakescanError, StorageError

# The table formats that each engine reads.
ENGINES: dict[str, tuple[str, ...]] = {
    "lakescan": ("delta", "iceberg"),
    "deltalake": ("delta",),
    "pyiceberg": ("iceberg",),
    "polars": ("delta", "iceberg"),
    "duckdb": ("delta", "iceberg"),
}
_CHILD = Path(__file__).with_name("child.py")


@dataclass(frozen=True)
class ReadLimits:
    """Limits of a comparison.

    - `seconds`: the time that an engine may take for one table.
    - `rows`: the largest number of rows that are compared by value; of more rows, only the numbers are compared.
    """

    seconds: float = 60
    rows: int = 1_000_000


@dataclass(frozen=True)
class Job:
    """A table to read: its format, location and storage options, and the relocations of its paths.

    `metadata` is the newest metadata file of an Iceberg table, for engines that open tables by it.
    """

    format: str
    location: str
    metadata: str = ""
    relocate: Mapping[str, str] = field(default_factory=dict)
    storage_options: Mapping[str, str] = field(default_factory=dict)


def ask(engine: str, job: Job, limits: ReadLimits, interpreter: str | None = None) -> dict[str, Any]:
    """Read a table with an engine in a new process, and return its answer.

    Args:
        engine: One of `ENGINES`.
        job: The table to read.
        limits: The time limit, and the number of rows to compare by value.
        interpreter: The Python that has the engine installed; by default the running one.

    Returns:
        `rows`, `columns` and digests, or `error` and its `words`; also `version` if known. `error` is the class of the
        engine's exception, or `Crash` (`words` names the signal), `Hang` or `NoAnswer`.
    """
    environment = _environment(interpreter)
    with tempfile.TemporaryDirectory() as folder:
        _link(job.relocate, Path(folder))
        process = subprocess.Popen(
            [interpreter or sys.executable, "-P", str(_CHILD)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=folder,
            env=environment,
            start_new_session=True,
            text=True,
            errors="replace",
        )
        try:
            out, err = process.communicate(json.dumps(_job_message(engine, job, limits)), timeout=limits.seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # with its child processes
            process.communicate()
            return {"error": "Hang", "words": f"no answer within {limits.seconds:g} s"}
    return _answer(process.returncode, out, err)


def ask_many(
    engine: str, jobs: Sequence[Job], limits: ReadLimits, interpreter: str | None = None
) -> list[dict[str, Any]]:
    """Read many tables with an engine in forks of one process, and return one answer per job.

    Engines with threads may not survive a fork, so each job that failed is repeated by `ask` in a process of its own.

    Raises:
        CalledProcessError: The process that forks ended early.
    """
    with tempfile.TemporaryDirectory() as folder:
        lines = []
        for number, job in enumerate(jobs):
            place = Path(folder, str(number))
            place.mkdir()
            _link(job.relocate, place)
            asked = _job_message(engine, job, limits) | {"seconds": limits.seconds, "folder": str(place)}
            lines.append(json.dumps(asked))
        command = [interpreter or sys.executable, "-P", str(_CHILD), "--many"]
        text = "\n".join(lines)
        run = subprocess.run(
            command, input=text, stdout=subprocess.PIPE, text=True, check=True, env=_environment(interpreter)
        )
    answers = [json.loads(line) for line in run.stdout.splitlines()]
    return [
        ask(engine, job, limits, interpreter) if "error" in answer else answer
        for job, answer in zip(jobs, answers, strict=True)
    ]


def _job_message(engine: str, job: Job, limits: ReadLimits) -> dict[str, Any]:
    return {
        "engine": engine,
        "format": job.format,
        "location": job.location,
        "metadata": job.metadata,
        "relocate": dict(job.relocate) if engine == "lakescan" else {},
        "storage_options": dict(job.storage_options),
        "rows": limits.rows,
    }


def _environment(interpreter: str | None) -> dict[str, str]:
    """Return the environment variables of the child process.

    Only the running interpreter gets this lakescan on its path. `interpreter` is None for the running one.
    """
    environment = dict(os.environ)
    environment.pop("PYTHONPATH", None)
    environment["RUST_BACKTRACE"] = "0"  # else the message of an engine in Rust is a backtrace
    if interpreter is None:
        own = str(Path(lakescan.__file__).parents[1])
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, [own, os.environ.get("PYTHONPATH")]))
    return environment


def _answer(code: int, out: str, err: str) -> dict[str, Any]:
    if code < 0:
        return {"error": "Crash", "words": signal.Signals(-code).name}
    try:
        answer: dict[str, Any] = json.loads(out.rstrip().rpartition("\n")[2])
    except ValueError:
        last = err.strip().rpartition("\n")[2]
        return {"error": "NoAnswer", "words": f"exit code {code}: {last[:500]}"}
    return answer


def _link(relocate: Mapping[str, str], folder: Path) -> None:
    """Link relocated tables that have relative paths into `folder`, for engines that cannot relocate.

    `folder` becomes the working directory of the engine. `relocate` maps prefixes to local folders. Shorter prefixes
    are linked first; a longer prefix that already exists through a shorter link is skipped.
    """
    for old, new in sorted(relocate.items(), key=lambda item: len(item[0])):
        place = Path(folder, old)
        if old.startswith(("/", "..")) or "://" in old or place.exists() or not Path(new).is_dir():
            continue
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(Path(new).absolute(), target_is_directory=True)


def find_tables(place: str) -> Iterator[str]:
    """Yield the tables below a local folder in path order; yield any other `place` as a table itself.

    Raises:
        StorageError: A folder cannot be listed, and might contain tables.
    """
    if not os.path.isdir(place) or _is_table(Path(place)):
        yield place
        return
    for folder, names, _ in os.walk(place, onerror=_raise_listing_error):
        names.sort()
        if _is_table(Path(folder)):
            names.clear()
            yield folder


def _raise_listing_error(error: OSError) -> None:
    raise StorageError(
        f"cannot list {error.filename}: {error.strerror}. There may be tables in it: name those that can be read"
    ) from error


def _is_table(folder: Path) -> bool:
    return (folder / "_delta_log").is_dir() or any((folder / "metadata").glob("*.metadata.json"))


def job_of(location: str, relocate: Mapping[str, str], storage_options: Mapping[str, str]) -> Job:
    """Build the job for the table at `location`: its format and, for Iceberg, its newest metadata file.

    If lakescan cannot open the table, the format is guessed from the folder.
    """
    try:
        opened = table(location, relocate=relocate or None, storage_options=storage_options or None)
        kind, metadata = opened.format, ""
        if kind == "iceberg":
            metadata = str(opened.inspect("metadata_log_entries").column("file")[-1].as_py())
            for old, new in relocate.items():
                if metadata.startswith(old):
                    metadata = new + metadata[len(old) :]
                    break
        if location.endswith(".json"):
            metadata = location
        elif opened.name is not None:  # the child process has no such catalog
            location = metadata if kind == "iceberg" else opened.folder
    except LakescanError:
        # lakescan's own answer will report why; guess the format from the folder.
        kind = "delta" if Path(location, "_delta_log").is_dir() else "iceberg"
        metadata = location if location.endswith(".json") else _newest(Path(location))
    return Job(kind, location, metadata, relocate, storage_options)


def _newest(folder: Path) -> str:
    found = sorted((folder / "metadata").glob("*.metadata.json"), key=lambda path: (path.stat().st_mtime, path.name))
    return str(found[-1]) if found else ""
