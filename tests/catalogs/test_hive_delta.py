"""Delta tables by name in a Hive metastore, next to tables of other formats."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Barrier
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest

import lakescan
import lakescan.spark
from lakescan.catalogs.delta_names import DeltaNames
from lakescan.catalogs.hive_metastore import HiveClient
from lakescan.catalogs.lookup import translate_catalog_errors
from lakescan.catalogs.registry import connection
from lakescan.common.identifiers import Identifier
from lakescan.definition.table_definition import TableDefinition
from lakescan.storage import Storage
from tests.catalogs import test_lost_answers as lost
from tests.support.hive_server import client, entry, put_entry
from tests.tables.test_outcomes import looks

pytestmark = pytest.mark.spark
ROWS = pa.table({"id": pa.array([1, 2], pa.int64()), "part": ["a", "b"]})
Hive = lakescan.Catalog


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Make a Delta table that is not registered in any catalog."""
    lakescan.save(ROWS, tmp_path / "others" / "table", format="delta")
    return tmp_path / "others" / "table"


def ids(table: lakescan.Table) -> list[int]:
    return sorted(table.to_arrow()["id"].to_pylist())


def test_a_delta_table_is_created_written_and_dropped_in_a_hive_catalog(hive: Hive, spark: Any, tmp_path: Path) -> None:
    made = hive.create_table("db.t", "id BIGINT, part STRING", format="delta", partition_by=["part"])
    made.append(ROWS)
    with pytest.raises(lakescan.TableExists):
        hive.create_table("db.t", "id BIGINT", format="delta")
    assert ids(hive.create_table("db.t", "id BIGINT", format="delta", exist_ok=True)) == [1, 2]
    lakescan.spark.register(spark)
    spark.createDataFrame([(3, "c")], "id long, part string").write.format("delta").mode("append").save("hive.db.t")
    for format in ("delta", "lakescan"):
        assert sorted(row["id"] for row in spark.read.format(format).load("hive.db.t").collect()) == [1, 2, 3]
    assert hive.table_exists("db.t")
    assert hive.load_table("db.t").format == "delta"
    assert str(hive.rename_table("db.t", "db.u").name) == "hive.db.u"
    assert (hive.list_tables("db"), hive.table_exists("db.t")) == (["db.u"], False)
    hive.drop_table("db.u")
    assert hive.list_tables("db") == []
    assert ids(lakescan.table(tmp_path / "db" / "t")) == [1, 2, 3]
    assert ids(hive.create_table("db.t", "id BIGINT", format="delta")) == []
    hive.drop_table("db.t")
    with pytest.raises(lakescan.NoSuchTable):
        hive.drop_table("db.u")
    hive.drop_table("db.u", missing_ok=True)


def test_a_table_is_registered_as_by_spark_in_the_folder_of_the_database(hive: Hive, tmp_path: Path) -> None:
    hive.create_table("db.T", "id BIGINT", format="delta")
    found = entry(hive, "db.t")
    assert found.tableType == "EXTERNAL_TABLE"
    assert found.parameters["EXTERNAL"] == "TRUE"
    assert found.parameters["spark.sql.sources.provider"] == "delta"
    assert found.sd.serdeInfo.parameters["path"] == f"file://{tmp_path}/db/T"
    assert found.sd.location == f"file:{tmp_path}/db/T"  # the metastore's spelling
    assert hive.list_tables("db") == ["db.t"]  # the metastore lowercases names
    assert hive.table_exists("db.T")


def test_statements_make_change_and_drop_delta_tables_by_name(hive: Hive) -> None:
    lakescan.sql("CREATE TABLE hive.db.t (id BIGINT, part STRING) USING delta PARTITIONED BY (part)")
    lakescan.sql("INSERT INTO hive.db.t VALUES (1, 'a'), (2, 'b')")
    lakescan.sql("CREATE TABLE IF NOT EXISTS hive.db.t USING delta AS SELECT 9L AS id")
    lakescan.sql("CREATE TABLE hive.db.q USING delta AS SELECT id FROM hive.db.t WHERE part = 'b'")
    assert (ids(hive.load_table("db.t")), ids(hive.load_table("db.q"))) == ([1, 2], [2])
    lakescan.sql("CREATE OR REPLACE TABLE hive.db.q USING delta AS SELECT 5L AS id")
    lakescan.sql("DELETE FROM hive.db.t WHERE id = 1")
    assert lakescan.sql("SELECT t.id + q.id AS n FROM hive.db.t, hive.db.q").to_arrow()["n"].to_pylist() == [7]
    lakescan.sql("ALTER TABLE hive.db.q RENAME TO hive.db.r")
    lakescan.sql("DROP TABLE hive.db.t")
    assert hive.list_tables("db") == ["db.r"]


def test_tables_are_registered_and_cloned(hive: Hive, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder.parent)
    assert ids(hive.register_table("db.t", "table")) == [1, 2]
    monkeypatch.chdir("/")
    assert ids(hive.load_table("db.t")) == [1, 2]
    assert ids(hive.clone_table("db.c", "hive.db.t")) == [1, 2]
    with pytest.raises(lakescan.TableExists):
        hive.register_table("db.t", folder)


PROVIDER = "spark.sql.sources.provider"


@pytest.mark.parametrize(
    ("parameters", "location", "path"),
    [
        ({PROVIDER: "DELTA"}, "{folder}-__PLACEHOLDER__", "file:{folder}"),
        ({PROVIDER: "delta"}, "{folder}", None),
        ({"table_type": "DELTA"}, "file://{folder}", None),
        ({"storage_handler": "io.delta.hive.DeltaStorageHandler"}, "{folder}", "{folder}"),
    ],
    ids=["Spark", "Trino", "Athena", "Hive's connector"],
)
def test_tables_that_others_registered_are_read_and_written(
    hive: Hive, folder: Path, parameters: dict[str, str], location: str, path: str | None
) -> None:
    put_entry(
        hive,
        "db.others",
        parameters,
        location=location.format(folder=folder),
        path=None if path is None else path.format(folder=folder),
    )
    assert hive.list_tables("db") == ["db.others"]
    hive.load_table("db.others").append(ROWS)
    assert ids(hive.load_table("db.others")) == [1, 1, 2, 2]
    assert ids(lakescan.table(folder)) == [1, 1, 2, 2]


def test_a_rename_keeps_the_registered_properties(hive: Hive, folder: Path) -> None:
    hive.create_namespace("other")
    put_entry(hive, "db.t", {PROVIDER: "delta", "team": "b"}, location=f"{folder}-__PLACEHOLDER__", path=str(folder))
    before = entry(hive, "db.t")
    assert ids(hive.rename_table("db.t", "other.u")) == [1, 2]
    after = entry(hive, "other.u")
    assert (after.owner, after.sd, after.createTime) == ("ann", before.sd, before.createTime)
    assert {**before.parameters, **after.parameters} == after.parameters
    assert after.parameters["team"] == "b"
    assert (hive.list_tables("db"), hive.list_tables("other")) == ([], ["other.u"])


def test_a_rename_does_not_take_the_name_of_another_table(hive: Hive, folder: Path) -> None:
    hive.register_table("db.t", folder)
    hive.create_table("db.iceberg", "id BIGINT")
    hive.create_table("db.delta", "id BIGINT", format="delta")
    for taken in ("db.iceberg", "db.delta"):
        with pytest.raises(lakescan.TableExists):
            hive.rename_table("db.t", taken)
        with pytest.raises(lakescan.TableExists):  # by a concurrent writer
            DeltaNames(connection("hive")).rename(("db", "t"), tuple(taken.split(".")))
    with pytest.raises(lakescan.NoSuchNamespace):
        hive.rename_table("db.t", "none.t")
    with pytest.raises(lakescan.NoSuchTable):
        DeltaNames(connection("hive")).rename(("db", "gone"), ("db", "u"))
    assert hive.list_tables("db") == ["db.delta", "db.iceberg", "db.t"]
    assert ids(hive.load_table("db.t")) == [1, 2]


def test_the_files_of_a_managed_table_are_not_moved_or_removed(hive: Hive, folder: Path) -> None:
    """A metastore moves the files of a managed table on rename and removes them on drop."""
    put_entry(hive, "db.t", {PROVIDER: "delta"}, location=str(folder), path=str(folder), kind="MANAGED_TABLE")
    with pytest.raises(lakescan.UnsupportedFeature, match=r"renaming hive\.db\.t, a managed table"):
        hive.rename_table("db.t", "db.u")
    assert ids(hive.load_table("db.t")) == [1, 2]
    with pytest.raises(lakescan.UnsupportedFeature, match="purging a Delta table"):
        hive.drop_table("db.t", purge=True)
    hive.drop_table("db.t")
    assert hive.list_tables("db") == []
    assert ids(lakescan.table(folder)) == [1, 2]


OTHERS = {
    "table": ({}, "MANAGED_TABLE", "a Hive table"),
    "view": ({}, "VIRTUAL_VIEW", "a Hive view"),
    "hudi": ({PROVIDER: "hudi"}, "EXTERNAL_TABLE", r"a Hive table \(hudi\)"),
    "nowhere": ({PROVIDER: "delta"}, "EXTERNAL_TABLE", r"a Hive table \(delta\)"),
    "iceberg_view": ({"table_type": "ICEBERG-VIEW"}, "VIRTUAL_VIEW", "an Iceberg view in Hive"),
}


@pytest.fixture(params=OTHERS)
def other(request: pytest.FixtureRequest, hive: Hive, tmp_path: Path) -> str:
    """Register the table `db.other` as a table of another format and return that format."""
    parameters, kind, said = OTHERS[request.param]
    where = None if kind == "VIRTUAL_VIEW" else f"{tmp_path}/db/other-__PLACEHOLDER__"
    put_entry(hive, "db.other", parameters, location=where, kind=kind)
    return said


def test_tables_of_other_formats_are_refused_by_name(hive: Hive, other: str) -> None:
    says = rf"hive\.db\.other is {other}, neither an Iceberg nor a Delta table"
    for reads in (
        lambda: hive.load_table("db.other"),
        lambda: lakescan.sql("SELECT * FROM hive.db.other").to_arrow(),
        lambda: lakescan.sql("DELETE FROM hive.db.other"),
        lambda: hive.rename_table("db.other", "db.mine"),
    ):
        with pytest.raises(lakescan.NoSuchTable, match=says):
            reads()
    assert hive.list_tables("db") == []
    assert not hive.table_exists("db.other")


def test_a_table_of_another_format_is_not_dropped(hive: Hive, other: str) -> None:
    before = entry(hive, "db.other")
    for drop in (
        lambda: hive.drop_table("db.other"),
        lambda: hive.drop_table("db.other", missing_ok=True),
        lambda: hive.drop_table("db.other", purge=True),
        lambda: lakescan.sql("DROP TABLE IF EXISTS hive.db.other"),
    ):
        with pytest.raises(lakescan.NoSuchTable, match=other):
            drop()
    with pytest.raises(lakescan.TableExists):
        hive.drop_namespace("db")
    assert entry(hive, "db.other") == before


def test_a_new_table_cannot_take_the_name_of_a_table_of_another_format(
    hive: Hive, other: str, folder: Path, tmp_path: Path
) -> None:
    before = entry(hive, "db.other")
    hive.register_table("db.delta", folder)
    hive.create_table("db.iceberg", "id BIGINT")
    definition = TableDefinition(())
    for take in (
        lambda: hive.create_table("db.other", "id BIGINT"),
        lambda: hive.create_table("db.other", "id BIGINT", format="delta"),
        lambda: hive.create_table("db.other", "id BIGINT", format="delta", exist_ok=True),
        lambda: hive.create_with("db.other", definition, ROWS),
        lambda: hive.create_with("db.other", definition, ROWS, format="delta"),
        lambda: hive.register_table("db.other", folder),
        lambda: hive.clone_table("db.other", "hive.db.delta"),
        lambda: hive.rename_table("db.delta", "db.other"),
        lambda: hive.rename_table("db.iceberg", "db.other"),
    ):
        with pytest.raises(lakescan.TableExists, match=rf"hive\.db\.other is {other}"):
            take()
    assert entry(hive, "db.other") == before
    assert not (tmp_path / "db" / "other").exists()


def test_an_iceberg_entry_without_a_metadata_location_is_damaged(hive: Hive) -> None:
    put_entry(hive, "db.t", {"table_type": "ICEBERG"})
    with pytest.raises(lakescan.CorruptMetadata, match="returned no 'metadata-location'"):
        hive.load_table("db.t")
    with pytest.raises(lakescan.CorruptMetadata):
        hive.create_table("db.t", "id BIGINT", format="delta")
    hive.drop_table("db.t")
    assert hive.list_tables("db") == []


def test_namespaces_with_delta_tables_are_not_dropped(hive: Hive, folder: Path) -> None:
    hive.register_table("db.t", folder)
    with pytest.raises(lakescan.TableExists, match="has tables"):
        hive.drop_namespace("db")
    with pytest.raises(lakescan.NoSuchNamespace):
        hive.list_tables("none")
    with pytest.raises(lakescan.NoSuchNamespace):
        hive.create_table("none.t", "id BIGINT", format="delta")
    with pytest.raises(lakescan.NoSuchTable):
        hive.load_table("none.t")


def test_one_of_several_concurrent_creators_wins(hive: Hive) -> None:
    ready = Barrier(4)

    def create(number: int) -> int | None:
        ready.wait()
        try:
            hive.create_table("db.t", f"n{number} BIGINT", format="delta")
        except lakescan.TableExists:
            return None
        return number

    with ThreadPoolExecutor(4) as pool:
        (won,) = [each for each in pool.map(create, range(4)) if each is not None]
    table = hive.load_table("db.t")
    assert (table.to_arrow().column_names, len(table.history())) == ([f"n{won}"], 1)


@pytest.mark.parametrize("how", ["empty", "with rows", "iceberg"])
def test_the_second_creator_keeps_the_files_of_the_first(hive: Hive, tmp_path: Path, how: str) -> None:
    """The metastore itself would remove the folder that it created for the second writer."""
    create, folders = HiveClient.create, []

    def late(self: HiveClient, table: Any) -> None:
        folders.append((tmp_path / "db" / "t").is_dir())
        with patch.object(HiveClient, "create", create):
            hive.create_with("db.t", TableDefinition(()), ROWS, format="iceberg" if how == "iceberg" else "delta")
        create(self, table)

    def second() -> object:
        if how == "with rows":
            return hive.create_with("db.t", TableDefinition(()), ROWS.slice(0, 1), format="delta")
        return hive.create_table("db.t", "other BIGINT", format="delta")

    with patch.object(HiveClient, "create", late), pytest.raises(lakescan.CreatedConcurrently):
        second()
    assert folders == [True]
    assert ids(hive.load_table("db.t")) == [1, 2]
    assert len(list((tmp_path / "db" / "t").rglob("[!.]*.parquet"))) == 1


def test_the_second_creator_of_an_iceberg_table_gets_an_error(hive: Hive) -> None:
    from pyiceberg.catalog.hive import HiveCatalog

    create = HiveCatalog.create_table

    def late(self: Any, *arguments: Any, **named: Any) -> Any:
        hive.create_with("db.t", TableDefinition(()), ROWS, format="delta")
        return create(self, *arguments, **named)

    with patch.object(HiveCatalog, "create_table", late), pytest.raises(lakescan.CreatedConcurrently):
        hive.create_table("db.t", "id BIGINT")
    assert ids(hive.load_table("db.t")) == [1, 2]


def test_refusals_of_the_metastore_are_quoted_for_delta_tables(hive: Hive, tmp_path: Path) -> None:
    with pytest.raises(lakescan.StorageError, match="a-b is not a valid object name"):
        hive.create_table("db.`a-b`", "id BIGINT", format="delta")
    with (
        patch.object(Storage, "make_folder"),
        looks(2),
        pytest.raises(lakescan.StorageError, match=r"hive\.db\.t.*nosuchscheme") as failed,
        translate_catalog_errors(Identifier("hive", ("db",), "t")),
    ):
        DeltaNames(connection("hive")).add(("db", "t"), "nosuchscheme://x/t")
    assert not isinstance(failed.value, lakescan.CommitStateUnknown)  # after the metastore answered
    (tmp_path / "db").mkdir(exist_ok=True)
    (tmp_path / "db" / "file").touch()
    with looks(2), pytest.raises(lakescan.StorageError) as failed:
        hive.create_table("db.t", "id BIGINT", format="delta", location=tmp_path / "db" / "file" / "t")
    assert not isinstance(failed.value, lakescan.CommitStateUnknown)
    assert hive.list_tables("db") == []


@pytest.mark.parametrize(
    "words", ["Unable to commit: javax.jdo.JDODataStoreException: Communications link failure", ""]
)
@pytest.mark.parametrize("is_made", [True, False])
def test_a_metastore_that_lost_its_database_may_have_made_the_table(hive: Hive, words: str, is_made: bool) -> None:
    """The metastore's transaction may still be committed, so the table's files are kept."""
    from hive_metastore.ttypes import MetaException

    create, folders = HiveClient.create, []

    def fails(self: HiveClient, table: Any) -> None:
        folders.append(Path(table.sd.location.removeprefix("file://")))
        if is_made:
            create(self, table)
        raise MetaException(words)

    with patch.object(HiveClient, "create", fails), looks(2):
        if is_made:
            hive.create_with("db.t", TableDefinition(()), ROWS, format="delta")
            assert ids(hive.load_table("db.t")) == [1, 2]
        else:
            with pytest.raises(lakescan.CommitStateUnknown):
                hive.create_with("db.t", TableDefinition(()), ROWS, format="delta")
    assert list(folders[0].glob("*.parquet"))
    assert hive.table_exists("db.t") == is_made


def test_a_metastore_that_does_not_answer_is_a_storage_error() -> None:
    gone = lakescan.catalog("gone", type="hive", uri="thrift://127.0.0.1:9", warehouse="file:///lake")
    for ask in (
        lambda: gone.load_table("db.t"),
        lambda: gone.list_tables("db"),
        lambda: gone.create_table("db.t", "id BIGINT", format="delta"),
        lambda: gone.drop_table("db.t"),
    ):
        with pytest.raises(lakescan.StorageError, match="catalog 'gone' failed"):
            ask()


def _creates(**how: Any) -> Callable[[Hive], object]:
    return lambda lake: lake.create_table("db.t", "id BIGINT", format="delta", **how)


def _creates_with_rows(lake: Hive) -> object:
    return lake.create_with("db.t", TableDefinition(()), lost.ROWS, format="delta")


def _folder(lake: Hive) -> Path:
    return Path(connection(lake.name).properties["warehouse"].removeprefix("file://")) / "db"


def _without_name(lake: Hive) -> None:
    _creates_with_rows(lake)
    lake.drop_table("db.t")


_THERE, _GONE = (lakescan.TableExists,), (lakescan.NoSuchTable, lakescan.NoSuchNamespace)
_CHANGES = [
    lost.Change("create", _creates(), again=_THERE),
    lost.Change("create unless it is there", _creates(exist_ok=True)),
    lost.Change("create with rows", _creates_with_rows, again=_THERE),
    lost.Change("register", lambda lake: lake.register_table("db.u", _folder(lake) / "t"), _without_name, _THERE),
    lost.Change("drop", lambda lake: lake.drop_table("db.t"), _creates(), _GONE),
    lost.Change("rename", lambda lake: lake.rename_table("db.t", "db.u"), _creates_with_rows, (*_GONE, *_THERE)),
]


@pytest.mark.slow
@pytest.mark.parametrize("change", _CHANGES, ids=lambda change: change.name)
def test_the_reported_outcome_of_a_change_matches_the_metastore(hive: Hive, change: lost.Change) -> None:
    def restored() -> None:
        with client(hive) as metastore:
            for name in metastore.get_all_tables("db"):
                metastore.drop_table("db", name, deleteData=False)
        shutil.rmtree(_folder(hive), ignore_errors=True)
        change.before(hive)

    change.before(hive)
    lost.check(change, hive, restored, lambda fault: _calls(fault, hive))


@contextmanager
def _calls(fault: lost.Fault, hive: Hive) -> Iterator[None]:
    """Route the metastore's calls through the fault."""
    from thrift.transport.TTransport import TTransportException

    opened = type(client(hive))
    enter = opened.__enter__

    class Faulty:
        def __init__(self, real: Any) -> None:
            self._real = real

        def __getattr__(self, name: str) -> Any:
            changes = name.startswith(("create", "alter", "drop"))
            error = lambda: TTransportException(message="read 0 bytes")  # noqa: E731
            return lambda *arguments, **named: fault.around(
                lambda: getattr(self._real, name)(*arguments, **named), error, changes=changes
            )

    with patch.object(opened, "__enter__", lambda self: Faulty(enter(self))):
        yield


def test_entries_cannot_lead_to_locations_that_are_not_allowed(hive: Hive, hive_uri: str, tmp_path: Path) -> None:
    """Parameters of an entry cannot name code or hosts either."""
    lake = tmp_path / "lake"
    limits = {"allowed-locations": str(lake)}
    limited = lakescan.catalog("limited", type="hive", uri=hive_uri, warehouse=f"file://{lake}", **limits)
    lakescan.save(ROWS, tmp_path / "outside", format="delta")
    more = {"py-io-impl": "no.such.Class", "s3.endpoint": "http://127.0.0.2:9", "allowed-locations": str(tmp_path)}
    places = (
        (tmp_path / "outside").as_uri(), f"file://{lake}/../outside", "s3://bucket/t", "hdfs://127.0.0.2:9/t",
        "hdfs://169.254.169.254/t", "abfss://c@stranger.dfs.core.windows.net/t",
    )  # fmt: skip
    for at, place in enumerate(places):
        delta, iceberg = {"spark.sql.sources.provider": "delta"}, {"table_type": "ICEBERG"}
        put_entry(limited, f"db.d{at}", {**delta, **more}, location=str(lake / "d"), path=place)
        metadata = {"metadata_location": f"{place}/metadata/v1.metadata.json"}
        put_entry(limited, f"db.i{at}", {**iceberg, **metadata, **more}, location=str(lake / "i"))
        for name in (f"limited.db.d{at}", f"limited.db.i{at}"):
            with pytest.raises(lakescan.LocationRefused):
                lakescan.table(name).to_arrow()
    lakescan.save(ROWS, lake / "own", format="delta")
    put_entry(limited, "db.own", {**delta, **more}, path=str(lake / "own"))
    assert ids(lakescan.table("limited.db.own")) == [1, 2]
