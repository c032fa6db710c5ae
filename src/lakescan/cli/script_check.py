"""Find the lines of a job for the JARs that work with lakescan, behave differently, or are refused."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from lakescan.cli.script_reader import UNKNOWN, Call, Chain, Place, Script
from lakescan.errors import InvalidOption, InvalidStatement, LakescanError, UnsupportedFeature, nearest
from lakescan.options.read import ReadOptions
from lakescan.options.write import WriteOptions
from lakescan.spark.drop_in.settings import (
    CLASS_PATHS,
    DEFAULT_CATALOG,
    EXTENSIONS,
    JARS,
    PACKAGES,
    PREFIX,
    SESSION_CATALOG,
    Meaning,
    is_jar_package,
    meaning_of,
    read_jar_settings,
)
from lakescan.statements.procedures import bind_arguments, find_procedure
from lakescan.statements.syntax.commands import Call as Procedure
from lakescan.statements.syntax.grammar import parse_statement
from lakescan.statements.syntax.parse import StatementKind, parse_tree, statement_of
from lakescan.statements.syntax.parse_dml import parse as parse_change
from lakescan.statements.tables.run import can_run

WORKS, DIFFERS, REFUSED, UNCLEAR = "works", "differs", "refused", "unclear"
_FORMATS = ("iceberg", "delta")
_CATALOG_TYPES = ("hadoop", "hive", "rest", "glue", "sql", "in-memory", "dynamodb", "bigquery", "unity")
_NAME = re.compile(r"(?<![\w.`/])`?(\w+)`?\s*\.\s*`?(\w+)`?(?:\s*\.\s*`?(\w+)`?)?")
_PATH = re.compile(r"\b(?:delta|iceberg)\s*\.\s*`|\btable_changes(?:_by_path)?\s*\(", re.IGNORECASE)
_COMMANDS = re.compile(
    r"\s*(?:optimize|vacuum|restore|convert\s+to\s+delta|reorg|call|generate|(?:describe|desc)\s+(?:history|detail))\b",
    re.IGNORECASE,
)
_NOT_RUN = re.compile(r"\s*(analyze\s+table|load\s+data|msck\s+repair|repair\s+table)\b", re.IGNORECASE)
_ADDS_JARS = ("addJar", "addArtifact", "addArtifacts")
_READS = ("load", "table")
_WRITES = ("save", "saveAsTable", "insertInto", "start", "toTable")
_ENTRIES = {"read": ReadOptions, "readStream": ReadOptions, "write": WriteOptions, "writeStream": WriteOptions}


@dataclass(frozen=True)
class Finding:
    """One line of the report.

    - `line`, `cell`: where it is; `cell` is None in a script.
    - `outcome`: works, differs, refused, or unclear for a text that is known only when the job runs.
    - `subject`: the statement, call or setting.
    - `detail`: what differs, or why it is refused; may be empty.
    """

    line: int
    outcome: str
    subject: str
    detail: str = ""
    cell: int | None = None


@dataclass
class _Names:
    """The catalogs of a script: their names, and whether Spark's own catalog has tables of Iceberg or Delta."""

    catalogs: set[str] = field(default_factory=set)
    has_session_catalog: bool = False
    has_default: bool = False
    uses: bool = False

    def concern(self, text: str) -> bool:
        """Return whether a statement or a table's name may be lakescan's."""
        if _PATH.search(text) or _COMMANDS.match(text) or self.has_session_catalog or self.has_default or self.uses:
            return True
        firsts = {match[1] for match in _NAME.finditer(text)}
        if self.catalogs & firsts:
            return True
        return not self.catalogs and any(match[3] for match in _NAME.finditer(text))


def check_script(script: Script) -> list[Finding]:
    """Return the findings of a script in the order of its lines, without running it."""
    found = [*_settings(script)]
    names = _names(script)
    for chain in script.chains:
        found += _chain(chain, names, script)
    found += _imports(script)
    found += [_java(text, place) for text, place in script.java]
    for magic, place in script.magics:
        found.append(_finding(place, REFUSED, magic, "only a notebook understands magics: write it in Python"))
    unique = list(dict.fromkeys(found))
    return sorted(unique, key=lambda each: (each.cell or 0, each.line))


def _finding(place: Place, outcome: str, subject: str, detail: str = "") -> Finding:
    return Finding(place.line, outcome, subject.replace(UNKNOWN, "..."), detail.replace(UNKNOWN, "..."), place.cell)


def _names(script: Script) -> _Names:
    settings = {name: value if value is not None else UNKNOWN for name, value, _ in script.settings}
    found = read_jar_settings(settings, log=False)
    statements = [call.argument(0, "sqlQuery") for chain in script.chains for call in chain.calls if call.name == "sql"]
    uses = any(isinstance(text, str) and re.match(r"\s*use\b", text, re.IGNORECASE) for text in statements)
    is_set = any(call.name == "setCurrentCatalog" for chain in script.chains for call in chain.calls)
    return _Names(
        set(found.catalogs), found.session_catalog is not None, found.default_catalog is not None, uses or is_set
    )


def _settings(script: Script) -> Iterator[Finding]:
    values = {name: UNKNOWN if value is None else value for name, value, _ in script.settings}
    catalogs = read_jar_settings(values, log=False).catalogs
    for name, value, place in script.settings:
        text, shown = value or "", f"{name}={value if value is not None else '...'}"
        catalog = name.removeprefix(PREFIX)
        if name.startswith(PREFIX) and "." not in catalog:
            yield _catalog(place, catalog, text, catalogs.get(catalog))
        elif name in (EXTENSIONS, PACKAGES, JARS, *CLASS_PATHS):
            if (left := _left_out(name, text)) is not None:
                yield _finding(place, WORKS, name, left)
        elif name == DEFAULT_CATALOG and text in catalogs:
            yield _finding(place, WORKS, shown)
        else:
            match meaning_of(name, text):
                case Meaning.APPLIED:
                    yield _finding(place, WORKS, shown)
                case Meaning.UNSUPPORTED:
                    yield _finding(place, DIFFERS, shown, "not supported: lakescan behaves as with the default value")
                case Meaning.NONE:
                    yield _finding(place, WORKS, shown, "has no meaning in lakescan")


def _catalog(place: Place, name: str, implementation: str, properties: Mapping[str, str] | None) -> Finding:
    if properties is None:
        is_delta = implementation.endswith(("DeltaCatalog", "UCSingleCatalog"))
        if is_delta and name == SESSION_CATALOG:
            return _finding(place, WORKS, f"catalog {name}", "Delta tables in Spark's own catalog")
        return _finding(
            place, UNCLEAR, f"catalog {name}", f"{implementation or 'its class'} is not a catalog of Iceberg or Delta"
        )
    kind = properties.get("type", "")
    if kind not in _CATALOG_TYPES:
        return _finding(place, REFUSED, f"catalog {name}", f"the type {kind!r} is not supported")
    missing = "warehouse" if kind == "hadoop" else "uri" if kind in ("rest", "sql", "hive") else ""
    if missing and missing not in properties:
        return _finding(place, UNCLEAR, f"catalog {name}", f"type {kind}; the script does not set its {missing}")
    return _finding(place, WORKS, f"catalog {name}", f"type {kind}")


def _left_out(name: str, text: str) -> str | None:
    found = read_jar_settings({name: text}, log=False)
    if name not in found.removed and name not in found.changed:
        return None
    kept = found.changed.get(name)
    return f"the JARs are left out; {kept} stays" if kept else "the JARs are left out"


def _chain(chain: Chain, names: _Names, script: Script) -> Iterator[Finding]:
    calls = chain.calls
    for call in calls:
        if call.name == "sql" and (chain.root is not None or len(chain.names) > 1):
            yield from _sql(call, names)
        elif call.name in ("registerJavaFunction", "registerJavaUDAF"):
            yield _java_function(call)
        elif call.name == "writeTo" and isinstance(name := call.argument(0, "table"), str) and names.concern(name):
            yield _finding(call.place, WORKS, f"writeTo({name})")
        elif call.name in _ADDS_JARS and any(isinstance(each, str) and is_jar_package(each) for each in call.arguments):
            yield _finding(call.place, DIFFERS, call.name, "adds a JAR of Iceberg or Delta: remove the line")
    entry = next((name for name in chain.names if name in _ENTRIES), None)
    if entry is not None:
        yield from _frame_calls(chain, entry, names)
    elif (
        chain.names[:1] == ("table",)
        and isinstance(name := calls[0].argument(0, "tableName"), str)
        and names.concern(name)
    ):
        yield _finding(calls[0].place, WORKS, f"table({name})")
    if chain.root == "DeltaTable" or chain.root in script.delta_names:
        yield from _delta_table(chain)


def _frame_calls(chain: Chain, entry: str, names: _Names) -> Iterator[Finding]:
    """Check a chain of `read`, `write`, `readStream` or `writeStream`."""
    at = chain.names.index(entry)
    calls = [step for step in chain.steps[at + 1 :] if isinstance(step, Call)]
    end = next((n for n, call in enumerate(calls) if call.name in (*_READS, *_WRITES)), None)
    if end is None:
        return
    last, before = calls[end], calls[:end]
    given = {call.name: call for call in before}
    kind = last.keywords.get("format") or (given["format"].argument(0, "source") if "format" in given else None)
    kind = kind.lower() if isinstance(kind, str) else kind
    target = last.argument(0, "path", "tableName", "name")
    is_name = last.name in ("table", "saveAsTable", "insertInto", "toTable")
    is_ours = kind in _FORMATS or (is_name and isinstance(target, str) and names.concern(target))
    if not is_ours or (kind not in (*_FORMATS, None) and not is_name):
        return
    shown = target if isinstance(target, str) else UNKNOWN if last.arguments else ""
    subject = f"{entry}.{last.name}({shown})" + (f" of format {kind}" if isinstance(kind, str) else "")
    if "bucketBy" in given:
        yield _finding(
            given["bucketBy"].place, REFUSED, "bucketBy", "use df.writeTo(...).partitionedBy(bucket(n, column))"
        )
    problems = list(_options(before, last, entry))
    yield from problems
    if "bucketBy" not in given and not problems:
        yield _finding(last.place, WORKS, subject)


def _options(before: list[Call], last: Call, entry: str) -> Iterator[Finding]:
    """Check the options of a chain by the engine's own declarations."""
    given: list[tuple[str, Any, Place]] = []
    for call in before:
        if call.name == "option" and isinstance(call.argument(0, "key"), str):
            given.append((call.argument(0, "key"), call.argument(1, "value"), call.place))
        elif call.name == "options":
            given += [(name, value, call.place) for name, value in call.keywords.items()]
    own = (
        "format",
        "mode",
        "partitionBy",
        "path",
        "schema",
        "name",
        "tableName",
        "outputMode",
        "queryName",
        "overwrite",
    )
    given += [(name, value, last.place) for name, value in last.keywords.items() if name not in own]
    for name, value, place in given:
        if name.lower() in ("path", "checkpointlocation") or name.lower().startswith("fs."):
            continue
        is_known = value is not None and not (isinstance(value, str) and UNKNOWN in value)
        try:
            if entry in ("write", "writeStream"):
                WriteOptions.parse({name: value if is_known else None})
            else:
                ReadOptions.parse({name: value if is_known else None})
        except (InvalidOption, UnsupportedFeature) as error:
            yield _finding(place, REFUSED, f"option {name}", _first_line(error))


def _sql(call: Call, names: _Names) -> Iterator[Finding]:
    text = call.argument(0, "sqlQuery")
    if not isinstance(text, str):
        yield _finding(call.place, UNCLEAR, "sql", "its text is known only when the job runs")
        return
    if not names.concern(text.replace(UNKNOWN, "x")):
        return
    plain = re.sub(f"{UNKNOWN}+", "x", text)
    subject = f"{_shortened(text)}"
    try:
        problem = _statement_problem(plain)
    except LakescanError as error:
        if UNKNOWN in text:
            yield _finding(call.place, UNCLEAR, subject, "parts of its text are known only when the job runs")
            return
        at = re.search(r"line (\d+)", str(error))
        line = call.place.line + (int(at[1]) - 1 if at and isinstance(error, InvalidStatement) else 0)
        yield _finding(Place(line, call.place.cell), REFUSED, subject, _first_line(error))
        return
    yield _finding(call.place, REFUSED if problem else WORKS, subject, problem)


def _statement_problem(text: str) -> str:
    """Return why a statement about lakescan's tables is refused, or ""; raises the errors of the parser."""
    values = _Anything()
    statement = statement_of(text)
    if statement.kind is StatementKind.USE:
        return ""
    if parse_change(text, values) is not None:
        return ""
    found = parse_statement(text, values)
    if isinstance(found, Procedure):
        bind_arguments(find_procedure(found.name[-1]), found.positional, found.named)
    if found is not None:
        return "" if can_run(found) else "lakescan does not run this statement"
    if match := _NOT_RUN.match(text):
        return f"{' '.join(match[1].upper().split())} is for Spark's own tables"
    if statement.kind in (StatementKind.QUERY, StatementKind.EXPLAIN, StatementKind.DESCRIBE):
        parse_tree(statement.text)
    return ""


class _Anything(dict[str, Any]):
    """The values of a statement's parameters, which are known only when the job runs."""

    def __contains__(self, _: object) -> bool:
        return True

    def __missing__(self, _: str) -> str:
        return "1"


def _delta_table(chain: Chain) -> Iterator[Finding]:
    """Check the methods of `DeltaTable`, its builders of merges and of tables, and `optimize()`."""
    known = _delta_methods()
    for n, call in enumerate(chain.calls):
        if call.name in ("toDF", "history", "detail", "vacuum", "execute"):
            yield _finding(call.place, WORKS, f"DeltaTable: {call.name}")
            return
        if known and call.name not in known:
            yield _finding(
                call.place, REFUSED, f"DeltaTable: {call.name}", f"there is no such method.{nearest(call.name, known)}"
            )
            return
        if n == len(chain.calls) - 1:
            yield _finding(call.place, WORKS, f"DeltaTable: {call.name}")


def _delta_methods() -> set[str]:
    """Return the names of the methods of `DeltaTable` and of its builders."""
    from lakescan.spark.delta_tables import builders, merge, optimize, table

    classes = [
        value
        for module in (table, builders, merge, optimize)
        for value in vars(module).values()
        if isinstance(value, type) and value.__module__.startswith("lakescan.spark.delta_tables")
    ]
    return {name for each in classes for name in dir(each) if not name.startswith("_")}


def _imports(script: Script) -> Iterator[Finding]:
    for module, place in script.imports:
        if module == "delta" or module.startswith("delta."):
            yield _finding(place, WORKS, f"import {module}", "provided by lakescan")


def _java(text: str, place: Place) -> Finding:
    if re.search(r"\b(?:iceberg|delta)\b", text):
        return _finding(
            place, REFUSED, text, "the classes of the JARs are not there: use the methods of lakescan.Table"
        )
    return _finding(place, DIFFERS, text, "Spark's Java objects are there, those of Iceberg and Delta are not")


def _java_function(call: Call) -> Finding:
    name = call.argument(1, "javaClassName")
    if isinstance(name, str) and re.search(r"\b(?:iceberg|delta)\b", name):
        return _finding(call.place, REFUSED, call.name, f"the class {name} is in the JARs")
    return _finding(call.place, WORKS, call.name, "Spark's own, with the JAR that has the class")


def _shortened(text: str) -> str:
    plain = " ".join(text.split())
    return plain if len(plain) <= 70 else f"{plain[:67]}..."


def _first_line(error: Exception) -> str:
    text = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    return text.partition(" Valid: ")[0]
