"""Row deltas committed by lakescan: the JVM reads them and continues, and lakescan reads its rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pytest
from samples.iceberg_deletes import DeleteFile, write_position_deletes
from tests.support import row_deltas
from tests.tables.support import now, pairs, rows

import lakescan
from lakescan.iceberg.commit.conflicts import Validation
from lakescan.iceberg.commit.file_changes import SnapshotChanges, added_files
from lakescan.writing.parquet_writer import write_rows

A, B = [(number, "a") for number in range(8)], [(number, "b") for number in range(10, 18)]
MERGE_ON_READ = {f"write.{command}.mode": "merge-on-read" for command in ("delete", "update", "merge")}
Row = tuple[int, str | None]


@pytest.fixture(params=[(version, by) for version in "23" for by in ((), ("part",))], ids=str)
def table(request: pytest.FixtureRequest, rest: lakescan.Catalog, rest_uri: str) -> Iterator[lakescan.Table]:
    """The table `db.t` of the REST catalog, with one file of `A` and one of `B`."""
    version, by = request.param
    local = lakescan.catalog("local", type="rest", uri=rest_uri)
    properties = {"format-version": version, **MERGE_ON_READ}
    made = local.create_table("db.t", "id BIGINT, part STRING", partition_by=by, properties=properties)
    for part in (A, B):
        now().append(rows(*part))
    yield made
    local.drop_table("db.t")


def delta(deletes: Sequence[DeleteFile], new: Sequence[Row] = (), referenced: Sequence[str] = ()) -> None:
    commit = row_deltas.commit()
    written = write_rows(commit.writes, rows(*new).to_batches(), "w") if new else []
    changes = SnapshotChanges(added_files(written, commit.base), added_deletes=row_deltas.added_deletes(deletes))
    commit.row_delta(changes, Validation.create(commit.base, referenced=pa.array(referenced, pa.string())))


def part_of(table: lakescan.Table, part: str) -> str | None:
    return part if table.partitioning else None


def check(jvm: Any, expected: Sequence[Row]) -> None:
    """Check that both sides read these rows, with the same row ids if there are any."""
    assert sorted(tuple(row) for row in jvm.table("rest.db.t").collect()) == sorted(expected)
    assert pairs() == sorted(expected)
    assert now().scan().where("id >= 5").count() == jvm.table("rest.db.t").where("id >= 5").count()


def without(some: Sequence[Row], *ids: int) -> list[Row]:
    return [row for row in some if row[0] not in ids]


def test_the_jvm_reads_deletes_by_position(jvm: Any, table: lakescan.Table) -> None:
    """Position delete files in version 2, vectors in version 3; the JVM adds deletes and rewrites the files."""
    delta(row_deltas.by_position("id IN (1, 12, 13)"))
    left = without([*A, *B], 1, 12, 13)
    check(jvm, left)
    jvm.sql("DELETE FROM rest.db.t WHERE id IN (2, 14)")
    left = without(left, 2, 14)
    check(jvm, left)
    jvm.sql("CALL rest.system.rewrite_data_files(table => 'db.t', options => map('rewrite-all', 'true'))")
    check(jvm, left)
    delta(row_deltas.by_position("id = 3"))
    check(jvm, without(left, 3))


def test_the_jvm_reads_deletes_by_key(jvm: Any, table: lakescan.Table) -> None:
    """They delete the rows of earlier commits, not of their own or of later ones."""
    delta(row_deltas.equality_deletes([3], part_of(table, "a")), new=[(3, "a"), (4, "a")])
    left = [*without([*A, *B], 3), (3, "a"), (4, "a")]
    check(jvm, left)
    jvm.sql("INSERT INTO rest.db.t VALUES (3, 'a')")
    left.append((3, "a"))
    check(jvm, left)
    jvm.sql("DELETE FROM rest.db.t WHERE id = 5")
    jvm.sql("CALL rest.system.rewrite_data_files(table => 'db.t', options => map('rewrite-all', 'true'))")
    check(jvm, without(left, 5))


def test_both_sides_update_in_turn(jvm: Any, table: lakescan.Table) -> None:
    """Deleted positions and new rows in one commit, by lakescan and by MERGE."""
    delta(row_deltas.by_position("id IN (6, 15)"), new=[(106, "a"), (115, "b"), (120, None)])
    left = [*without([*A, *B], 6, 15), (106, "a"), (115, "b"), (120, None)]
    check(jvm, left)
    jvm.sql(
        "MERGE INTO rest.db.t USING (SELECT 106 AS id UNION ALL SELECT 16 UNION ALL SELECT 200) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET id = t.id + 1000 WHEN NOT MATCHED THEN INSERT (id, part) VALUES (s.id, 'b')"
    )
    left = [*without(left, 106, 16), (1106, "a"), (1016, "b"), (200, "b")]
    check(jvm, left)
    now().compact()
    check(jvm, left)
    delta(row_deltas.by_position("id IN (1106, 10)"))
    check(jvm, without(left, 1106, 10))


@pytest.mark.parametrize("table", [("2", ())], indirect=True, ids=str)
def test_the_jvm_reads_one_position_delete_file_for_several_data_files(jvm: Any, table: lakescan.Table) -> None:
    found = row_deltas.positions_of("id IN (1, 2, 16)")
    assert len(found) == 2
    positions = [(path, each) for path, some in found.items() for each in some]
    name = f"{row_deltas.commit_base().metadata.location}/data/both.parquet"
    delta([write_position_deletes(name, positions)], referenced=list(found))
    left = without([*A, *B], 1, 2, 16)
    check(jvm, left)
    jvm.sql("CALL rest.system.rewrite_position_delete_files(table => 'db.t', options => map('rewrite-all', 'true'))")
    check(jvm, left)
