r"""Read the corpus with all engines and write the results into `docs/conformance.md`.

`python scripts/conformance_doc.py` takes some minutes. The corpus is that of the tests (`LAKESCAN_CORPUS`). The page
keeps its text above `## Results`. The result of each table and engine is written to `build/conformance.md`.

Tables that record absolute paths are found there only with `--place`, which creates links (on a machine that allows
them) and removes them again. DuckDB's extensions may be in another environment:

    python -m venv duck && duck/bin/pip install pyarrow pytz duckdb==1.5.5 \
        duckdb-extension-delta==1.5.5 duckdb-extension-iceberg==1.5.5 duckdb-extension-avro==1.5.5
    python scripts/conformance_doc.py --place --python duckdb=duck/bin/python
"""

from __future__ import annotations

import argparse
import re
import sys
import textwrap
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
TABLES = ROOT / "build" / "conformance.md"
_RESULTS = """## Results

The expected rows are those that Iceberg's and Delta's JVM implementations read. If these fail, the specification gives
the number of rows. `wrong` are other rows without an error. `refused` are damaged tables, and tables of newer versions
that a reader must refuse.
"""
_CLUSTER = re.compile(r"hdfs|libjvm", re.I)  # libjvm, which HDFS clients load
_VERDICTS = ("right", "wrong", "unsupported", "error", "crash", "moved", "not installed", "refused", "read")


def results(
    interpreters: dict[str, str], limits: ReadLimits, only: tuple[str, ...] = (), *, place: bool = False
) -> tuple[str, str]:
    """Run all engines on all cases; return the results as a section of the page, and the result of each table."""
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
    versions = {reading.engine: reading.version for each in found for reading in each.readings if reading.version}
    part = f"On {datetime.now(UTC):%Y-%m-%d}, {len(cases)} of {len(every)} tables were read on Python "
    part += f"{sys.version_info.major}.{sys.version_info.minor} by {', '.join(map(' '.join, versions.items()))}."
    section = "\n".join([_RESULTS, *textwrap.wrap(part, 116), "", *_judged(verdicts)]).rstrip() + "\n"
    folder = corpus_folder() or Path()
    tables = "\n".join(_parts(found)).replace(str(folder), "CORPUS").replace(str(folder.resolve()), "CORPUS")
    return section, tables


@contextmanager
def _placed(jobs: list[Job]) -> Iterator[None]:
    """Context manager: link tables at the absolute paths that they record, for engines that cannot relocate.

    Existing files and links are kept.
    """
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
    """Return an engine's answers, by the numbers of the jobs."""
    numbers = [n for n, job in enumerate(jobs) if job.format in ENGINES[engine]]
    found = ask_many(engine, [jobs[n] for n in numbers], limits, interpreters.get(engine))
    return dict(zip(numbers, found, strict=True))


def _known(case: Case, own: Mapping[str, Any], limits: ReadLimits) -> dict[str, Any]:
    """Return the expected `rows` and `digest` of a table, or only `rows`; an empty dict if the table must be refused.

    If lakescan formats rows differently from the reference (variants, which the corpus tests compare decoded), all
    engines are judged by the number of rows.
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
    """Return whether position deletes may name data files by URLs while manifests have paths, as Impala wrote them."""
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
    section, tables = results(engines, ReadLimits(given.seconds), tuple(given.only), place=given.place)
    PAGE.write_text(PAGE.read_text().split("## Results", 1)[0] + section)
    TABLES.parent.mkdir(exist_ok=True)
    TABLES.write_text(tables)
