"""Open the tables that a statement names, by catalog or path. Each table is read in one snapshot or version."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from keyword import iskeyword
from typing import Any

from lakescan.api.changes import are_computed
from lakescan.api.open import open_table, split_metadata_name
from lakescan.api.scan import Scan
from lakescan.api.table import Table
from lakescan.catalogs.registry import catalog_names, is_known
from lakescan.catalogs.views import StoredView
from lakescan.common.identifiers import Identifier
from lakescan.common.schema import Schema
from lakescan.common.timestamps import from_millis
from lakescan.errors import (
    InvalidOption,
    InvalidStatement,
    IsAView,
    NoSuchNamespace,
    NoSuchSnapshot,
    NoSuchTable,
    NotATable,
    UnsupportedFeature,
    nearest,
)
from lakescan.expressions.predicate import TRUE
from lakescan.formats.metadata_table import MetadataTable
from lakescan.options.read import ReadOptions
from lakescan.statements.select.relations import Pushdown
from lakescan.statements.select.session import QuerySettings, SessionNames
from lakescan.statements.select.table_changes import is_of_rows
from lakescan.statements.select.table_references import Occurrence, TimeTravel
from lakescan.statements.select.timestamps import moment_of
from lakescan.statements.syntax.text import underline_place
from lakescan.tables.scan_spec import ScanSpec
from lakescan.tables.wap import apply_session_reads

_STATE = re.compile(r"(snapshot_id|at_timestamp)_(\d+)", re.IGNORECASE)  # the last part of a name in Iceberg
FORMATS = ("iceberg", "delta")


@dataclass(frozen=True)
class ResolvedTable:
    """The table that an occurrence names.

    - `spec`: the scan of the table.
    - `metadata`: the name of the metadata table that is read instead, such as `snapshots`; otherwise None.
    - `full`: the name including its catalog, or empty without one. Any trailing part of it may qualify a column.
    - `is_given`: whether the user passed a scan with a limit or struct members. Nothing is pushed into such a scan.
    - `is_changes`: whether it scans the changes of a table.
    - `hidden`: metadata columns that the statement names, and that `*` leaves out.
    """

    spec: ScanSpec
    metadata: str | None = None
    full: tuple[str, ...] = ()
    is_given: bool = False
    is_changes: bool = False
    hidden: frozenset[str] = frozenset()

    def with_hidden(self, names: Collection[str]) -> ResolvedTable:
        """Return the table with its metadata columns in `names` (in lower case) added as hidden columns.

        Metadata tables, changes and limited scans are returned unchanged.
        """
        if self.metadata is not None or self.is_given or self.is_changes:
            return self
        own = self.spec.output.names
        found = [
            each.name for each in self.spec.snapshot.metadata_columns if each.name in names and each.name not in own
        ]
        if not found:
            return self
        spec = self.spec.select_columns(self.spec.selectable.select([*own, *found]))
        return replace(self, spec=spec, hidden=frozenset(found))

    @property
    def is_net(self) -> bool:
        """Whether it scans changes that are computed from added and removed files instead of recorded by the table.

        Rows that a commit only moved cancel out after the scan.
        """
        return self.is_changes and are_computed(self.spec)

    @property
    def schema(self) -> Schema | None:
        """The columns of a scan that accepts conditions; None for a metadata table or a limited scan."""
        return None if self.metadata is not None or self.is_given else self.spec.output

    @property
    def metadata_table(self) -> MetadataTable | None:
        """The metadata table, if the occurrence names one; otherwise None."""
        return None if self.metadata is None else self.spec.metadata_table(self.metadata)

    def narrow(self, pushed: Pushdown) -> ScanSpec:
        """Return the scan narrowed by a pushdown.

        Conditions on the metadata columns of net changes are left to the engine.
        """
        spec = self.spec
        if self.is_net:  # conditions on the kind of change, and a limit after them, cannot be evaluated in the scan
            kept = [each for each in pushed.conditions if is_of_rows(each, spec)]
            pushed = Pushdown(pushed.columns, kept, pushed.limit if len(kept) == len(pushed.conditions) else None)
        if pushed.predicate != TRUE:
            spec = spec.where(pushed.predicate)
        if pushed.columns is not None:
            spec = spec.select_columns(spec.output.select(pushed.columns))
        return spec if pushed.limit is None else spec.limit(pushed.limit)


@dataclass
class TableResolver:
    """Opens the tables of one statement. A table that is named twice is opened once, and read in one snapshot.

    - `text`: the statement, which messages underline.
    - `within`: the catalog and namespace of short names (`USE`).
    - `frames`: tables and scans that the user passed, by name.
    - `views`: the engine's own tables, views and frames.
    - `values`: the statement's parameters, by name.
    - `_opened`: scans by name. `_at`: scans by location and time travel. `_views_of`: views by name. `_missing`: errors
      of unknown tables by name.
    """

    text: str
    within: tuple[str, ...]
    frames: Mapping[str, Table | Scan]
    settings: QuerySettings
    views: SessionNames = field(default_factory=lambda: SessionNames())
    values: Mapping[str, Any] = field(default_factory=dict)
    _opened: dict[tuple[str, ...], ScanSpec] = field(default_factory=dict)
    _at: dict[tuple[str, str], ScanSpec] = field(default_factory=dict)
    _views_of: dict[tuple[str, ...], StoredView | None] = field(default_factory=dict)
    _missing: dict[tuple[str, ...], NoSuchTable | NoSuchNamespace] = field(default_factory=dict)

    def pin(self, spec: ScanSpec) -> None:
        """Read the table of a scan in that scan's snapshot, wherever the statement names it."""
        self._at[spec.table.location, str(None)] = replace(spec, selector=None)

    def resolve_table(self, each: Occurrence) -> ResolvedTable | None:
        """Return the table of an occurrence; None if the name can only be the engine's (a view or frame).

        Raises `NoSuchTable` and the errors of opening the table. The message underlines the name in the text.
        """
        try:
            found = self._find(each.names)
            if found is None:
                return None
            if each.changes is not None:
                return self._resolve_changes(found, each)
            spec = self._with_options(self._time_travel(found.spec, each.travel), each)
            return replace(found, spec=spec if found.metadata else apply_session_reads(spec, self.settings.session))
        except (NoSuchTable, NoSuchNamespace, NotATable) as error:
            raise type(error)(f"{error}{underline_place(self.text, each.start, each.end)}") from error

    def _with_options(self, spec: ScanSpec, each: Occurrence) -> ScanSpec:
        """Return the scan with the occurrence's read options. Raises `InvalidOption`, which underlines the table."""
        if not each.options:
            return spec
        try:
            return spec.with_options(each.options)
        except InvalidOption as error:
            raise InvalidOption(f"{error}{underline_place(self.text, each.start, each.end)}") from error

    def view(self, names: tuple[str, ...]) -> StoredView | None:
        """Return the catalog's view that a name refers to; None for any other name, even an unknown one."""
        if names not in self._views_of:
            self._views_of[names] = self._view(names)
        return self._views_of[names]

    def _view(self, names: tuple[str, ...]) -> StoredView | None:
        if (stored := self.views.stored_view(names)) is not None:
            return stored
        try:
            self._find(names)
        except IsAView as error:
            return error.found if isinstance(error.found, StoredView) else None
        except (NoSuchTable, NoSuchNamespace, NotATable):
            return None  # `resolve_table` raises this error, with the place
        return None

    def _resolve_changes(self, found: ResolvedTable, each: Occurrence) -> ResolvedTable:
        """Return the scan of the table's changes that a call of `table_changes` reads.

        Raises `InvalidStatement` for a metadata table, and the errors of the range, which underline the call.
        """
        place = underline_place(self.text, each.start, each.end)
        if found.metadata is not None:
            raise InvalidStatement(f"the metadata table {found.metadata!r} has no changes{place}")
        assert each.changes is not None
        try:
            spec = each.changes.changes_scan(found.spec, self.settings.zone)
        except (InvalidOption, NoSuchSnapshot) as error:
            raise type(error)(f"{error}{place}") from error
        except UnsupportedFeature as error:
            raise UnsupportedFeature(error.feature, f"{error.detail}{place}") from error
        return replace(found, spec=spec, is_given=False, is_changes=True)

    def _find(self, names: tuple[str, ...]) -> ResolvedTable | None:
        if len(names) == 1 and (frame := self._frame(names[0])) is not None:
            return ResolvedTable(frame, is_given=not frame.selection.is_plain or frame.max_rows is not None)
        if names[0].lower() in FORMATS and (len(names) == 2 or (len(names) == 3 and not is_known(names[0]))):
            path, metadata = split_metadata_name(names[1])
            return self._with_part(self._open_path(names[0].lower(), path), metadata or (names[2:] or (None,))[0])
        if (own := self.views.full_name(names)) is not None:
            return replace(self._resolve_in_catalog(own), full=own)
        if len(names) == 1 and self.views.has(names[0]):
            return None
        if len(names) > 1 and self.views.has_catalog(names[0]) and not self._is_ours(names[0]):
            return None
        candidates = self._candidates(names)
        for n, full in enumerate(candidates):
            try:
                return replace(self._resolve_in_catalog(full), full=full)
            except IsAView:
                raise
            except (NoSuchTable, NoSuchNamespace):
                if n == len(candidates) - 1:
                    raise
        return None

    def _is_ours(self, catalog: str) -> bool:
        return is_known(catalog) and catalog.lower() != "spark_catalog"

    def _frame(self, name: str) -> ScanSpec | None:
        found = {each.lower(): frame for each, frame in self.frames.items()}.get(name.lower())
        return None if found is None else (found.scan() if isinstance(found, Table) else found).spec

    def _candidates(self, names: tuple[str, ...]) -> list[tuple[str, ...]]:
        """Return the full names that a name may mean, in order of precedence; empty if it can only be the engine's."""
        if len(names) > 2 and is_known(names[0]):
            return [names]
        if not self.within:
            return []
        in_namespace = (*self.within, *names)
        return [in_namespace] if len(names) == 1 else [(self.within[0], *names), in_namespace]

    def _resolve_in_catalog(self, names: tuple[str, ...]) -> ResolvedTable:
        """Return a table, or else a metadata table, branch or tag of the table that the name begins with.

        `names` begins with the catalog. Raises `NoSuchTable`, `NoSuchNamespace`, and `IsAView` for a view.
        """
        try:
            return ResolvedTable(self._open(names, Identifier(names[0], names[1:-1], names[-1]), None))
        except IsAView:
            raise
        except (NoSuchTable, NoSuchNamespace, UnsupportedFeature) as error:
            may_be_table = len(names) > 3 and (not isinstance(error, UnsupportedFeature) or "." in names[-2])
            if not may_be_table:  # a name with a dot may name a table, but not a namespace
                raise
            try:
                base = self._open(names[:-1], Identifier(names[0], names[1:-2], names[-2]), None)
            except IsAView as error:
                raise InvalidStatement(
                    f"{'.'.join(names[:-1])} is a view, which has no {names[-1]!r}: only tables have metadata tables, "
                    "branches and tags"
                ) from error
            except (NoSuchTable, NoSuchNamespace):
                base = None
            if base is None:
                raise
        return self._with_part(base, names[-1])

    def _open_path(self, format_name: str, path: str) -> ScanSpec:
        return self._open((format_name, path), path, format_name)

    def _open(self, key: tuple[str, ...], what: str | Identifier, format_name: str | None) -> ScanSpec:
        if key in self._missing:
            raise self._missing[key]
        if key not in self._opened:
            given = {"time-zone": self.settings.zone} | ({} if format_name is None else {"format": format_name})
            try:
                spec = open_table(what, ReadOptions.parse(given)).scan().spec
            except (NoSuchTable, NoSuchNamespace) as error:
                self._missing[key] = error
                raise
            self._opened[key] = self._at.setdefault((spec.table.location, str(spec.selector)), spec)
        return self._opened[key]

    def _with_part(self, spec: ScanSpec, part: str | None) -> ResolvedTable:
        """Return the table, or the branch, tag or metadata table that `part`, the last part of a name, selects.

        Raises `NoSuchTable` for an unknown metadata table.
        """
        if part is None:
            return ResolvedTable(spec)
        for prefix in ("branch", "tag"):
            if part.lower().startswith(f"{prefix}_"):
                return ResolvedTable(spec.as_of(**{prefix: part[len(prefix) + 1 :]}))
        tables = spec.table.metadata_tables
        if "snapshots" in tables and (match := _STATE.fullmatch(part)) is not None:  # Iceberg's
            number = int(match[2])
            if match[1].lower() == "snapshot_id":
                return ResolvedTable(spec.as_of(version=number))
            return ResolvedTable(spec.as_of(timestamp=from_millis(number)))
        is_changelog = part.lower() == "changes"
        if is_changelog and "snapshots" in tables:  # Iceberg's changelog, of all snapshots
            return ResolvedTable(spec.at(spec.table.changes_between(None, None, ())), is_changes=True)
        if part.lower() not in tables:
            meant = " table_changes('catalog.namespace.table', start) reads changes of rows." if is_changelog else ""
            raise NoSuchTable(f"the table has no metadata table {part!r}.{meant or nearest(part, tables)}")
        return ResolvedTable(spec, part.lower())

    def _time_travel(self, spec: ScanSpec, travel: TimeTravel | None) -> ScanSpec:
        if travel is None:
            return spec
        if spec.selector is not None:
            words = "TIMESTAMP AS OF" if travel.by_time else "VERSION AS OF"
            raise InvalidOption(f"the name already selects {spec.selector.describe()}: leave {words} out")
        if (value := self._parameter(travel)) is not None:
            is_moment = isinstance(value, str | date if travel.by_time else str | int) and not isinstance(value, bool)
            if not is_moment:
                what = "TIMESTAMP AS OF takes a time" if travel.by_time else "VERSION AS OF takes a number or a text"
                raise InvalidStatement(f"{what}, and the parameter :{travel.expression.name} is {value!r:.40}")
            return spec.as_of(timestamp=value) if travel.by_time else spec.as_of(version=value)
        if travel.by_time:
            return spec.as_of(timestamp=moment_of(travel.expression, self.settings.zone))
        from sqlglot import exp

        value = travel.expression
        if not isinstance(value, exp.Literal) or not (value.is_string or value.name.isdecimal()):
            raise InvalidStatement(f"VERSION AS OF takes a number or a text, not {value.sql('spark')}")
        return spec.as_of(version=value.name if value.is_string else int(value.name))

    def _parameter(self, travel: TimeTravel) -> Any:
        """Return the value of the time travel's parameter; None if the expression is not a parameter.

        Raises `InvalidStatement` for a null.
        """
        from sqlglot import exp

        name = travel.expression.name
        if not isinstance(travel.expression, exp.Placeholder) or name not in self.values:
            return None
        if self.values[name] is None:
            raise InvalidStatement(f"the parameter :{name} is null, and AS OF needs a version or a timestamp")
        return self.values[name]

    def refuse_changes(self, each: Occurrence) -> None:
        """Raise `InvalidStatement` if `table_changes` or read options are used on a frame."""
        if each.changes is not None:
            place = underline_place(self.text, each.start, each.end)
            raise InvalidStatement(f"table_changes takes an Iceberg or Delta table: {each.names[0]} is a frame{place}")
        if each.options:
            place = underline_place(self.text, each.start, each.end)
            raise InvalidStatement(f"{each.names[0]} is a frame: options are for Iceberg and Delta tables{place}")

    def not_found_error(self, each: Occurrence, more: Callable[[], list[str]]) -> NoSuchTable:
        """Build the error for a table that does not exist. `more` returns further names to suggest."""
        name = ".".join(each.names)
        candidates = [*self.frames, *more(), *(".".join((catalog, *each.names[1:])) for catalog in catalog_names())]
        hint = nearest(name, candidates) or (
            " Tables are named catalog.namespace.table (see lakescan.catalog), iceberg.`path` or delta.`path`; short "
            f"names need USE. Give rows of your own by name: lakescan.sql(text, {_keyword(each.names[-1])}=rows)."
        )
        return NoSuchTable(f"there is no table {name!r}.{hint}{underline_place(self.text, each.start, each.end)}")


def _keyword(name: str) -> str:
    return name if name.isidentifier() and not iskeyword(name) else "name"
