"""Upserts without reading the table: equality deletes, as files and in commits, and their conversion.

lakescan reads the tables back; pyiceberg refuses equality deletes.
"""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakescan
from lakescan.catalogs.registry import connection
from lakescan.errors import AmbiguousMerge, CommitConflict, InvalidOption, SchemaMismatch, UnsupportedFeature
from lakescan.iceberg.target import IcebergTarget


@pytest.fixture(params=["2", "3"])
def version(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


def made(
    local: lakescan.Catalog, version: str, columns: str = "id BIGINT, value STRING", **more: Any
) -> lakescan.Table:
    properties = {"format-version": version, **more.pop("properties", {})}
    return local.create_table("db.t", columns, properties=properties, **more)


def rows(*pairs: tuple[Any, Any]) -> pa.Table:
    return pa.table(
        {
            "id": pa.array([each for each, _ in pairs], pa.int64()),
            "value": pa.array([each for _, each in pairs], pa.string()),
        }
    )


def there(table: lakescan.Table) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in table.refresh().to_arrow().to_pylist())


def snapshot() -> Any:
    return connection("local").load_table(("db", "t")).current_snapshot()


def files(content: int) -> list[dict[str, Any]]:
    table = connection("local").load_table(("db", "t"))
    kinds = {0: table.inspect.data_files, 1: table.inspect.delete_files}
    return [each for each in kinds[min(content, 1)]().to_pylist() if each["content"] == content]


def upsert(table: lakescan.Table, *pairs: tuple[Any, Any], **more: Any) -> Any:
    return table.upsert(rows(*pairs), "id", upsert_mode="equality", **more)


def test_rows_replace_those_with_their_keys(local: lakescan.Catalog, version: str) -> None:
    table = made(local, version)
    assert upsert(table, (1, "a"), (2, "b")).inserted == 2
    upsert(table, (2, "B"), (3, "c"))
    upsert(table, (2, "BB"))
    assert there(table) == [(1, "a"), (2, "BB"), (3, "c")]
    assert snapshot().summary.operation.value == "overwrite"
    table.append(rows((2, "beside")))
    assert (2, "beside") in there(table)
    with pytest.raises(Exception, match=r"(?i)equality"):
        connection("local").load_table(("db", "t")).scan().to_arrow()


def test_an_equality_delete_file_has_only_sorted_keys(local: lakescan.Catalog, version: str) -> None:
    table = made(local, version)
    upsert(table, (3, "c"), (1, "a"), (2, "b"))
    [found] = files(2)
    assert (found["equality_ids"], found["record_count"]) == ([1], 3)
    kept = pq.read_table(found["file_path"].removeprefix("file://"))
    assert kept.to_pydict() == {"id": [1, 2, 3]}
    assert kept.schema.field("id").metadata[b"PARQUET:field_id"] == b"1"


def test_partitions_by_keys_have_their_own_deletes(local: lakescan.Catalog, version: str) -> None:
    table = made(local, version, partition_by=("bucket(4, id)",))
    upsert(table, *((each, "old") for each in range(20)))
    upsert(table, *((each, "new") for each in range(0, 20, 3)))
    assert there(table) == [(each, "old" if each % 3 else "new") for each in range(20)]
    assert len(files(2)) > 2


def test_upserts_that_could_miss_rows_are_refused(local: lakescan.Catalog) -> None:
    table = made(local, "2", partition_by=("value",))
    with pytest.raises(UnsupportedFeature, match="partitioned by 'value'"):
        upsert(table, (1, "a"))
    assert upsert_all(table, (1, "a"), keys=["id", "value"]).inserted == 1
    local.drop_table("db.t")
    table = made(local, "2", partition_by=("bucket(4, id)",))
    with connection("local").load_table(("db", "t")).update_spec() as update:
        update.remove_field("id_bucket")
        update.add_field("id", "bucket[8]", "other")
    with pytest.raises(UnsupportedFeature, match="another way before"):
        upsert(table.refresh(), (1, "a"))
    local.drop_table("db.t")
    with pytest.raises(UnsupportedFeature, match="version 1"):
        upsert(made(local, "1"), (1, "a"))
    local.drop_table("db.t")
    with pytest.raises(UnsupportedFeature, match="type double"):
        made(local, "2", "id DOUBLE").upsert(pa.table({"id": [1.0]}), "id", upsert_mode="equality")
    local.drop_table("db.t")
    with pytest.raises(InvalidOption, match="upsert-mode"):
        local.create_table("db.t", "id BIGINT", format="delta").upsert(
            pa.table({"id": [1]}), "id", upsert_mode="equality"
        )


def upsert_all(table: lakescan.Table, *pairs: tuple[Any, Any], keys: list[str]) -> Any:
    return table.upsert(rows(*pairs), keys, upsert_mode="equality")


def test_keys_must_be_unique_and_not_null(local: lakescan.Catalog) -> None:
    table = made(local, "2")
    with pytest.raises(AmbiguousMerge):
        upsert(table, (1, "a"), (1, "b"))
    with pytest.raises(SchemaMismatch, match="nulls in 'id'"):
        upsert(table, (None, "a"))
    with pytest.raises(SchemaMismatch, match="no column 'id'"):
        table.upsert(pa.table({"value": ["a"]}), "id", upsert_mode="equality")
    with pytest.raises(SchemaMismatch, match="no column 'value'"):
        table.upsert(pa.table({"id": [1]}), "id", upsert_mode="equality")
    assert there(table) == []
    assert snapshot() is None


def test_a_transaction_is_committed_once(local: lakescan.Catalog) -> None:
    table = made(local, "2")
    for value in ("a", "again"):
        upsert(table, (1, value), txn_app_id="app", txn_version=1)
    assert there(table) == [(1, "a")]


KEYED = "id BIGINT NOT NULL, value STRING, PRIMARY KEY (id)"
UPSERTS = {"write.upsert.enabled": "true"}


@pytest.mark.parametrize("by", [(), ("bucket(3, id)",)], ids=["unpartitioned", "partitioned"])
@pytest.mark.parametrize("way", ["append", "save", "INSERT"])
def test_appended_rows_replace_rows_with_the_same_keys(local, version: str, by: tuple[str, ...], way) -> None:
    """As in Flink: of several rows with the same key, the last one counts."""
    local.create_table("db.t", KEYED, partition_by=by, properties={**UPSERTS, "format-version": version})

    def write(*values: tuple[int, str]) -> None:
        if way == "append":
            lakescan.table("local.db.t").append(rows(*values))
        elif way == "save":
            batches = [rows(each).to_batches()[0] for each in values]
            lakescan.save(pa.Table.from_batches(batches), "local.db.t", mode="append")
        else:
            lakescan.sql(f"INSERT INTO local.db.t VALUES {', '.join(map(str, values))}")

    write((1, "a"), (2, "b"), (1, "A"))
    write((2, "B"), (3, "c"), (2, "last"))
    write((3, "c"))
    assert there(lakescan.table("local.db.t")) == [(1, "A"), (2, "last"), (3, "c")]
    assert set(lakescan.table("local.db.t").inspect("delete_files")["content"].to_pylist()) == {2}
    if way == "append":
        table = lakescan.table("local.db.t")
        assert table.append(rows((7, "x"), (7, "y"))).rows == 1
        assert table.append(rows((8, "z")).slice(0, 0)).files == 0


def test_appended_rows_may_lack_columns_and_add_new_ones(local: lakescan.Catalog, version: str) -> None:
    table = local.create_table("db.t", KEYED, properties={**UPSERTS, "format-version": version})
    table.append(rows((1, "a"), (2, "b")))
    table.append(pa.table({"id": pa.array([1], pa.int32())}))
    table.append(pa.table({"id": [2], "value": ["B"], "more": [5]}), merge_schema=True)
    found = table.to_arrow().sort_by("id").to_pylist()
    assert found == [{"id": 1, "value": None, "more": None}, {"id": 2, "value": "B", "more": 5}]
    for wrong in (pa.table({"value": ["x"]}), pa.table({"id": pa.array([None], pa.int64()), "value": ["x"]})):
        with pytest.raises(lakescan.SchemaMismatch, match="id"):
            table.append(wrong)


def test_keys_of_several_columns_and_types_replace_rows(local: lakescan.Catalog, version: str) -> None:
    columns = "a DATE, b DECIMAL(9, 2), c BINARY, d TIMESTAMP, e UUID, f BOOLEAN, v INT, PRIMARY KEY (a, b, c, d, e, f)"
    table = local.create_table("db.t", columns, properties={**UPSERTS, "format-version": version})
    row = {
        "a": date(2026, 1, 1),
        "b": Decimal("1.50"),
        "c": b"x",
        "d": datetime(2026, 1, 1, tzinfo=UTC),
        "e": "00000000-0000-0000-0000-000000000001",
        "f": True,
    }
    others = [{**row, "a": date(2026, 1, 2)}, {**row, "e": "00000000-0000-0000-0000-000000000002"}]
    table.append(pa.Table.from_pylist([{**each, "v": n} for n, each in enumerate([row, *others, row])]))
    table.append(pa.Table.from_pylist([{**others[0], "v": 9}]))
    assert sorted(table.to_arrow()["v"].to_pylist()) == [2, 3, 9]


def test_a_table_with_upserts_needs_keys_and_refuses_other_appends(local: lakescan.Catalog) -> None:
    table = made(local, "2", properties=UPSERTS)
    with pytest.raises(UnsupportedFeature, match=r"write.upsert.enabled is true, and which has no identifier fields"):
        table.append(rows((1, "a")))
    with pytest.raises(InvalidOption, match="upsert-mode is for"):
        table.overwrite(rows((1, "a")), upsert_mode="equality")
    with pytest.raises(InvalidOption, match="upsert-mode is for"):
        table.delete("id = 1", upsert_mode="equality")
    table.upsert(rows((1, "a")), "id")
    table.upsert(rows((1, "b")), "id")
    assert there(table) == [(1, "b")]
    nested = local.create_table("db.n", "s STRUCT<a: INT NOT NULL> NOT NULL, PRIMARY KEY (s.a)", properties=UPSERTS)
    with pytest.raises(UnsupportedFeature, match=r"has the key 's\.a' in a struct"):
        nested.append(pa.table({"s": [{"a": 1}]}))
    other = local.create_table("db.p", f"p INT, {KEYED}", partition_by="p", properties=UPSERTS)
    with pytest.raises(UnsupportedFeature, match="partitioned by 'p'"):
        other.append(rows((1, "a")))
    assert (there(table), other.count()) == ([(1, "b")], 0)


def test_without_the_property_appends_do_not_replace_rows(local: lakescan.Catalog) -> None:
    table = local.create_table("db.t", KEYED)
    table.append(rows((1, "a")))
    table.append(rows((1, "b")))
    assert there(table) == [(1, "a"), (1, "b")]


def test_concurrent_upserts_are_rebased(local: lakescan.Catalog, version: str) -> None:
    table = made(local, version)
    upsert(table, (1, "a"))
    other = lakescan.table("local.db.t")
    commit = IcebergTarget.upsert

    def late(target: Any, *written: Any) -> None:
        IcebergTarget.upsert = commit
        upsert(other, (1, "between"), (2, "between"))
        commit(target, *written)

    IcebergTarget.upsert = late
    try:
        upsert(table, (1, "last"))
    finally:
        IcebergTarget.upsert = commit
    assert there(table) == [(1, "last"), (2, "between")]


@pytest.mark.parametrize("seed", range(3))
def test_upserts_give_the_rows_of_a_dictionary(local: lakescan.Catalog, version: str, seed: int) -> None:
    random, table, model = Random(seed), made(local, version, partition_by=("bucket(3, id)",) if seed else ()), {}
    for step in range(6):
        keys = random.sample(range(12), random.randint(1, 6))
        new = dict.fromkeys(keys, f"{step}")
        mode = random.choice(("equality", "equality", "merge"))
        table.upsert(rows(*new.items()), "id", upsert_mode=mode)
        model |= new
        assert there(table) == sorted(model.items())


def test_a_failed_upsert_leaves_no_files(local: lakescan.Catalog, tmp_path: Path) -> None:
    table = made(local, "2")
    before = {each.name for each in tmp_path.rglob("*.parquet")}
    with pytest.raises(SchemaMismatch):
        table.upsert(pa.table({"id": [1], "value": [1.5], "more": [1]}), "id", upsert_mode="equality")
    assert {each.name for each in tmp_path.rglob("*.parquet")} == before


KEYS: dict[str, pa.Array] = {
    "BOOLEAN": pa.array([True, False]),
    "INT": pa.array([2, 1], pa.int32()),
    "STRING": pa.array(["b", "a"]),
    "BINARY": pa.array([b"b", b"a"]),
    "DATE": pa.array([date(2026, 1, 2), date(1969, 1, 1)]),
    "TIMESTAMP": pa.array([datetime(2026, 1, 2, tzinfo=UTC), datetime(1969, 1, 1, tzinfo=UTC)]),
    "DECIMAL(20, 3)": pa.array([Decimal("1.250"), Decimal("-7.000")], pa.decimal128(20, 3)),
}


@pytest.mark.parametrize("kind", KEYS)
def test_keys_of_each_type_are_upserted(local: lakescan.Catalog, version: str, kind: str) -> None:
    table = made(local, version, f"k {kind}, value STRING")
    for value in "ab":
        new = pa.table({"k": KEYS[kind], "value": [value] * 2})
        table.upsert(new, "k", upsert_mode="equality")
    table.upsert(new.slice(1).set_column(1, "value", pa.array(["c"])), "k", upsert_mode="equality")
    assert [row[1] for row in there(table)] == ["c", "b"]
    assert table.convert_equality_deletes().rows == 3
    assert [row[1] for row in there(table)] == ["c", "b"]


def test_deletes_by_key_become_deletes_by_position(local: lakescan.Catalog, version: str) -> None:
    table = made(local, version, partition_by=("bucket(2, id)",))
    upsert(table, *((each, "old") for each in range(10)))
    upsert(table, *((each, "new") for each in range(0, 10, 2)))
    before, at = there(table), table.version
    result = table.convert_equality_deletes()
    assert (result.removed, result.rows) == (len(files(2)) or result.removed, 5)
    assert there(table) == before
    assert files(2) == []
    assert {each["file_format"] for each in files(1)} == {"PUFFIN" if version == "3" else "PARQUET"}
    assert snapshot().summary.operation.value == "replace"
    assert table.changes(start=at).to_arrow().num_rows == 0
    assert str(table.convert_equality_deletes()) == "no equality deletes"
    if version == "2":  # pyiceberg reads position deletes
        read = connection("local").load_table(("db", "t")).scan().to_arrow().to_pylist()
        assert sorted(tuple(row.values()) for row in read) == before


@pytest.mark.parametrize("seed", range(3))
def test_conversions_keep_the_rows(local: lakescan.Catalog, version: str, seed: int) -> None:
    random, table, model = Random(seed), made(local, version, partition_by=("bucket(3, id)",) if seed else ()), {}
    for step in range(8):
        new = dict.fromkeys(random.sample(range(12), random.randint(1, 6)), f"{step}")
        table.upsert(rows(*new.items()), "id", upsert_mode="equality")
        model |= new
        if random.random() < 0.3:
            gone = random.randrange(12)
            table.delete(f"id = {gone}", row_change_mode="merge-on-read")
            model.pop(gone, None)
        if random.random() < 0.6:
            table.convert_equality_deletes()
            assert files(2) == []
        assert there(table) == sorted(model.items())


def test_a_conversion_is_rebased_onto_upserts_but_not_onto_other_changes(
    local: lakescan.Catalog, version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = made(local, version)
    upsert(table, (1, "a"), (2, "b"), (3, "c"))
    upsert(table, (1, "A"))
    commit = IcebergTarget.replace_equality

    def convert(meanwhile: Any) -> Any:
        def late(target: Any, *written: Any) -> None:
            meanwhile(lakescan.table("local.db.t"))
            commit(target, *written)

        monkeypatch.setattr(IcebergTarget, "replace_equality", late)
        return table.refresh().convert_equality_deletes()

    assert convert(lambda other: upsert(other, (1, "AA"), (2, "B"))).rows == 1
    assert there(table) == [(1, "AA"), (2, "B"), (3, "c")]
    assert len(files(2)) == 1
    with pytest.raises(CommitConflict, match="removed"):
        convert(lambda other: other.compact())
    assert there(table) == [(1, "AA"), (2, "B"), (3, "c")]


def test_only_iceberg_has_deletes_by_key(local: lakescan.Catalog) -> None:
    table = local.create_table("db.t", "id BIGINT", format="delta")
    with pytest.raises(UnsupportedFeature, match="equality deletes in the Delta table"):
        table.convert_equality_deletes()
    local.drop_table("db.t")
    assert not made(local, "2").convert_equality_deletes().removed
