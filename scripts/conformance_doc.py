r"""Write `docs/conformance.md`, what engines read of the corpus: `python scripts/conformance_doc.py`.

It runs all of them, each table in a process of its own, some minutes. The corpus is that of the tests
(`LAKESCAN_CORPUS`). DuckDB's extensions may be in another environment:

    python -m venv duck && duck/bin/pip install pyarrow pytz duckdb==1.5.5 \
        duckdb-extension-delta==1.5.5 duckdb-extension-iceberg==1.5.5 duckdb-extension-avro==1.5.5
    python scripts/conformance_doc.py --python duckdb=duck/bin/python
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from tests.conftest import corpus_folder  # noqa: E402
from tests.corpus.cases import Case, all_cases  # noqa: E402

from lakescan.conformance.engines import ENGINES, Job, Limits, ask_many  # noqa: E402
from lakescan.conformance.report import TableConformance, compared, markdown  # noqa: E402
from lakescan.conformance.tables import job_of  # noqa: E402

PAGE = ROOT / "docs" / "conformance.md"
_HEAD = """# Conformance

`lakescan conformance PATH_OR_FOLDER...` reads tables with lakescan and with deltalake, pyiceberg, Polars and DuckDB, as
far as these are installed, and says whether they read the same rows: as text, with `--json` as an object a table, and
with `--markdown FILE` as the tables below. Each engine runs in a process of its own with a time limit (`--seconds`), so
that a crash is a finding like others. Rows are compared as bags, under the columns' names, whatever their Arrow types
(numbers of other widths, times of other units, maps as lists of structs are the same values); more than `--rows` rows
are only counted. `same` means the rows that lakescan reads: it says that two engines agree, not who is right.

Below is the corpus: tables that other projects publish as test data. It is no part of this repository
(`LAKESCAN_CORPUS` names its folder). The rows that the JVM implementations read are known for most, and the tests
compare lakescan's with them (`tests/corpus`). Other engines are asked as they come, without options; those of Iceberg
open the newest metadata file. Tables of Impala name absolute paths of its own cluster: lakescan relocates them, other
engines fail on them, and that says nothing about their readers.

**Errors of Iceberg tables are not yet judged.** These tables were moved: lakescan relocates them, others get links in
the places that relative paths name. DuckDB, with `allow_moved_paths` and a metadata file, looks for most files where
they are not ("Cannot open file"): that is how it is asked here, not what it can read; its column for Iceberg says
nothing.
Polars' panics may come of the same, or of being asked in a fork of a process; they were not tried otherwise.

This page is made by `scripts/conformance_doc.py`, which runs the engines.
"""


def page(interpreters: dict[str, str], limits: Limits, only: tuple[str, ...] = ()) -> str:
    """The page, from running all engines on all cases."""
    every = all_cases()
    cases = [case for case in every if not only or case.id.startswith(only)]
    if not cases:
        raise SystemExit("no corpus: set LAKESCAN_CORPUS to its folder")
    jobs = [job_of(case.location, case.relocate, {}) for case in cases]
    with ThreadPoolExecutor(2) as pool:
        of_engines = dict(
            zip(ENGINES, pool.map(lambda e: _answers(e, jobs, interpreters, limits), ENGINES), strict=True)
        )
    found = []
    for number, (case, job) in enumerate(zip(cases, jobs, strict=True)):
        answers = {engine: of[number] for engine, of in of_engines.items() if number in of}
        found.append(compared(case.id, job, answers))
    part = f"Asked were {len(cases)} of the corpus's {len(every)} tables, on {datetime.now(UTC):%Y-%m-%d}.\n"
    text = "\n".join([_HEAD, part, *_references(cases, found), *_parts(found)]).rstrip() + "\n"
    return text.replace(str(corpus_folder()), "CORPUS")


def _answers(engine: str, jobs: list[Job], interpreters: dict[str, str], limits: Limits) -> dict[int, dict[str, Any]]:
    """An engine's answers, by the numbers of the jobs."""
    numbers = [n for n, job in enumerate(jobs) if job.format in ENGINES[engine]]
    found = ask_many(engine, [jobs[n] for n in numbers], limits, interpreters.get(engine))
    return dict(zip(numbers, found, strict=True))


def _references(cases: list[Case], found: list[TableConformance]) -> Iterator[str]:
    """How many of lakescan's counts are those of the reference: of each table that has one."""
    counts: Counter[tuple[str, str]] = Counter()
    for case, each in zip(cases, found, strict=True):
        if case.row_count is not None:
            what = "same" if each.own.rows == case.row_count else "other"
        else:
            what = "refused" if each.own.rows is None and case.error is not None else "no reference"
        counts[case.format, what] += 1
    yield "## Against the references\n"
    yield "Tables by what is known of their rows: from the JVM implementation, or judged by the specification.\n"
    yield "| format | row count as known | another | refused, as it must be | nothing known |\n|---|---|---|---|---|"
    for kind in ("delta", "iceberg"):
        told = " | ".join(str(counts[kind, what]) for what in ("same", "other", "refused", "no reference"))
        yield f"| {kind} | {told} |"
    yield ""


def _parts(found: list[TableConformance]) -> Iterator[str]:
    for kind, title in (("delta", "Delta"), ("iceberg", "Iceberg")):
        yield f"## {title}\n"
        yield markdown([each for each in found if each.format == kind])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", action="append", default=[], help="the Python of an engine, name=path")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--only", action="append", default=[], help="cases whose names begin so")
    given = parser.parse_args()
    PAGE.write_text(page(dict(each.split("=", 1) for each in given.python), Limits(given.seconds), tuple(given.only)))
