"""DELETE, UPDATE and MERGE of Iceberg tables by lakescan and the JVM in turn: each reads the other's changes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from tests.support import row_deltas
from tests.support.row_changes import MERGE_ON_READ, begin_change, change
from tests.tables.support import now, pairs, rows

import lakescan

A, B = [(number, "a") for number in range(8)], [(number, "b") for number in range(10, 18)]
Row = tuple[int, str | None]


def create(rest_uri: str, name: str, version: str, by: Sequence[str], **more: str) -> lakescan.Table:
    """Create a table of the REST catalog, with one file of `A` and one of `B`."""
    local = lakescan.catalog("local", type="rest", uri=rest_uri)
    properties = {"format-version": version, **MERGE_ON_READ, **more}
    made = local.create_table(name, "id BIGINT, part STRING", partition_by=by, properties=properties)
    for part in (A, B):
        local.load_table(name).append(rows(*part))
    return made


@pytest.fixture(params=[(version, by) for version in "23" for by in ((), ("part",), ("bucket(4, id)",))], ids=str)
def table(request: pytest.FixtureRequest, rest: lakescan.Catalog, rest_uri: str) -> Iterator[lakescan.Table]:
    """The table `db.t` of the REST catalog."""
    yield create(rest_uri, "db.t", *request.param)
    rest.drop_table("db.t")


def check(jvm: Any, expected: Sequence[Row]) -> None:
    """Check that both sides read these rows."""
    assert sorted(tuple(row) for row in jvm.table("rest.db.t").collect()) == sorted(expected)
    assert pairs() == sorted(expected)
    assert now().scan().where("id >= 5").count() == jvm.table("rest.db.t").where("id >= 5").count()


def without(some: Sequence[Row], *ids: int) -> list[Row]:
    return [row for row in some if row[0] not in ids]


def test_both_sides_delete_in_turn(jvm: Any, table: lakescan.Table) -> None:
    """Each side merges its deletes with the other's."""
    now().delete("id IN (1, 12, 13)")
    left = without([*A, *B], 1, 12, 13)
    check(jvm, left)
    jvm.sql("DELETE FROM rest.db.t WHERE id IN (2, 14)")
    left = without(left, 2, 14)
    check(jvm, left)
    now().delete("id IN (3, 15)")
    left = without(left, 3, 15)
    check(jvm, left)
    jvm.sql("CALL rest.system.rewrite_data_files(table => 'db.t', options => map('rewrite-all', 'true'))")
    check(jvm, left)
    now().delete("id = 4")
    check(jvm, without(left, 4))


def test_both_sides_update_and_merge_in_turn(jvm: Any, table: lakescan.Table) -> None:
    now().update({"id": "id + 100"}, "id IN (1, 12)")
    left = [*without([*A, *B], 1, 12), (101, "a"), (112, "b")]
    check(jvm, left)
    jvm.sql(
        "MERGE INTO rest.db.t USING (SELECT 101 AS id UNION ALL SELECT 13 UNION ALL SELECT 200) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET id = t.id + 1000 WHEN NOT MATCHED THEN INSERT (id, part) VALUES (s.id, 'b')"
    )
    left = [*without(left, 101, 13), (1101, "a"), (1013, "b"), (200, "b")]
    check(jvm, left)
    now().upsert(rows((1101, "b"), (200, "a"), (201, None)), keys="id")
    left = [*without(left, 1101, 200), (1101, "b"), (200, "a"), (201, None)]
    check(jvm, left)
    jvm.sql("UPDATE rest.db.t SET part = 'c' WHERE id IN (2, 201)")
    left = [*without(left, 2, 201), (2, "c"), (201, "c")]
    check(jvm, left)
    now().compact()
    check(jvm, left)


def test_files_with_deletes_are_rewritten(jvm: Any, table: lakescan.Table) -> None:
    """Copy-on-write of files that have deletes of either side."""
    jvm.sql("DELETE FROM rest.db.t WHERE id IN (2, 14)")
    now().delete("id = 3", row_change_mode="copy-on-write")
    left = without([*A, *B], 2, 3, 14)
    check(jvm, left)
    now().update({"id": "id + 100"}, "id IN (4, 15)", row_change_mode="copy-on-write")
    check(jvm, [*without(left, 4, 15), (104, "a"), (115, "b")])


def test_files_that_lose_all_rows_are_removed(jvm: Any, table: lakescan.Table) -> None:
    """They are removed together with their deletes."""
    change("delete", "id IN (1, 12)")
    change("delete", "id < 13")
    check(jvm, without(B, 10, 11, 12))
    change("delete", "id >= 0")
    check(jvm, [])
    assert jvm.table("rest.db.t.delete_files").count() == 0


def test_deletes_are_in_partitions_of_older_specs(jvm: Any, table: lakescan.Table) -> None:
    """After a change of the spec, deletes are in the partitions of their data files."""
    jvm.sql("ALTER TABLE rest.db.t ADD PARTITION FIELD truncate(id, 5)")
    jvm.sql("INSERT INTO rest.db.t VALUES (20, 'a'), (21, 'a')")
    now().delete("id IN (1, 12, 20)")
    left = [*without([*A, *B], 1, 12), (21, "a")]
    check(jvm, left)
    jvm.sql("DELETE FROM rest.db.t WHERE id IN (2, 14)")
    check(jvm, without(left, 2, 14))


@pytest.mark.parametrize("table", [("2", ()), ("2", ("part",))], indirect=True, ids=str)
@pytest.mark.parametrize("granularity", ["file", "partition"])
def test_upgraded_tables_get_vectors(jvm: Any, table: lakescan.Table, granularity: str) -> None:
    """Vectors replace the position deletes of version 2."""
    jvm.sql(f"ALTER TABLE rest.db.t SET TBLPROPERTIES ('write.delete.granularity' = '{granularity}')")
    now().append(rows((30, "a"), (31, "a")))
    jvm.sql("DELETE FROM rest.db.t WHERE id IN (2, 14, 30)")
    now().delete("id IN (3, 15)")
    left = [*without([*A, *B], 2, 3, 14, 15), (31, "a")]
    check(jvm, left)
    jvm.sql("CALL rest.system.rewrite_position_delete_files(table => 'db.t', options => map('rewrite-all', 'true'))")
    check(jvm, left)
    now().delete("id = 4")
    jvm.sql("ALTER TABLE rest.db.t SET TBLPROPERTIES ('format-version' = '3')")
    now().delete("id IN (5, 16)")
    left = without(left, 4, 5, 16)
    check(jvm, left)
    jvm.sql("DELETE FROM rest.db.t WHERE id IN (6, 17)")
    check(jvm, without(left, 6, 17))


@pytest.mark.parametrize("table", [("3", ("part",))], indirect=True, ids=str)
def test_updated_rows_keep_their_ids(jvm: Any, table: lakescan.Table) -> None:
    def ids() -> dict[int, int]:
        return {row[0]: row[1] for row in jvm.sql("SELECT id, _row_id FROM rest.db.t").collect()}

    before = ids()
    now().update({"part": "'b'"}, "id IN (1, 12)")
    assert ids() == before
    now().update({"part": "'c'"}, "id = 2", row_change_mode="copy-on-write")
    assert ids() == before


@pytest.mark.parametrize("table", [("3", ())], indirect=True, ids=str)
def test_the_jvm_lists_deleted_positions(jvm: Any, table: lakescan.Table) -> None:
    now().delete("id IN (1, 12)")
    found = jvm.sql("SELECT pos, delete_file_path, content_size_in_bytes FROM rest.db.t.position_deletes").collect()
    assert sorted(row[0] for row in found) == [1, 2]
    assert len({row[1] for row in found}) == 1


# A change of each kind, and the condition that both sides use.
SAME = [
    ("id = 1", {}),
    ("id IN (1, 12)", {}),
    ("part = 'a'", {}),
    ("id IN (1, 12)", {"write.delete.mode": "copy-on-write"}),
    ("id IN (1, 12)", {"write.delete.granularity": "partition"}),
]


@pytest.mark.parametrize("version", ["2", "3"])
@pytest.mark.parametrize(("where", "properties"), SAME, ids=str)
def test_summaries_equal_those_of_the_jvm(jvm: Any, rest: Any, rest_uri: str, version, where, properties) -> None:
    """For the first delete in a file, and for one in files that have deletes."""
    for name in ("db.t", "db.twin"):
        create(rest_uri, name, version, ("part",), **properties)
    try:
        for condition in (where, "id IN (2, 13)"):
            now().delete(condition)
            jvm.sql(f"DELETE FROM rest.db.twin WHERE {condition}")
            assert counters("db.t") == counters("db.twin")
    finally:
        for name in ("db.t", "db.twin"):
            rest.drop_table(name)


def counters(name: str) -> dict[str, str]:
    """Return the operation of the newest snapshot, and its counts of changed files and rows."""
    newest = lakescan.table(f"local.{name}").history().to_pylist()[-1]
    summary = dict(newest["summary"])
    ends = ("-files", "-dvs", "-deletes", "-records")
    counted = {key: value for key, value in summary.items() if key.endswith(ends)}
    return {"operation": newest["operation"], **counted}


def test_statements_of_the_jvm_and_lakescan_conflict_alike(jvm: Any, rest: Any, rest_uri: str) -> None:
    """The JVM reads the commits that lakescan's statement is rebased onto."""
    create(rest_uri, "db.t", "2", ("part",))
    ours = begin_change("delete", "id IN (1, 12)")
    jvm.sql("DELETE FROM rest.db.t WHERE id IN (2, 14)")
    ours()
    left = without([*A, *B], 1, 2, 12, 14)
    check(jvm, left)
    late = begin_change("update", "id = 3", [(3, "b")])
    jvm.sql("DELETE FROM rest.db.t WHERE id = 4")
    with pytest.raises(lakescan.CommitConflict):
        late()
    change("delete", "id = 5")
    check(jvm, without(left, 4, 5))
    assert row_deltas.head_snapshot().operation == "delete"
    rest.drop_table("db.t")
