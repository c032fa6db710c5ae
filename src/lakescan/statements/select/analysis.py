"""Analyze a query for any engine: parse it, open its tables, and narrow the scan of each."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import pyarrow as pa

from lakescan.api.changes import Changes
from lakescan.api.scan import Scan
from lakescan.api.table import Table
from lakescan.common import types as t
from lakescan.common.metadata_columns import FILE_METADATA
from lakescan.errors import InvalidStatement, UnsupportedFeature, nearest
from lakescan.formats.metadata_table import MetadataTable
from lakescan.local.aggregates import aggregates_by_metadata
from lakescan.statements.duckdb.translate import DuckDBQuery, QueryTable, translate_query
from lakescan.statements.duckdb.types import comparable_type, spark_type
from lakescan.statements.select.conditions import ValuesOf
from lakescan.statements.select.join_keys import JoinKeys
from lakescan.statements.select.pushdown import find_pushdowns
from lakescan.statements.select.relations import Pushdown
from lakescan.statements.select.renaming import expand_session_views, rename_tables
from lakescan.statements.select.session import QuerySettings, SessionNames
from lakescan.statements.select.table_changes import is_call
from lakescan.statements.select.table_references import Occurrence, occurrences
from lakescan.statements.select.table_resolution import ResolvedTable, TableResolver
from lakescan.statements.select.view_expansion import expand_catalog_views
from lakescan.statements.syntax.parse import Arguments, has_pipes, name_parameters, parse_tree, substitute_literals
from lakescan.statements.syntax.spark_syntax import (
    check_hints,
    resolve_identifiers,
    restore_with_clauses,
    rewrite_syntax,
)
from lakescan.statements.syntax.text import apply_edits, tokens
from lakescan.tables.scan_spec import ScanSpec

PREFIX = "lakescan_table_"
_ABSENT = re.compile(r"^(there is no column '(?:[^\n]*\.)?([^\n.]*)'\.) There are: [^\n]*?\.(?=\Z| \(line)")


@dataclass(frozen=True)
class QueryAnalysis:
    """A parsed query, with its tables opened.

    - `text`: the statement, with names for its parameters. `tree`: its sqlglot tree. `values`: its parameters, by name.
    - `tables`: the resolver that opened the tables.
    - `named`: the table of each occurrence. `unknown`: occurrences that can only be views or frames of the engine.
    - `frames`: the rows that the user passed by name, for queries in this process.
    - `reads_keys`: whether keys of joins prune scans.
    """

    text: str
    tree: Any
    values: Mapping[str, Any]
    tables: TableResolver
    named: Mapping[Occurrence, ResolvedTable]
    unknown: tuple[Occurrence, ...]
    frames: Mapping[str, pa.Table] = field(default_factory=dict)
    reads_keys: bool = True

    @cached_property
    def pushdowns(self) -> dict[Occurrence, Pushdown]:
        """The columns, conditions and limit to push into each scan. Metadata tables are left out.

        Nothing is pushed if session settings change the meaning of the text (`QuerySettings.reads_as_default`), for
        pipe syntax, and for a statement that is nested too deeply.
        """
        nothing = {each: Pushdown() for each, named in self.named.items() if named.schema is not None}
        if not self.tables.settings.reads_as_default or has_pipes(self.text):
            return nothing
        try:
            return self._find_pushdowns()
        except RecursionError:  # nested too deep
            return nothing

    def _find_pushdowns(self) -> dict[Occurrence, Pushdown]:
        schemas = {each: schema for each, named in self.named.items() if (schema := named.schema) is not None}
        columns = {each: self.tables.views.columns(each.names[0]) for each in self.unknown if len(each.names) == 1}
        frames = {each: names for each, names in columns.items() if names is not None}
        if not self.values:
            return find_pushdowns(self.tree, schemas, frames, self.tables.settings)
        known = substitute_literals(self.tree.copy(), self.values)
        twins = dict(zip(map(id, _tables(self.tree)), _tables(known), strict=True))
        moved = {each: each.at(twins[id(each.node)]) for each in (*schemas, *frames)}
        found = find_pushdowns(
            known,
            {moved[each]: schema for each, schema in schemas.items()},
            {moved[each]: names for each, names in frames.items()},
            self.tables.settings,
        )
        back = {new: each for each, new in moved.items()}
        return {back[new]: pushed.map_occurrences(back) for new, pushed in found.items()}

    @cached_property
    def scans(self) -> dict[Occurrence, ScanSpec]:
        """The scan of each table, narrowed by the statement's conditions and pruned by join keys.

        Metadata tables are left out.
        """
        return self.join_keys.scans | {each: named.spec for each, named in self.named.items() if named.is_given}

    @cached_property
    def join_keys(self) -> JoinKeys:
        """The scans, narrowed by the statement's own conditions, and the joins whose keys may prune them further."""
        specs = {each: self.named[each].narrow(pushed) for each, pushed in self.pushdowns.items()}
        among = {
            each: [(path, values) for path, values in pushed.among if all(map(self._has_keys, values))]
            for each, pushed in self.pushdowns.items()
            if self.reads_keys and not self.named[each].is_net
        }
        return JoinKeys(specs, among, rows=lambda each: self.tables.views.rows(each.names[0]))

    def without_join_keys(self) -> QueryAnalysis:
        """Return the analysis of the same query in which keys of joins prune no scans."""
        found = replace(self, reads_keys=False)
        found.__dict__["pushdowns"] = self.pushdowns  # they do not depend on keys
        return found

    def _has_keys(self, values: ValuesOf) -> bool:
        """Return whether the column `values` may provide keys that prune other scans.

        This is false for net changes, where changes cancel out only after the scan.
        """
        return values.occurrence not in self.named or not self.named[values.occurrence].is_net

    def reads_table(self, location: str) -> bool:
        """Return whether the query reads a table with exactly this location."""
        return any(named.spec.table.location == location for named in self.named.values())

    @property
    def aggregate_table(self) -> Occurrence | None:
        """The only table of a query that selects just counts, minimums and maximums; None for other queries.

        The changes of a table do not count.
        """
        found = [
            each for each, pushed in self.pushdowns.items() if pushed.aggregates and not self.named[each].is_changes
        ]
        return found[0] if found else None

    @cached_property
    def metadata_row(self) -> list[pa.Scalar] | None:
        """The values of the only result row, if metadata is enough to compute them; otherwise None."""
        each = self.aggregate_table
        return None if each is None else aggregates_by_metadata(self.scans[each], self.pushdowns[each].aggregates)

    @cached_property
    def metadata(self) -> dict[Occurrence, MetadataTable]:
        """The metadata tables that the query reads, by occurrence."""
        found = {each: named.metadata_table for each, named in self.named.items()}
        return {each: table for each, table in found.items() if table is not None}

    @cached_property
    def names(self) -> dict[str, ScanSpec | Changes | MetadataTable]:
        """The scan, changes or metadata table of each occurrence, by the name that `name_of` returns."""
        return dict(zip(map(self.name_of, self.named), map(self._row_source, self.named), strict=True))

    def _row_source(self, each: Occurrence) -> ScanSpec | Changes | MetadataTable:
        if self.named[each].is_net:
            return Changes(self.scans[each])
        return self.scans[each] if each in self.scans else self.metadata[each]

    def name_of(self, each: Occurrence) -> str:
        """Return the engine's name for a table, such as `lakescan_table_0`.

        The statement does not contain this name.
        """
        number = list(self.named).index(each)
        return f"{PREFIX}{'_' * self.text.lower().count(PREFIX)}{number}"

    @cached_property
    def duckdb_query(self) -> DuckDBQuery:
        """The query in DuckDB's dialect. Tables are named by `name_of`, and frames as by the user.

        Raises `UnsupportedFeature` for pipe syntax and for SQL that cannot be translated, and `InvalidStatement` for an
        invalid query.
        """
        if has_pipes(self.text):
            raise UnsupportedFeature(
                "|> in SQL that runs in this process", "Run the statement with lakescan.spark.sql."
            )
        places = {each.start: each for each in self.named}

        def query_table(table: Any) -> QueryTable:
            first = table.this if is_call(table) else table.parts[0]
            each = places.get(first.meta.get("start"))
            if each is not None:
                hidden = self.named[each].hidden
                return QueryTable(self.name_of(each), self._columns(each), each.qualifiers, self._pads(each), hidden)
            name, rows = next((n, f) for n, f in self.frames.items() if n.lower() == table.name.lower())
            columns = [(field.name, spark_type(field.type)) for field in rows.schema]
            return QueryTable(name, columns, frozenset({(name.lower(),)}))

        try:
            return translate_query(self.text, query_table, self.values)
        except InvalidStatement as error:
            raise InvalidStatement(_ABSENT.sub(self._with_hint, str(error))) from error

    def _with_hint(self, absent: re.Match[str]) -> str:
        """Return the message about an unknown column, with suggestions from all columns of the tables.

        `absent` is the match of `_ABSENT` in the message.
        """
        schemas = [named.schema for named in self.named.values() if named.schema is not None]
        hidden = {name for named in self.named.values() for name in named.hidden}
        names = [field.name for schema in schemas for field in schema.fields if field.name not in hidden]
        if not names:
            return absent[0]
        return absent[1] + (nearest(absent[2], names) or f" There are: {', '.join(names[:20])}.")

    def _columns(self, each: Occurrence) -> list[tuple[str, t.Type]]:
        found = self._row_source(each)
        if isinstance(found, Changes):
            return [(field.name, spark_type(field.type)) for field in found.schema]
        schema = found.output if isinstance(found, ScanSpec) else found.schema
        return [(field.name, comparable_type(field.type)) for field in schema.fields]

    def _pads(self, each: Occurrence) -> dict[str, int]:
        """Return the length of each CHAR(n) column of an occurrence, by name; empty for a metadata table."""
        spec = self.scans.get(each)
        return {} if spec is None else {field.name: field.pad for field in spec.output.fields if field.pad}

    def text_with(self, names: Mapping[Occurrence, str]) -> str:
        """Return the statement's text with each table replaced by its name in `names`.

        Added aliases keep the qualifiers of columns valid.
        """
        return restore_with_clauses(rename_tables(self.text, self.tree, names))


def _metadata_names(tree: Any, shows_all: bool) -> set[str]:
    """Return the names in a query that begin with `_`, in lower case. They may be metadata columns, such as `_file`.

    The result is empty if the engine's `*` returns metadata columns too (`shows_all`) and the query has a star.
    """
    from sqlglot import exp

    names = {each.name.lower() for each in tree.find_all(exp.Identifier) if each.name.startswith("_")}
    if "_metadata" in names:
        names.update(FILE_METADATA)
    if names and shows_all and any(not isinstance(each.parent, exp.Count) for each in tree.find_all(exp.Star)):
        return set()
    return names


def _tables(tree: Any) -> list[Any]:
    from sqlglot import exp

    return list(tree.find_all(exp.Table))


def analyze(
    text: str,
    arguments: Arguments,
    frames: Mapping[str, Table | Scan],
    within: tuple[str, ...],
    settings: QuerySettings,
    views: SessionNames | None = None,
    pinned: ScanSpec | None = None,
) -> QueryAnalysis:
    """Parse a query and open its tables.

    - `arguments`: the values of the statement's parameters.
    - `frames`: the tables and scans that the user passed by name.
    - `within`: the catalog and namespace of short names.
    - `views`: the engine's own tables, views and frames, if any.
    - `pinned`: a scan whose snapshot is read wherever the statement names its table.

    Raises `InvalidStatement` for an invalid query, and the errors of opening its tables.
    """
    text, values = with_collections(*name_parameters(text, arguments))
    text = rewrite_syntax(text)
    tree = parse_tree(text)
    if (named_text := resolve_identifiers(text, tree, values)) != text:
        text, tree = named_text, parse_tree(named_text)
    views = views or SessionNames()
    if views.has_queries and (whole_text := expand_session_views(text, views, frames, values)) != text:
        text, tree = whole_text, parse_tree(whole_text)
    tables = TableResolver(text, within, frames, settings, views, values)
    if pinned is not None:
        tables.pin(pinned)
    if (whole_text := expand_catalog_views(text, tree, tables, values)) != text:
        text, tree = whole_text, parse_tree(whole_text)
        tables.text = text
    places = occurrences(tree, text, values)
    check_hints(text, [each.end for each in places if each.options])
    found = [(each, tables.resolve_table(each)) for each in places]
    if hidden := _metadata_names(tree, settings.shows_all):
        found = [(each, None if what is None else what.with_hidden(hidden)) for each, what in found]
    named = {replace(each, full=what.full): what for each, what in found if what is not None}
    return QueryAnalysis(text, tree, values, tables, named, tuple(each for each, what in found if what is None))


_Values = dict[str, Any]


def with_collections(text: str, values: Mapping[str, Any]) -> tuple[str, _Values]:
    """Rewrite parameters that are lists and mappings to `array(:ids_0, :ids_1)` and `map(:m_k0, :m_v0)`.

    Values never become part of the text. Returns the text, and the values of all parameters by name.

    Example:
        >>> with_collections("SELECT :ids", {"ids": [7, 8]})
        ('SELECT array(:ids_0, :ids_1)', {'ids_0': 7, 'ids_1': 8})
    """
    collections = {name: value for name, value in values.items() if _is_collection(value)}
    if not collections:
        return text, dict(values)
    found: _Values = {name: value for name, value in values.items() if name not in collections}
    made = {name: _expression(name, value, values, found) for name, value in collections.items()}
    words = list(tokens(text))
    edits = [
        (colon.start, name.end + 1, made[name.text])
        for before, colon, name in zip([None, *words], words, words[1:], strict=False)
        if colon.token_type.name == "COLON"
        and colon.end + 1 == name.start
        and name.text in made
        and (before is None or before.end + 1 != colon.start or before.token_type.name in ("L_PAREN", "COMMA", "EQ"))
    ]
    return apply_edits(text, edits), found


def _is_collection(value: Any) -> bool:
    return isinstance(value, Mapping | list | tuple)


def _expression(name: str, value: Any, taken: Mapping[str, Any], found: _Values) -> str:
    """Return the SQL of a parameter's value: `array(...)` for a list, `map(...)` for a mapping, otherwise `:name`.

    The values inside are added to `found` as parameters, with names that are not in `taken`.
    """
    if isinstance(value, Mapping):
        parts = [
            _expression(f"{name}_{side}{n}", each, taken, found)
            for n, pair in enumerate(value.items())
            for side, each in zip("kv", pair, strict=True)
        ]
        return f"map({', '.join(parts)})"
    if _is_collection(value):
        items: Sequence[Any] = value
        return f"array({', '.join(_expression(f'{name}_{n}', each, taken, found) for n, each in enumerate(items))})"
    while name in taken or name in found:
        name += "_"
    found[name] = value
    return f":{name}"
