"""Catalog changes whose calls fail, or whose answers are lost: the reported outcome matches the catalog.

Each call of a change (to the database, the server or the storage) fails once before it is served and once after.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakescan
from lakescan.catalogs import registry
from lakescan.catalogs.registry import connection
from lakescan.definition.table_definition import TableDefinition
from lakescan.delta.commit import commit_file as put
from lakescan.storage import Storage
from tests.support.rest_server import Answer, Request, RestServer, error_answer, rest_server
from tests.tables.test_outcomes import looks

ROWS = pa.table({"id": pa.array([1, 2], pa.int64())})
Lake = lakescan.Catalog


@dataclass(frozen=True)
class Change:
    """A catalog change, its initial state, and the errors expected when it is repeated.

    `is_known` is true if lakescan can verify after a lost answer whether the change was made.
    """

    name: str
    make: Callable[[Lake], object]
    before: Callable[[Lake], object] = lambda lake: None
    again: tuple[type[Exception], ...] = ()
    is_known: bool = True


def _creates(format: str, version: str = "2", **how: Any) -> Callable[[Lake], object]:
    properties = {} if format == "delta" else {"format-version": version}
    return lambda lake: lake.create_table("db.t", "id BIGINT", format=format, properties=properties, **how)


def _creates_with_rows(format: str, version: str = "2", *, replace: bool = False) -> Callable[[Lake], object]:
    properties = {} if format == "delta" else {"format-version": version}
    definition = TableDefinition((), properties=properties)
    return lambda lake: lake.create_with("db.t", definition, ROWS, format=format, replace=replace)


def _old(format: str) -> Callable[[Lake], object]:
    old = pa.table({"old": ["a"]})
    return lambda lake: lake.create_with("db.t", TableDefinition(()), old, format=format)


def _file_of(lake: Lake) -> str:
    """Return the metadata file of a table that another catalog has or had."""
    return next(str(each) for each in sorted(_folder(lake).rglob("*.metadata.json")))


def _registers_file(lake: Lake) -> object:
    return lake.register_table("db.u", _file_of(lake))


def _without_name(format: str) -> Callable[[Lake], object]:
    def make(lake: Lake) -> None:
        _creates_with_rows(format)(lake)
        lake.drop_table("db.t")

    return make


def _foreign_files(lake: Lake) -> None:
    folder = _folder(lake) / "raw"
    folder.mkdir()
    pq.write_table(ROWS, folder / "a.parquet")


def _folder(lake: Lake) -> Path:
    return Path(connection(lake.name).properties["warehouse"].removeprefix("file://"))


def _view(lake: Lake) -> object:
    return lake.create_view("db.v", "SELECT 1 AS n", properties={"owner": "a"})


_THERE, _GONE = (lakescan.TableExists,), (lakescan.NoSuchTable, lakescan.NoSuchNamespace)
_OF_TABLES = [
    Change("create a table of Iceberg 1", _creates("iceberg", "1"), again=_THERE),
    Change("create a table of Iceberg 2", _creates("iceberg"), again=_THERE),
    Change("create a table of Iceberg 3", _creates("iceberg", "3"), again=_THERE),
    Change("create a table unless it is there", _creates("iceberg", exist_ok=True)),
    Change("create a Delta table", _creates("delta"), again=_THERE),
    Change("create a Delta table unless it is there", _creates("delta", exist_ok=True)),
    Change("create a table of Iceberg 2 with rows", _creates_with_rows("iceberg"), again=_THERE),
    Change("create a table of Iceberg 3 with rows", _creates_with_rows("iceberg", "3"), again=_THERE),
    Change("create a Delta table with rows", _creates_with_rows("delta"), again=_THERE),
    Change("replace an Iceberg table", _creates("iceberg", replace=True), _old("iceberg")),
    Change("replace a Delta table", _creates("delta", replace=True), _old("delta")),
    Change("replace an Iceberg table with rows", _creates_with_rows("iceberg", replace=True), _old("iceberg")),
    Change("replace a Delta table with rows", _creates_with_rows("delta", replace=True), _old("delta")),
    Change(
        "create a table as a query",
        lambda lake: lakescan.sql("CREATE TABLE local.db.t AS SELECT 1L AS id"),
        again=_THERE,
    ),
    Change(
        "create or replace", lambda lake: lakescan.sql("CREATE OR REPLACE TABLE local.db.t (id INT)"), _old("iceberg")
    ),
    Change(
        "create of files", lambda lake: lake.create_from_files("db.t", _folder(lake) / "raw"), _foreign_files, _THERE
    ),
    Change("clone", lambda lake: lake.clone_table("db.u", "local.db.t"), _creates_with_rows("delta"), _THERE),
    Change("register an Iceberg table", _registers_file, _without_name("iceberg"), _THERE),
    Change(
        "register a Delta table",
        lambda lake: lake.register_table("db.u", _folder(lake) / "db" / "t"),
        _without_name("delta"),
        _THERE,
    ),
    Change("drop an Iceberg table", lambda lake: lake.drop_table("db.t"), _old("iceberg"), _GONE),
    Change("drop a Delta table", lambda lake: lake.drop_table("db.t"), _old("delta"), _GONE),
    Change("purge", lambda lake: lake.drop_table("db.t", purge=True), _old("iceberg"), _GONE),
    Change(
        "rename an Iceberg table", lambda lake: lake.rename_table("db.t", "db.u"), _old("iceberg"), (*_GONE, *_THERE)
    ),
    Change("rename a Delta table", lambda lake: lake.rename_table("db.t", "db.u"), _old("delta"), (*_GONE, *_THERE)),
]
_OF_VIEWS = [
    Change("create a view", _view, again=_THERE),
    Change("replace a view", lambda lake: lake.create_view("db.v", "SELECT 2 AS n", replace=True), _view),
    Change("create or replace a view", lambda lake: lake.create_view("db.v", "SELECT 2 AS n", replace=True)),
    Change("change a view", lambda lake: lake.update_view("db.v", {"team": "b"}, removed=["owner"]), _view),
    Change("rename a view", lambda lake: lake.rename_view("db.v", "db.w"), _view, (*_GONE, *_THERE)),
    Change("drop a view", lambda lake: lake.drop_view("db.v"), _view, _GONE),
]
_OF_NAMESPACES = [
    Change("create a namespace", lambda lake: lake.create_namespace("new"), again=_THERE, is_known=False),
    Change("create a namespace unless it is there", lambda lake: lake.create_namespace("new", exist_ok=True)),
    Change(
        "change a namespace",
        lambda lake: lake.update_namespace("new", {"team": "b"}, removed=["owner"]),
        lambda lake: lake.create_namespace("new", properties={"owner": "a"}),
    ),
    Change(
        "drop a namespace", lambda lake: lake.drop_namespace("new"), lambda lake: lake.create_namespace("new"), _GONE
    ),
]


def state(lake: Lake) -> dict[str, Any]:
    """Return the whole content of a catalog; raise if any of it cannot be read."""
    found: dict[str, Any] = {}
    for namespace in lake.list_namespaces():
        own = lake.namespace_properties(namespace)
        found[namespace] = {name: value for name, value in own.items() if name not in ("exists", "location")}
        for name in lake.list_tables(namespace):
            table = lake.load_table(name)
            found[name] = table.format, table.to_arrow().to_pydict(), len(table.history())
        for name in lake.list_views(namespace):
            view = lake.load_view(name)
            found[name] = view.query, {key: view.properties.get(key) for key in ("owner", "team")}
    return found


class Fault:
    """Fail the nth call, before it is served or after. Without a number, only count calls."""

    def __init__(self, number: int = -1, *, after: bool = False) -> None:
        self._number, self._after = number, after
        self.changes: list[bool] = []  # for each call, whether it may change something

    def around(self, serve: Callable[[], Any], error: Callable[[], Exception], *, changes: bool) -> Any:
        """Serve one call, or raise the error in its place."""
        self.changes.append(changes)
        is_mine = len(self.changes) - 1 == self._number
        if is_mine and not self._after:
            raise error()
        found = serve()
        if is_mine:
            raise error()
        return found


def cases(fault: Fault) -> Iterator[tuple[int, bool]]:
    """Yield the calls to fail and how. For a read, a lost answer is the same as a call that was not served."""
    for number, changes in enumerate(fault.changes):
        yield number, False
        if changes:
            yield number, True


def _patched(stack: ExitStack, fault: Fault, owner: Any, name: str, *, changes: bool) -> None:
    real = getattr(owner, name)
    kind = lakescan.StorageError if owner in (Storage, put) else OSError  # the error that the method itself would raise

    def call(*arguments: Any, **named: Any) -> Any:
        return fault.around(lambda: real(*arguments, **named), lambda: kind("no answer"), changes=changes)

    stack.enter_context(patch.object(owner, name, staticmethod(call) if name == "table_metadata" else call))


@contextmanager
def calls(fault: Fault, lake: Lake) -> Iterator[None]:
    """Route calls to the storage, and to the database of a SQL catalog, through the fault."""
    from pyiceberg.io.pyarrow import PyArrowFileIO
    from pyiceberg.serializers import ToOutputFile

    with ExitStack() as stack:
        for name in ("open", "read", "find", "look_up", "list", "create"):
            _patched(stack, fault, Storage, name, changes=False)
        _patched(stack, fault, Storage, "remove", changes=True)
        _patched(stack, fault, put, "put_if_absent", changes=True)
        _patched(stack, fault, ToOutputFile, "table_metadata", changes=True)
        _patched(stack, fault, PyArrowFileIO, "new_input", changes=False)
        engine: Any = getattr(connection(lake.name), "engine", None)
        if engine is not None:
            _of_database(stack, fault, engine.dialect)
        yield


def _of_database(stack: ExitStack, fault: Fault, dialect: Any) -> None:
    """Let statements fail before they run. Commits that change something can also fail afterwards."""
    execute, commit, written = dialect.do_execute, dialect.do_commit, [False]

    def ended() -> Exception:
        return sqlite3.OperationalError("server closed the connection unexpectedly")

    def do_execute(cursor: Any, statement: str, *arguments: Any) -> Any:
        written[0] = written[0] or statement.split()[0].upper() in ("INSERT", "UPDATE", "DELETE", "CREATE")
        return fault.around(lambda: execute(cursor, statement, *arguments), ended, changes=False)

    def do_commit(opened: Any) -> Any:
        if not written[0]:
            return commit(opened)
        written[0] = False
        return fault.around(lambda: commit(opened), ended, changes=True)

    stack.enter_context(patch.object(dialect, "do_execute", do_execute))
    stack.enter_context(patch.object(dialect, "do_commit", do_commit))


def check(change: Change, lake: Lake, restored: Callable[[], None], faulty: Any) -> None:
    """Fail each call of a change in turn. `restored` restores the initial state; in `faulty`, calls pass the fault."""
    before = state(lake)
    counted = Fault()
    with faulty(counted):
        change.make(lake)
    after = state(lake)
    assert before != after
    for number, is_after in cases(counted):
        restored()
        outcome = _outcome(change, lake, faulty(Fault(number, after=is_after)))
        now = state(lake)
        where = f"{change.name}, call {number} fails {'after' if is_after else 'before'} it is served: {outcome!r}"
        if outcome is None:
            assert now == after, where
        elif isinstance(outcome, lakescan.CommitStateUnknown):
            assert now in (before, after), where
            assert now == before or not change.is_known, f"{where}: it is there"
        else:
            assert isinstance(outcome, lakescan.LakescanError), where
            assert now == before, where
        again = _outcome(change, lake, ExitStack())
        assert again is None or (now == after and isinstance(again, change.again)), f"{where}; again: {again!r}"
        assert {name: each[:2] for name, each in state(lake).items() if isinstance(each, tuple)} == {
            name: each[:2] for name, each in after.items() if isinstance(each, tuple)
        }, f"{where}; again"


def _outcome(change: Change, lake: Lake, during: Any) -> Exception | None:
    try:
        with during, looks(3):
            change.make(lake)
    except Exception as error:
        return error
    return None


@pytest.mark.slow
@pytest.mark.parametrize("change", [*_OF_TABLES, *_OF_VIEWS, *_OF_NAMESPACES], ids=lambda change: change.name)
def test_the_reported_outcome_of_a_change_matches_the_database(change: Change, local: Lake, tmp_path: Path) -> None:
    change.before(local)
    engine: Any = connection("local").engine  # type: ignore[attr-defined]

    def restored() -> None:
        engine.dispose()
        shutil.rmtree(tmp_path / "lake")
        shutil.copytree(tmp_path / "kept", tmp_path / "lake")

    engine.dispose()
    shutil.copytree(tmp_path / "lake", tmp_path / "kept")
    check(change, local, restored, lambda fault: calls(fault, local))


def test_a_commit_refused_by_a_busy_database_is_not_reported_as_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite keeps its transaction open, and a query on the same connection would see the uncommitted change."""
    monkeypatch.setattr(registry, "_WAIT", 0)
    lake = lakescan.catalog("local", warehouse=tmp_path / "lake")
    lake.create_namespace("db")
    table = lake.create_table("db.t", "id BIGINT")
    reader = sqlite3.connect(tmp_path / "lake" / "catalog.db", isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT * FROM iceberg_tables").fetchall()
    with looks(2), pytest.raises(lakescan.CommitStateUnknown, match="database is locked"):
        table.append(ROWS)
    reader.execute("ROLLBACK")
    reader.close()
    assert lake.load_table("db.t").count() == 0
    table.append(ROWS)
    assert lake.load_table("db.t").count() == 2


_ON_SERVER = (
    Change("create a table", _creates("iceberg"), again=_THERE, is_known=False),
    Change("create a table unless it is there", _creates("iceberg", exist_ok=True)),
    Change("drop a table", lambda lake: lake.drop_table("db.t"), _creates("iceberg"), _GONE),
    Change("create a namespace", lambda lake: lake.create_namespace("new"), again=_THERE, is_known=False),
    Change("create a namespace unless it is there", lambda lake: lake.create_namespace("new", exist_ok=True)),
)


@pytest.mark.slow
@pytest.mark.parametrize("change", _ON_SERVER, ids=lambda change: change.name)
def test_the_reported_outcome_of_a_change_matches_the_server(change: Change, tmp_path: Path) -> None:
    with rest_server(tmp_path / "server") as (server, uri):
        lake = lakescan.catalog("remote", type="rest", uri=uri)
        lake.create_namespace("db")
        change.before(lake)

        def restored() -> None:
            for name in server.catalog.list_tables("db"):
                server.catalog.drop_table(name)
            if server.catalog.namespace_exists("new"):
                server.catalog.drop_namespace("new")
            change.before(lake)

        check(change, lake, restored, lambda fault: _requests(fault, server))


@contextmanager
def _requests(fault: Fault, server: RestServer) -> Iterator[None]:
    """Route requests to the server through the fault."""

    def failed(request: Request) -> Answer | None:
        try:
            return fault.around(
                lambda: server._answered(request), lambda: TimeoutError("no answer"), changes=request.method != "GET"
            )
        except TimeoutError as error:
            return error_answer(500, error)

    with patch.object(server, "before", failed):
        yield
