"""Procedures, branches and tags: the same calls in lakescan and the JVM on twin tables have the same results.

Snapshot ids differ between tables, so they are compared by their position in the order of commits.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.support.rows import differences

import lakescan
from lakescan.statements import procedures

SPARK_TYPES = {"bigint": pa.int64(), "int": pa.int32(), "string": pa.string()}
LATER = datetime(2100, 1, 1, tzinfo=UTC)
Ids = list[int]


class Twins:
    """Two tables with the same history, written by the JVM: the JVM runs procedures on one, lakescan on the other."""

    def __init__(self, jvm: Any, rest: lakescan.Catalog, name: str, properties: str = "", version: int = 2) -> None:
        self.jvm, self.rest = jvm, rest
        self.theirs, self.ours = f"db.{name}_theirs", f"db.{name}_ours"
        extra = f", {properties}" if properties else ""
        for each in (self.theirs, self.ours):
            jvm.sql(
                f"CREATE TABLE rest.{each} (id BIGINT, part STRING) USING iceberg PARTITIONED BY (part) "
                f"TBLPROPERTIES ('format-version'='{version}'{extra})"
            )

    def sql(self, text: str) -> None:
        """Run a JVM statement on both tables; `{t}` is the table, `{0}` the id of its first snapshot."""
        for each in (self.theirs, self.ours):
            self.jvm.sql(text.format(*self.ids(each), t=f"rest.{each}")).collect()

    def ids(self, name: str) -> Ids:
        rows = self.jvm.sql(f"SELECT snapshot_id FROM rest.{name}.snapshots ORDER BY committed_at, snapshot_id")
        return [row[0] for row in rows.collect()]

    def call(self, name: str, **arguments: Any) -> None:
        """Call a procedure in the JVM and in lakescan, and compare the results; callables take the snapshot ids."""
        ids, own = self.ids(self.theirs), self.ids(self.ours)
        there = {key: each(ids) if callable(each) else each for key, each in arguments.items()}
        here = {key: each(own) if callable(each) else each for key, each in arguments.items()}
        texts = [f"table => '{self.theirs}'", *(f"{key} => {literal(each)}" for key, each in there.items())]
        expected = self.jvm.sql(f"CALL rest.system.{name}({', '.join(texts)})")
        rows = [tuple(row) for row in expected.collect()]
        found = procedures.call(self.rest, name, named={"table": self.ours, **here})
        kinds = {field.name: SPARK_TYPES[field.dataType.simpleString()] for field in expected.schema.fields}
        assert dict(zip(found.schema.names, found.schema.types, strict=True)) == kinds, name
        after, now = self.ids(self.theirs), self.ids(self.ours)
        mine = [tuple(row.values()) for row in found.to_pylist()]
        assert placed(mine, own + now) == placed(rows, ids + after), name
        self.check()

    def check(self) -> None:
        """Check that both tables have the same rows, branches, tags and history, and that both sides read lakescan's
        alike.
        """
        for name in (self.theirs, self.ours):
            self.jvm.sql(f"REFRESH TABLE rest.{name}")
        assert self.refs(self.ours) == self.refs(self.theirs)
        rows = [self.jvm.table(f"rest.{each}").toArrow() for each in (self.ours, self.theirs)]
        assert differences(rows[0], rows[1]) == ""
        assert differences(self.rest.load_table(self.ours).to_arrow(), rows[1]) == ""

    def refs(self, name: str) -> list[tuple[Any, ...]]:
        ids = self.ids(name)
        found = self.jvm.sql(f"SELECT * FROM rest.{name}.refs ORDER BY name").collect()
        return [tuple(ids.index(value) if value in ids else value for value in row) for row in found]


def placed(rows: list[tuple[Any, ...]], ids: Ids) -> list[tuple[Any, ...]]:
    return [tuple(f"#{ids.index(value)}" if value in ids else value for value in row) for row in rows]


def literal(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return f"map({', '.join(literal(each) for pair in value.items() for each in pair)})"
    if isinstance(value, list):
        return f"array({', '.join(map(literal, value))})"
    if isinstance(value, datetime):
        return f"TIMESTAMP '{value.isoformat(sep=' ')}'"
    return f"'{value}'" if isinstance(value, str) else str(value)


@pytest.fixture
def twins(jvm: Any, rest: lakescan.Catalog, request: pytest.FixtureRequest) -> Callable[..., Twins]:
    name = re.sub(r"\W+", "_", request.node.name.removeprefix("test_")).strip("_")[:40]
    return lambda properties="", version=2: Twins(jvm, rest, name, properties, version)


def test_rollbacks_equal_those_of_the_jvm(twins: Callable[..., Twins]) -> None:
    both = twins()
    for number in range(3):
        both.sql(f"INSERT INTO {{t}} VALUES ({number}, 'a')")
    both.call("rollback_to_snapshot", snapshot_id=lambda ids: ids[0])
    both.call("set_current_snapshot", snapshot_id=lambda ids: ids[2])
    both.sql("ALTER TABLE {t} CREATE TAG old AS OF VERSION {1}")
    both.call("set_current_snapshot", ref="old")
    both.sql("INSERT INTO {t} VALUES (7, 'b')")
    both.call("cherrypick_snapshot", snapshot_id=lambda ids: ids[2])
    both.sql("ALTER TABLE {t} CREATE BRANCH audit")
    both.sql("INSERT INTO {t}.branch_audit VALUES (8, 'b')")
    both.call("fast_forward", branch="main", to="audit")
    both.call("fast_forward", branch="new", to="old")


def test_ancestors_equal_those_of_the_jvm(twins: Callable[..., Twins], jvm: Any, rest: lakescan.Catalog) -> None:
    both = twins()
    for number in range(3):
        both.sql(f"INSERT INTO {{t}} VALUES ({number}, 'a')")
    for version in (None, both.ids(both.ours)[1]):
        argument = "" if version is None else f", snapshot_id => {version}"
        rows = jvm.sql(f"CALL rest.system.ancestors_of(table => '{both.ours}'{argument})").collect()
        found = procedures.call(rest, "ancestors_of", [both.ours] if version is None else [both.ours, version])
        assert [tuple(each.values()) for each in found.to_pylist()] == [tuple(row) for row in rows]


def test_dynamic_overwrites_are_cherry_picked(twins: Callable[..., Twins], jvm: Any) -> None:
    both = twins()
    both.sql("INSERT INTO {t} VALUES (1, 'a'), (2, 'b')")
    both.sql("ALTER TABLE {t} CREATE BRANCH b")
    jvm.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    try:
        both.sql("INSERT OVERWRITE {t}.branch_b VALUES (9, 'a')")
    finally:
        jvm.conf.unset("spark.sql.sources.partitionOverwriteMode")
    both.sql("INSERT INTO {t} VALUES (3, 'b')")
    both.call("cherrypick_snapshot", snapshot_id=lambda ids: ids[1])


def test_dynamic_overwrites_of_lakescan_are_cherry_picked_by_the_jvm(rest: lakescan.Catalog, jvm: Any) -> None:
    table = rest.create_table("db.picked_there", "id BIGINT, part STRING", partition_by=["part"])
    table.append(pa.table({"id": [1, 2], "part": ["a", "b"]}))
    table.create_branch("b")
    table.overwrite(pa.table({"id": [9], "part": ["a"]}), overwrite_mode="dynamic", branch="b")
    table.append(pa.table({"id": [3], "part": ["b"]}))
    picked = table.branches["b"].snapshot_id
    jvm.sql(f"CALL rest.system.cherrypick_snapshot('db.picked_there', {picked})").collect()
    assert sorted(table.refresh().to_arrow()["id"].to_pylist()) == [2, 3, 9]


def test_retention_equals_that_of_the_jvm(twins: Callable[..., Twins], rest: lakescan.Catalog, jvm: Any) -> None:
    both = twins()
    for number in range(2):
        both.sql(f"INSERT INTO {{t}} VALUES ({number}, 'a')")
    first = both.ids(both.theirs)[0]
    alter = f"ALTER TABLE rest.{both.theirs}"
    for statement in (
        f"CREATE BRANCH b AS OF VERSION {first} RETAIN 7 DAYS WITH SNAPSHOT RETENTION 2 SNAPSHOTS 3 DAYS",
        "CREATE TAG t RETAIN 30 DAYS",
        f"CREATE OR REPLACE TAG u AS OF VERSION {first}",
        "REPLACE BRANCH b RETAIN 8 DAYS",
        "CREATE TAG IF NOT EXISTS t",
        f"REPLACE TAG t AS OF VERSION {first}",
        "CREATE BRANCH gone",
        "DROP BRANCH gone",
    ):
        jvm.sql(f"{alter} {statement}")
    table, first = rest.load_table(both.ours), both.ids(both.ours)[0]
    days = {"max_ref_age": timedelta(days=7), "max_snapshot_age": timedelta(days=3)}
    table.create_branch("b", version=first, min_snapshots_to_keep=2, **days)
    table.create_tag("t", max_ref_age=timedelta(days=30))
    table.create_tag("u", version=first, replace=True)
    table.replace_branch("b", max_ref_age=timedelta(days=8))
    table.create_tag("t", if_not_exists=True)
    table.replace_tag("t", version=first)
    table.create_branch("gone")
    table.drop_branch("gone")
    both.check()


def test_a_branch_of_an_empty_table_equals_that_of_the_jvm(
    twins: Callable[..., Twins], rest: lakescan.Catalog, jvm: Any
) -> None:
    both = twins()
    jvm.sql(f"ALTER TABLE rest.{both.theirs} CREATE BRANCH b")
    rest.load_table(both.ours).create_branch("b")
    both.check()
    both.sql("INSERT INTO {t}.branch_b VALUES (1, 'a')")
    both.call("fast_forward", branch="main", to="b")


def test_staged_rows_are_published_as_by_the_jvm(twins: Callable[..., Twins], rest: lakescan.Catalog, jvm: Any) -> None:
    both = twins("'write.wap.enabled'='true'")
    both.sql("INSERT INTO {t} VALUES (1, 'a')")
    jvm.conf.set("spark.wap.id", "load")
    try:
        both.sql("INSERT INTO {t} VALUES (2, 'b')")
    finally:
        jvm.conf.unset("spark.wap.id")
    both.sql("INSERT INTO {t} VALUES (3, 'c')")
    both.check()
    both.call("publish_changes", wap_id="load")
    rest.load_table(both.ours).append(pa.table({"id": [4], "part": ["d"]}), wap_id="ours")
    jvm.sql(f"CALL rest.system.publish_changes('{both.ours}', 'ours')").collect()
    assert sorted(rest.load_table(both.ours).to_arrow()["id"].to_pylist()) == [1, 2, 3, 4]


def test_expiry_equals_that_of_the_jvm(twins: Callable[..., Twins], jvm: Any) -> None:
    both = twins("'write.delete.mode'='merge-on-read'")
    both.sql("INSERT INTO {t} VALUES (1, 'a'), (2, 'a'), (3, 'b')")
    both.sql("DELETE FROM {t} WHERE id = 1")
    both.sql("ALTER TABLE {t} CREATE TAG kept")
    both.sql("INSERT OVERWRITE {t} VALUES (4, 'c')")
    both.sql("INSERT INTO {t} VALUES (5, 'c')")
    both.call("expire_snapshots", snapshot_ids=lambda ids: [ids[0]])
    both.call("expire_snapshots", older_than=LATER, retain_last=1)
    both.sql("ALTER TABLE {t} DROP TAG kept")
    both.call("expire_snapshots", older_than=LATER)
    both.call("expire_snapshots", older_than=LATER)


def test_a_table_is_registered_by_both(rest: lakescan.Catalog, jvm: Any) -> None:
    table = rest.create_table("db.first_name", "id BIGINT")
    table.append(pa.table({"id": [1, 2]}))
    source = jvm.sql("SELECT file FROM rest.db.first_name.metadata_log_entries ORDER BY timestamp DESC").collect()[0][0]
    theirs = jvm.sql(f"CALL rest.system.register_table('db.second_name', '{source}')")
    ours = procedures.call(rest, "register_table", ["db.third_name", source])
    assert [tuple(each.values()) for each in ours.to_pylist()] == [tuple(row) for row in theirs.collect()]
    assert ours.schema.names == theirs.columns


@pytest.mark.parametrize("options", [{}, {"remove-dangling-deletes": "true"}], ids=str)
def test_rewrites_equal_those_of_the_jvm(twins: Callable[..., Twins], options: dict[str, str]) -> None:
    """Both remove the delete file of a rewritten file. The JVM's result does not count it, because its core removes it.

    lakescan's `removed_delete_files_count` follows Iceberg's documentation: the delete files that the command removed.
    """
    both = twins("'write.delete.mode'='merge-on-read'")
    both.sql("INSERT INTO {t} VALUES (1, 'a'), (2, 'a'), (3, 'a'), (4, 'a')")
    for number in range(5, 8):
        both.sql(f"INSERT INTO {{t}} VALUES ({number}, 'a')")
    both.sql("DELETE FROM {t} WHERE id = 1")
    both.call("rewrite_manifests")
    for given in ({"min-input-files": "2", **options}, options):
        before = _delete_files(both, both.ours)
        removed = _rewritten(both, given)
        assert removed == before - _delete_files(both, both.ours)
        assert _delete_files(both, both.ours) == _delete_files(both, both.theirs) == 0


def _delete_files(both: Twins, name: str) -> int:
    return int(both.jvm.table(f"rest.{name}.delete_files").count())


def _rewritten(both: Twins, options: dict[str, str]) -> int:
    """Rewrite data files on both sides with equal counts; return the number of delete files that lakescan removed."""
    given = f", options => {literal(options)}" if options else ""
    (theirs,) = both.jvm.sql(f"CALL rest.system.rewrite_data_files(table => '{both.theirs}'{given})").collect()
    named = {"table": both.ours, "options": options} if options else {"table": both.ours}
    (ours,) = procedures.call(both.rest, "rewrite_data_files", named=named).to_pylist()
    assert list(ours) == list(theirs.asDict())
    counts = [name for name in ours if name != "removed_delete_files_count" and "bytes" not in name]
    assert [ours[name] for name in counts] == [theirs[name] for name in counts]
    both.check()
    return int(ours["removed_delete_files_count"])


@pytest.fixture
def hive(tmp_path: Path) -> Path:
    """Files without field ids: ten ids and a null in each of the partitions a (two files), b/c and null."""
    for number, part in enumerate(("a", "a", "b%2Fc", "__HIVE_DEFAULT_PARTITION__")):
        folder = tmp_path / "hive" / f"part={part}"
        folder.mkdir(parents=True, exist_ok=True)
        ids = pa.array([*range(10 * number, 10 * number + 10), None], pa.int64())
        pq.write_table(pa.table({"extra": ["?"] * 11, "id": ids}), folder / f"{number}.parquet")
    return tmp_path / "hive"


@pytest.mark.parametrize("version", [1, 2])
def test_files_are_added_as_by_the_jvm(twins: Callable[..., Twins], hive: Path, jvm: Any, version: int) -> None:
    both = twins(version=version)
    both.call("add_files", source_table=f"`parquet`.`{hive}`", partition_filter={"part": "a"})
    assert _files(both, both.ours) == _files(both, both.theirs)
    mapping = [
        jvm.sql(f"SHOW TBLPROPERTIES rest.{each} ('schema.name-mapping.default')").collect()[0]["value"]
        for each in (both.ours, both.theirs)
    ]
    assert json.loads(mapping[0]) == json.loads(mapping[1])


def _files(both: Twins, name: str) -> list[str]:
    columns = "partition.part, record_count, file_size_in_bytes, value_counts, null_value_counts, lower_bounds"
    rows = both.jvm.sql(f"SELECT {columns}, upper_bounds FROM rest.{name}.files").collect()
    return sorted(map(str, rows))


def test_the_jvm_continues_a_table_with_added_files(twins: Callable[..., Twins], hive: Path, jvm: Any) -> None:
    both = twins()
    both.call("add_files", source_table=f"`parquet`.`{hive}`")
    assert _files(both, both.ours) == _files(both, both.theirs)
    name = f"rest.{both.ours}"
    count = f"SELECT count(*) FROM {name} WHERE"
    for condition, expected in {
        "id >= 25": 15,
        "id < 5": 5,
        "id IS NULL": 4,
        "part = 'b/c'": 11,
        "part IS NULL AND id > 31": 8,
        "id = 40": 0,
    }.items():
        assert jvm.sql(f"{count} {condition}").collect()[0][0] == expected, condition
        assert both.rest.load_table(both.ours).scan().where(condition).count() == expected
    both.sql("ALTER TABLE {t} RENAME COLUMN id TO number")
    both.sql("ALTER TABLE {t} ADD COLUMN note STRING")
    both.sql("INSERT INTO {t} VALUES (77, 'a', 'new')")
    both.sql("DELETE FROM {t} WHERE number = 3")
    both.check()
    assert jvm.sql(f"{count} number IS NOT NULL").collect()[0][0] == 40
    assert jvm.sql(f"{count} note IS NOT NULL").collect()[0][0] == 1
