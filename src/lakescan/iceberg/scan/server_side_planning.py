"""Plan a snapshot on the catalog's server (REST specification, `planTableScan`), and convert the tasks to file tables.

The server gets the part of the filter that the REST expression model can express. It may return files without matching
rows, so files are pruned again here, and readers test rows by the whole filter. Plan tasks, which stand for more files,
are fetched by the planning executor (on Spark, by its workers).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any, Protocol, runtime_checkable
from uuid import UUID

import pyarrow as pa

from lakescan import limits
from lakescan.common.executors import PlanningExecutor, executor_for
from lakescan.common.metadata_columns import LAST_UPDATED, ROW_ID
from lakescan.common.schema import Schema
from lakescan.errors import LimitExceeded, UnsupportedFeature
from lakescan.expressions.json_codec import PredicateEncoder
from lakescan.expressions.literals import plain_value
from lakescan.expressions.predicate import (
    TRUE,
    ColumnComparison,
    ColumnTest,
    In,
    IsNaN,
    Like,
    Predicate,
    SqlCondition,
    conjuncts,
    leaves,
    replace_sql,
)
from lakescan.formats.table_format import FileRequest
from lakescan.iceberg.metadata.table_metadata import IcebergSnapshot, TableMetadata
from lakescan.iceberg.scan.manifest_scan import ManifestScan
from lakescan.iceberg.scan.server_scan_tasks import candidates_of, plan_tasks_of
from lakescan.planning.candidates import Candidates
from lakescan.storage import Storage
from lakescan.storage.vended_credentials import Credential, CredentialSource

_ALWAYS_SHARED = 2**62  # a size of metadata, in bytes, for which an available executor is always used


@dataclass(frozen=True)
class CompletedPlan:
    """A completed plan: its tasks (`ScanTasks`), and the credentials for its files.

    `id` is None if the server keeps nothing of the plan. `renewed_by` requests new credentials when they expire; None
    if they cannot be renewed.
    """

    tasks: Mapping[str, Any]
    id: str | None
    credentials: Sequence[Credential]
    renewed_by: CredentialSource | None = None


class PlanningServer(Protocol):
    """The server of a catalog that plans scans of one table. It is pickled for workers."""

    @property
    def name(self) -> str:
        """The table's name for messages."""

    def planned(self, request: Mapping[str, Any]) -> CompletedPlan:
        """Submit a plan (`PlanTableScanRequest`), and wait for it.

        Raises `StorageError` if the server fails, or does not complete the plan in time.
        """

    def tasks(self, plan_task: str) -> Mapping[str, Any]:
        """Return the scan tasks that a plan task stands for; raises `StorageError`."""

    def cancel(self, plan_id: str) -> None:
        """Cancel the rest of a plan on the server, because it is not needed; never raises."""


@runtime_checkable
class PlanningSource(Protocol):
    """A metadata source whose catalog server may plan scans."""

    def planner(self, mode: str | None) -> PlanningServer | None:
        """Return the server, or None to plan in this process.

        `mode` is the reader's choice, 'client' or 'server'. Raises `InvalidOption` if the table requires the other
        mode, `UnsupportedFeature` for a server that does not plan.
        """


@dataclass(frozen=True)
class ServerPlan:
    """Plans one snapshot on the server for one request; `schema` is that of the snapshot."""

    server: PlanningServer
    metadata: TableMetadata
    schema: Schema
    request: FileRequest
    storage: Storage

    def plan(self, snapshot: IcebergSnapshot) -> Iterator[Candidates]:
        """Yield the candidates of the snapshot, one answer of the server at a time.

        Raises `UnsupportedFeature` for row lineage columns, which the server's tasks lack, and `LimitExceeded` for more
        than `limits.PLAN_TASKS` plan tasks.
        """
        if not {ROW_ID.id, LAST_UPDATED.id}.isdisjoint(self.request.reads):
            raise UnsupportedFeature(
                f"row lineage ({ROW_ID.name}, {LAST_UPDATED.name}) in scans of {self.server.name} that its catalog "
                "plans",
                "Leave these columns out, or read with the option scan-planning-mode=client, if the catalog allows it.",
            )
        planned = self.server.planned(self._body(snapshot))
        self.storage.use(planned.credentials, planned.renewed_by)
        fetch = _Fetch(self.server, self._scan)
        left = planned.id is not None
        try:
            yield from candidates_of(planned.tasks, self._scan, f"the plan of {self.server.name}")
            tokens = list(plan_tasks_of(planned.tasks, f"the plan of {self.server.name}"))
            asked = 0
            while tokens:
                asked += len(tokens)
                if asked > limits.PLAN_TASKS:
                    raise LimitExceeded(
                        f"the plan of {self.server.name} has more than {limits.PLAN_TASKS:,} plan tasks. If the scan "
                        "is that large, raise lakescan.limits.PLAN_TASKS."
                    )
                more = list[str]()
                for each in self._executor.map(fetch, tokens):
                    yield from each.candidates
                    more += each.plan_tasks
                tokens = more
            left = False
        finally:
            if left and planned.id is not None:
                self.server.cancel(planned.id)

    def _body(self, snapshot: IcebergSnapshot) -> dict[str, Any]:
        wanted = self.request
        body: dict[str, Any] = {
            "snapshot-id": snapshot.id,
            "case-sensitive": True,
            "use-snapshot-schema": self.schema.id != self.metadata.current_schema_id,
        }
        if (said := server_filter(wanted.predicate, self.schema)) is not None:
            body["filter"] = said
        if names := server_names(wanted.reads, self.schema):
            body["select"] = names
        if stats := server_names(wanted.columns(self.schema), self.schema):
            body["stats-fields"] = stats
        return body

    @property
    def _scan(self) -> ManifestScan:
        return ManifestScan(
            specs=self.metadata.specs,
            schema=self.schema,
            partition_names={field.id: field.name for field in self.metadata.partition_type.fields},
            predicate=self.request.predicate,
            columns=self.request.columns(self.schema),
            storage=self.storage,
            is_encrypted="encryption.key-id" in self.metadata.properties,
        )

    @property
    def _executor(self) -> PlanningExecutor:
        return executor_for(self.request.executor, self.request.data_mode, _ALWAYS_SHARED)


@dataclass(frozen=True)
class _FetchResult:
    candidates: tuple[Candidates, ...]
    plan_tasks: tuple[str, ...]


@dataclass(frozen=True)
class _Fetch:
    """Fetches the scan tasks of a plan task from the server, and converts them. Pickled for workers."""

    server: PlanningServer
    scan: ManifestScan

    def __call__(self, plan_task: str) -> _FetchResult:
        tasks = self.server.tasks(plan_task)
        what = f"a plan task of {self.server.name}"
        return _FetchResult(tuple(candidates_of(tasks, self.scan, what)), plan_tasks_of(tasks, what))


# Only conditions that the REST expression model expresses with the same meaning are sent. Others are left to the
# reader, such as comparisons of floating-point numbers (NaN) or nanoseconds, and SQL conditions. The reader tests the
# whole filter anyway.


class _NotExpressible(Exception):
    """The REST expression model cannot express this predicate with the same meaning."""


def server_filter(predicate: Predicate, schema: Schema) -> Any:
    """Return the part of a bound filter that the REST expression model can express, as JSON, or None."""
    found = [said for part in conjuncts(replace_sql(predicate)) if (said := _encode_part(part, schema)) is not None]
    if not found:
        return None
    whole = found[0]
    for each in found[1:]:
        whole = {"type": "and", "left": whole, "right": each}
    return whole


def server_names(ids: Any, schema: Schema) -> list[str]:
    """Return the names of the fields `ids` as the REST specification writes them, sorted.

    Fields without such a name are left out; see `_name`.
    """
    return sorted(name for each in ids if (name := _name(each, schema)) is not None)


def _encode_part(part: Predicate, schema: Schema) -> Any:
    if part == TRUE:
        return None
    try:
        return _Encoder(schema).encode(_check_names(part, schema))
    except _NotExpressible:
        return None


def _name(field_id: int, schema: Schema) -> str | None:
    """Return a field's path joined by dots; None for a metadata column, and for names that contain dots."""
    if field_id not in schema.path_of:
        return None
    name = schema.path_of[field_id]
    return name if schema.reference_of[field_id].replace("`", "") == name and "`" not in name else None


def _check_names(part: Predicate, schema: Schema) -> Predicate:
    if any(isinstance(each, ColumnTest) and _name(each.bound_id, schema) is None for each in leaves(part)):
        raise _NotExpressible
    return part


class _Encoder(PredicateEncoder):
    """Encodes predicates with the same meaning in the REST expression model; else raises `_NotExpressible`."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema

    def encode(self, predicate: Predicate) -> Any:
        if isinstance(predicate, IsNaN):
            raise _NotExpressible
        found = super().encode(predicate)
        return (
            {**found, "term": _name(predicate.bound_id, self._schema)} if isinstance(predicate, ColumnTest) else found
        )

    def constant(self, value: bool | None) -> Any:
        raise _NotExpressible

    def literal(self, value: Any) -> Any:
        if not isinstance(value, pa.Scalar):
            raise _NotExpressible
        return _text_of(value)

    def values(self, predicate: In) -> list[Any]:
        if not predicate.values or (predicate.has_null and predicate.negate):  # lists cannot be empty or have nulls
            raise _NotExpressible
        return [self.literal(value) for value in predicate.values]

    def like(self, predicate: Like) -> Any:
        if not predicate.is_prefix_match or predicate.negate:
            raise _NotExpressible
        return super().like(predicate)

    def columns(self, predicate: ColumnComparison) -> Any:
        raise _NotExpressible

    def sql(self, predicate: SqlCondition) -> Any:
        raise _NotExpressible


def _text_of(scalar: pa.Scalar) -> Any:
    """Return a literal in its JSON form (appendix C, "JSON single-value serialization").

    Raises `_NotExpressible` for floating-point values, nanoseconds, and other types without such a form here.
    """
    kind = scalar.type
    if pa.types.is_floating(kind) or (pa.types.is_timestamp(kind) and kind.unit != "us"):
        raise _NotExpressible
    value = plain_value(scalar)
    match value:
        case bool() | int() | str():
            return value
        case datetime():
            return value.isoformat(timespec="microseconds")
        case date():
            return value.isoformat()
        case time():
            return value.isoformat(timespec="microseconds")
        case Decimal() | UUID():
            return str(value)
    raise _NotExpressible
