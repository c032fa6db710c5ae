r"""Write `docs/conformance.md`, what engines read of the corpus: `python scripts/conformance_doc.py`.

It runs all of them, some minutes. The corpus is that of the tests (`LAKESCAN_CORPUS`). Tables that name absolute places
are found there only with `--place`, which links them (on a machine where that may be done) and removes the links.
DuckDB's extensions may be in another environment:

    python -m venv duck && duck/bin/pip install pyarrow pytz duckdb==1.5.5 \
        duckdb-extension-delta==1.5.5 duckdb-extension-iceberg==1.5.5 duckdb-extension-avro==1.5.5
    python scripts/conformance_doc.py --place --python duckdb=duck/bin/python
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from tests.conftest import corpus_folder  # noqa: E402
from tests.corpus.cases import Case, all_cases  # noqa: E402

import lakescan  # noqa: E402
from lakescan.conformance.child import digest_rows  # noqa: E402
from lakescan.conformance.engines import (  # noqa: E402
    ENGINES,
    Job,
    ReadLimits,
    ask_many,
    job_of,
)
from lakescan.conformance.report import TableConformance, as_markdown, compare_answers  # noqa: E402

PAGE = ROOT / "docs" / "conformance.md"
_HEAD = """# Conformance

`lakescan conformance PATH_OR_FOLDER...` reads tables with lakescan and with deltalake, pyiceberg, Polars and DuckDB, as
far as these are installed, and says whether they read the same rows: as text, with `--json` as an object a table, and
with `--markdown FILE` as the tables below. Each engine runs in a process of its own with a time limit (`--seconds`), so
that a crash is a finding like others. Rows are compared as bags, under the columns' names, whatever their Arrow types
(numbers of other widths, decimals of other scales, times of other units or with another zone, maps as lists of structs,
UUIDs as text, 0.0 and -0.0 are the same values, and so are all NaN); more than `--rows` rows are only counted. `same`
means the rows that lakescan reads: it says that two engines agree, not who is right. The exit code is 1 if an engine
reads other rows, or lakescan fails to read a table; not where lakescan refuses a feature by name.

Below is the corpus: tables that other projects publish as test data, where engines are compared with what is known of
the rows, too. It is no part of this repository (`LAKESCAN_CORPUS` names its folder).

**How engines are asked.** Each in the best way that we know it to have, without tuning, from its newest release whose
extensions can be installed from a package index:

| engine | Delta | Iceberg |
|---|---|---|
| lakescan | `lakescan.table(folder)` | `lakescan.table(metadata file, relocate=...)` |
| deltalake | `QueryBuilder` over `DeltaTable(folder)` | |
| pyiceberg | | `StaticTable.from_metadata(metadata file).scan()` |
| Polars | `scan_delta(folder)` | `scan_iceberg(metadata file)`, then with `reader_override="pyiceberg"` |
| DuckDB | `delta_scan(folder)` | `iceberg_scan(metadata file)`, then of the folder, with `allow_moved_paths` |

The Iceberg tables of the corpus were moved from where they were written. lakescan relocates them; for the others, links
lead from the places that the metadata names to the tables. Names of a cluster (`hdfs://...`) cannot be linked: what
fails at one, or misses position deletes that name their data files so, is counted as `moved` below, and says nothing
about the reader; in the table of tables it is still an `error`, or `other rows`.

This page is made by `scripts/conformance_doc.py`, which runs the engines.
"""
_JUDGED = """## Against what is known

Known are the rows that the JVM implementations read (the files they wrote them to are compared by their values), or,
where these fail, the number of rows by the specification. `right` are the same values, or the same number where no more
is known (also for variants, which have more than one encoding). `wrong` are other rows, without an error. Tables of the
last two columns are damaged, or of versions that a reader must not read: to refuse them is right.
"""
_CLUSTER = re.compile(r"hdfs|libjvm", re.I)  # libjvm: what clients of HDFS load
_VERDICTS = ("right", "wrong", "unsupported", "error", "crash", "moved", "not installed", "refused", "read")


def page(interpreters: dict[str, str], limits: ReadLimits, only: tuple[str, ...] = (), *, place: bool = False) -> str:
    """The page, from running all engines on all cases."""
    every = all_cases()
    cases = [case for case in every if not only or case.id.startswith(only)]
    if not cases:
        raise SystemExit("no corpus: set LAKESCAN_CORPUS to its folder")
    jobs = [job_of(case.location, case.relocate, {}) for case in cases]
    with _placed(jobs) if place else nullcontext(), ThreadPoolExecutor(2) as pool:
        of_engines = dict(
            zip(ENGINES, pool.map(lambda e: _answers(e, jobs, interpreters, limits), ENGINES), strict=True)
        )
    found = []
    verdicts: Counter[tuple[str, str, str]] = Counter()
    for number, (case, job) in enumerate(zip(cases, jobs, strict=True)):
        answers = {engine: of[number] for engine, of in of_engines.items() if number in of}
        found.append(compare_answers(case.id, job, answers))
        known = _known(case, answers["lakescan"], limits)
        for reading in found[-1].readings:
            verdict = _verdict(answers[reading.engine], known, reading.outcome)
            if verdict == "wrong" and reading.engine != "lakescan" and _deletes_name_a_cluster(case, found[-1]):
                verdict = "moved"
            verdicts[case.format, reading.engine, verdict] += 1
            if verdict in ("wrong", "read"):
                print(f"{case.name}: {reading.engine}: {verdict}: {answers[reading.engine]['rows']} rows, {known}")
    part = f"Asked were {len(cases)} of the corpus's {len(every)} tables, on {datetime.now(UTC):%Y-%m-%d}"
    part += f", with lakescan {lakescan.__version__} on Python {sys.version_info.major}.{sys.version_info.minor}.\n"
    text = "\n".join([_HEAD, part, _JUDGED, *_judged(verdicts), *_parts(found)]).rstrip() + "\n"
    folder = corpus_folder() or Path()
    return text.replace(str(folder), "CORPUS").replace(str(folder.resolve()), "CORPUS")


@contextmanager
def _placed(jobs: list[Job]) -> Iterator[None]:
    """Links at the absolute places that tables name, for engines that cannot relocate; what is there is left alone."""
    made: list[Path] = []
    try:
        for old, new in sorted((pair for job in jobs for pair in job.relocate.items()), key=lambda p: len(p[0])):
            link = Path(old)
            if not old.startswith("/") or link.exists() or not Path(new).is_dir():
                continue
            for folder in reversed([each for each in link.parents if not each.exists()]):
                folder.mkdir()
                made.append(folder)
            link.symlink_to(new, target_is_directory=True)
            made.append(link)
        yield
    finally:
        for each in reversed(made):
            each.unlink() if each.is_symlink() else each.rmdir()


def _answers(
    engine: str, jobs: list[Job], interpreters: dict[str, str], limits: ReadLimits
) -> dict[int, dict[str, Any]]:
    """An engine's answers, by the numbers of the jobs."""
    numbers = [n for n, job in enumerate(jobs) if job.format in ENGINES[engine]]
    found = ask_many(engine, [jobs[n] for n in numbers], limits, interpreters.get(engine))
    return dict(zip(numbers, found, strict=True))


def _known(case: Case, own: Mapping[str, Any], limits: ReadLimits) -> dict[str, Any]:
    """What is known of a table's rows: `rows` and `digest`, or `rows` alone; nothing where refusing is right.

    Where lakescan's rows are spelled otherwise than the reference's (variants, which the corpus tests compare decoded),
    all engines are judged by the number of rows.
    """
    if case.row_count is None:
        return {}
    expected = case.unexpected_word
    if expected is None:
        return {"rows": case.row_count}
    known = digest_rows(expected.to_reader(), limits.rows)
    return {"rows": known["rows"]} | ({"digest": known["digest"]} if own.get("digest") == known["digest"] else {})


def _verdict(answer: Mapping[str, Any], known: Mapping[str, Any], outcome: str) -> str:
    if "error" in answer:
        if outcome == "crash" or "version" not in answer:
            return outcome
        if not known:
            return "refused"
        return "moved" if _CLUSTER.search(str(answer.get("words", ""))) else outcome
    if not known:
        return "read"
    digest = known.get("digest")
    same = answer["rows"] == known["rows"] and (digest is None or answer["digest"] in (None, digest))
    return "right" if same else "wrong"


def _deletes_name_a_cluster(case: Case, found: TableConformance) -> bool:
    """Whether position deletes may name data files by URLs, where manifests have their paths: Impala wrote such."""
    return "position deletes" in found.deletes and any("://" in old for old in case.relocate)


def _judged(verdicts: Mapping[tuple[str, str, str], int]) -> Iterator[str]:
    for kind in sorted({kind for kind, _, _ in verdicts}):
        of = [name for name in ENGINES if kind in ENGINES[name]]
        shown = [v for v in _VERDICTS if v in _VERDICTS[:5] or any(verdicts.get((kind, e, v)) for e in of)]
        yield f"| {kind} | {' | '.join(shown)} |"
        yield "|" + "---|" * (len(shown) + 1)
        for engine in of:
            yield f"| {engine} | {' | '.join(str(verdicts.get((kind, engine, v), 0)) for v in shown)} |"
        yield ""


def _parts(found: list[TableConformance]) -> Iterator[str]:
    for kind, title in (("delta", "Delta"), ("iceberg", "Iceberg")):
        yield f"## {title}\n"
        yield as_markdown([each for each in found if each.format == kind])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", action="append", default=[], help="the Python of an engine, name=path")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--only", action="append", default=[], help="cases whose names begin so")
    parser.add_argument("--place", action="store_true", help="link tables at the absolute places that they name")
    given = parser.parse_args()
    engines = dict(each.split("=", 1) for each in given.python)
    PAGE.write_text(page(engines, ReadLimits(given.seconds), tuple(given.only), place=given.place))
