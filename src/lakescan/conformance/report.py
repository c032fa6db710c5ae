"""Compare the answers of engines that read the same table, and report the result as records and as Markdown."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lakescan.conformance.engines import ENGINES, Job, ReadLimits, ask

_UNSUPPORTED = re.compile(
    r"un-?supported|not\s+(yet\s+)?(support|implemented)|NotImplemented|unknown table features?", re.I
)
_NO_EXTENSION = re.compile(r"[Ee]xtension \S+ not found|Failed to download extension|Extension \S+ .*is not installed")
_ABSENT = ("PackageNotFoundError", "ModuleNotFoundError", "ImportError")
SAME, OTHER, REFUSED, FAILED, ENDED, ABSENT = "same", "other rows", "unsupported", "error", "crash", "not installed"
COUNTED = "same count"
ONLY = "read"  # lakescan itself, or another engine where lakescan has no rows to compare with


@dataclass(frozen=True)
class Reading:
    """The result of one engine that read a table.

    - `outcome`: `read`, `unsupported`, `error` or `crash`. Other engines than lakescan also have `same` rows, `same
      count` (too many rows to compare their values), `other rows` and `not installed`.
    - `detail`: explains the outcome. `version`: of the engine. `rows`: their number; None if it read none.
    """

    engine: str
    outcome: str
    detail: str = ""
    version: str = ""
    rows: int | None = None


@dataclass(frozen=True)
class TableConformance:
    """A table's properties as lakescan reads them, and the reading of each engine, lakescan first.

    `columns` and `files` are numbers; None if unknown. `deletes` has the number of delete files by kind.
    """

    table: str
    format: str
    readings: tuple[Reading, ...]
    format_version: str = ""
    columns: int | None = None
    files: int | None = None
    features: tuple[str, ...] = ()
    deletes: Mapping[str, int] = field(default_factory=dict)

    @property
    def lakescan_reading(self) -> Reading:
        """The reading by lakescan."""
        return self.readings[0]

    @property
    def is_in_doubt(self) -> bool:
        """Whether another engine reads other rows, or lakescan fails other than by an unsupported feature."""
        return self.lakescan_reading.outcome in (FAILED, ENDED, ABSENT) or any(
            r.outcome == OTHER for r in self.readings
        )


def conformance(
    name: str,
    job: Job,
    limits: ReadLimits,
    interpreters: Mapping[str, str] | None = None,
    engines: Sequence[str] = tuple(ENGINES),
) -> TableConformance:
    """Read a table with lakescan and then with each engine that supports its format, and compare the rows.

    Args:
        name: The name of the table in the report.
        job: The table to read.
        limits: The time limit of each engine, and the number of rows to compare by value.
        interpreters: The Python interpreter of each engine that has its own.
        engines: The engines to compare with.
    """
    answers = {"lakescan": ask("lakescan", job, limits)}
    for engine in engines:
        if engine != "lakescan" and job.format in ENGINES[engine]:
            answers[engine] = ask(engine, job, limits, (interpreters or {}).get(engine))
    return compare_answers(name, job, answers)


def compare_answers(name: str, job: Job, answers: Mapping[str, Mapping[str, Any]]) -> TableConformance:
    """Compare the answers of engines, by engine name, with lakescan's answer for the same table.

    `answers` must have one of lakescan. `name` is the table's name in the report.
    """
    ours = answers["lakescan"]
    readings = [_engine_reading("lakescan", ours, None, job.location)]
    readings += [
        _engine_reading(engine, answer, ours, job.location)
        for engine, answer in answers.items()
        if engine != "lakescan"
    ]
    return TableConformance(
        table=name,
        format=job.format,
        readings=tuple(readings),
        format_version=str(ours.get("format_version", "")),
        columns=len(ours["columns"]) if "columns" in ours else None,
        files=ours.get("files"),
        features=tuple(ours.get("features", ())),
        deletes=ours.get("deletes", {}),
    )


def _engine_reading(engine: str, answer: Mapping[str, Any], ours: Mapping[str, Any] | None, location: str) -> Reading:
    version, rows = str(answer.get("version", "")), answer.get("rows")
    if "error" in answer:
        words = f"{answer['error']}: {answer.get('words', '')}"
        if answer["error"] in ("Crash", "Hang"):
            return Reading(engine, ENDED, str(answer["words"]), version)
        if answer.get("feature"):
            return Reading(engine, REFUSED, str(answer["feature"]), version)
        if answer["error"] in _ABSENT or _NO_EXTENSION.search(words):
            return Reading(engine, ABSENT, words, version)
        is_refusal = _UNSUPPORTED.search(words.replace(location, ""))  # the folder's name may contain such words
        return Reading(engine, REFUSED if is_refusal else FAILED, words, version)
    if ours is None or "error" in ours:
        return Reading(engine, ONLY, "", version, rows)
    outcome, detail = _compare_rows(answer, ours)
    return Reading(engine, outcome, detail, version, rows)


def _compare_rows(answer: Mapping[str, Any], ours: Mapping[str, Any]) -> tuple[str, str]:
    if answer["columns"] != ours["columns"]:
        more, less = (
            [n for n in one if n not in other]
            for one, other in ((answer["columns"], ours["columns"]), (ours["columns"], answer["columns"]))
        )
        return OTHER, f"columns: has {more}, lacks {less}"
    if answer["rows"] != ours["rows"]:
        return OTHER, f"{answer['rows']} rows instead of {ours['rows']}"
    if answer["digest"] is None:
        return COUNTED, "too many rows to compare their values"
    if answer["digest"] == ours["digest"]:
        ordered = ours.get("lists", {})
        turned = [name for name, digest in answer.get("lists", {}).items() if ordered.get(name, digest) != digest]
        return (OTHER, f"another order in the lists of {', '.join(turned)}") if turned else (SAME, "")
    other = [name for name in ours["columns"] if answer["of"][name] != ours["of"][name]]
    return OTHER, f"other values in {', '.join(other)}" if other else "the same values, in other rows"


def as_record(each: TableConformance) -> dict[str, Any]:
    """Convert a comparison to a dictionary for JSON."""
    return {
        "table": each.table,
        "format": each.format,
        "format_version": each.format_version,
        "columns": each.columns,
        "files": each.files,
        "features": list(each.features),
        "deletes": dict(each.deletes),
        "engines": {
            r.engine: {"outcome": r.outcome, "detail": r.detail, "version": r.version, "rows": r.rows}
            for r in each.readings
        },
    }


def as_markdown(found: Sequence[TableConformance]) -> str:
    """Return comparisons as Markdown: totals of each engine, one line per table, and the details of all differences."""
    engines = [name for name in ENGINES if any(r.engine == name for each in found for r in each.readings)]
    parts = [_sums(found), "", _lines(found, engines)]
    notes = [
        f"- `{each.table}`, {r.engine}: {r.outcome}: {_text(r.detail)}"
        for each in found
        for r in each.readings
        if r.detail and r.outcome != ABSENT
    ]
    if notes:
        parts += ["", "Differences and errors, with the engines' own messages (shortened):", "", *notes]
    return "\n".join(parts) + "\n"


def sums(found: Sequence[TableConformance]) -> dict[str, tuple[int, str]]:
    """Return, by engine, the number of tables that it was asked to read, and a text with the number of each outcome."""
    told = {}
    for name in ENGINES:
        counts = Counter(r.outcome for each in found for r in each.readings if r.engine == name)
        if counts:
            told[name] = counts.total(), ", ".join(f"{count} {outcome}" for outcome, count in counts.most_common())
    return told


def _sums(found: Sequence[TableConformance]) -> str:
    rows = ["| engine | version | tables asked | outcomes |", "|---|---|---|---|"]
    for name, (asked, told) in sums(found).items():
        versions = sorted({r.version for each in found for r in each.readings if r.engine == name and r.version})
        rows.append(f"| {name} | {', '.join(versions) or '-'} | {asked} | {told} |")
    return "\n".join(rows)


def _lines(found: Sequence[TableConformance], engines: Sequence[str]) -> str:
    head = ["table", "format", "rows", "columns", "features", "deletes", *engines]
    rows = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    shown: Callable[[Any], str] = lambda value: "-" if value is None else str(value)  # noqa: E731
    for each in found:
        outcomes = {r.engine: r.outcome for r in each.readings}
        deletes = ", ".join(f"{count} {name}" for name, count in each.deletes.items())
        cells = [
            f"`{each.table}`",
            f"{each.format} {each.format_version}".strip(),
            shown(each.lakescan_reading.rows),
            shown(each.columns),
            ", ".join(each.features),
            deletes,
            *(outcomes.get(name, "") for name in engines),
        ]
        rows.append(f"| {' | '.join(_text(cell) for cell in cells)} |")
    return "\n".join(rows)


def _text(words: str) -> str:
    short = words if len(words) <= 200 else words[:200] + "..."
    return short.replace("|", chr(92) + "|")
