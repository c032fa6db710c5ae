"""Statistics files, and metadata with rewritten paths, compared with the JVM's: equal for equal tables, and usable."""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.support.rows import differences

import lakescan
from interop import test_procedures
from interop.test_procedures import Twins
from lakescan.spark.statements.session_catalog import source_table
from lakescan.statements import procedures

NEW = "statistics-path"
twins = test_procedures.twins


def path_of(location: str) -> str:
    return location.removeprefix("file://").removeprefix("file:")


def metadata(both: Twins, name: str) -> dict[str, Any]:
    """The table's current metadata, as JSON."""
    rows = both.jvm.sql(f"SELECT file FROM rest.{name}.metadata_log_entries ORDER BY timestamp").collect()
    found: dict[str, Any] = json.loads(Path(path_of(rows[-1][0])).read_text())
    return found


def called(both: Twins, procedure: str, **arguments: Any) -> tuple[list[Any], list[Any]]:
    """Call a procedure in the JVM and in lakescan; return both results, after comparing their columns."""
    text = "".join(f", {name} => {value}" for name, value in arguments.items())
    theirs = both.jvm.sql(f"CALL rest.system.{procedure}(table => '{both.theirs}'{text})")
    named = {
        name: json.loads(str(value).replace("'", '"').replace("array(", "[").replace(")", "]"))
        for name, value in arguments.items()
    }
    ours = procedures.call(both.rest, procedure, [both.ours], named)
    assert ours.schema.names == theirs.columns
    return [tuple(row) for row in theirs.collect()], [tuple(row.values()) for row in ours.to_pylist()]


VALUES = """
SELECT id, CAST(id % 7 AS INT) AS i, CAST(id % 3 = 0 AS BOOLEAN) AS b, CAST(id / 8 AS FLOAT) AS f,
    CAST(id % 50 AS DOUBLE) / 3 AS d, CAST(id - 300 AS DECIMAL(9, 2)) AS n, CAST(id * id - 99999 AS DECIMAL(30, 4)) AS w,
    date_add(DATE '1960-01-01', CAST(id % 90 AS INT)) AS day, TIMESTAMP '2020-01-01 00:00:00' + make_interval(0, 0, 0, 0, 0, 0, id) AS at,
    CAST(TIMESTAMP '1900-01-01 00:00:00' AS TIMESTAMP_NTZ) + make_interval(0, 0, 0, 0, 0, id) AS ntz,
    IF(id % 5 = 0, NULL, repeat('é', CAST(id % 40 AS INT))) AS s, CAST(repeat('x', CAST(id % 33 AS INT)) AS BINARY) AS bytes,
    named_struct('m', id % 11) AS st
FROM range({0}, {1})
"""


@pytest.fixture
def values(jvm: Any, rest: lakescan.Catalog, request: pytest.FixtureRequest) -> Twins:
    """Empty twin tables with columns of most types."""
    both = Twins.__new__(Twins)
    name = re.sub(r"\W+", "_", request.node.name.removeprefix("test_"))[:40]
    both.jvm, both.rest, both.theirs, both.ours = jvm, rest, f"db.{name}_theirs", f"db.{name}_ours"
    for each in (both.theirs, both.ours):
        jvm.sql(f"CREATE TABLE rest.{each} USING iceberg AS {VALUES.format(0, 0)}")
    return both


def numbers(both: Twins, name: str) -> dict[tuple[int, ...], str]:
    """Return the numbers of distinct values by field, in the table's metadata."""
    (file,) = metadata(both, name)["statistics"]
    return {tuple(each["fields"]): each["properties"]["ndv"] for each in file["blob-metadata"]}


def blobs(both: Twins, name: str) -> dict[tuple[int, ...], bytes]:
    """Return the sketches, as the JVM reads them from the file."""
    (file,) = metadata(both, name)["statistics"]
    iceberg = both.jvm._jvm.org.apache.iceberg
    reader = iceberg.puffin.Puffin.read(iceberg.Files.localInput(path_of(file[NEW]))).build()
    found = {}
    pairs = reader.readAll(reader.fileMetadata().blobs()).iterator()
    while pairs.hasNext():
        pair = pairs.next()
        data = both.jvm._jvm.org.apache.iceberg.util.ByteBuffers.toByteArray(pair.second())
        found[tuple(pair.first().inputFields())] = bytes(data)
    return found


def test_distinct_values_are_counted_alike(values: Twins) -> None:
    for start, end in ((0, 500), (400, 900)):
        for each in (values.theirs, values.ours):
            values.jvm.sql(f"INSERT INTO rest.{each} {VALUES.format(start, end)}")
    theirs, ours = called(values, "compute_table_stats")
    assert [len(theirs), len(ours)] == [1, 1]
    assert numbers(values, values.ours) == numbers(values, values.theirs)
    read, expected = blobs(values, values.ours), blobs(values, values.theirs)
    assert {field: hashed(each) for field, each in read.items()} == {k: hashed(v) for k, v in expected.items()}
    for data in read.values():
        united = f"theta_sketch_estimate(theta_union(X'{data.hex()}', X'{data.hex()}'))"
        (row,) = values.jvm.sql(f"SELECT theta_sketch_estimate(X'{data.hex()}'), {united}").collect()
        assert row[0] == row[1]
    named = {"table": values.ours, "columns": ["st.m", "id"]}
    procedures.call(values.rest, "compute_table_stats", named=named)
    assert sorted(numbers(values, values.ours).values()) == ["11", "900"]


def hashed(sketch: bytes) -> bytes:
    """Return the hashes of a sketch with few values, which follow its header."""
    return sketch[8:] if sketch[0] & 0x3F == 1 else sketch[16:]


def test_many_distinct_values_are_estimated_alike(values: Twins) -> None:
    """Both keep about the 4,096 least hashes: the same ones for rows in several files."""
    for start in range(0, 80000, 20000):
        for each in (values.theirs, values.ours):
            values.jvm.sql(f"INSERT INTO rest.{each} {VALUES.format(start, start + 20000)}")
    called(values, "compute_table_stats", columns="array('id', 'n')")
    ours, theirs = numbers(values, values.ours), numbers(values, values.theirs)
    for field, count in ours.items():
        assert abs(int(count) - 80000) < 4000
        assert abs(int(count) - int(theirs[field])) < 4000


def counted(both: Twins, name: str) -> list[dict[str, Any]]:
    """Return the rows of the newest partition statistics file, with snapshots by their position."""
    ids, whole = both.ids(name), metadata(both, name)
    newest = max(whole["partition-statistics"], key=lambda each: ids.index(each["snapshot-id"]))
    table = pq.read_table(path_of(newest[NEW]))
    rows = table.to_pylist()
    for row in rows:
        del row["last_updated_at"], row["total_data_file_size_in_bytes"]
        row["last_updated_snapshot_id"] = ids.index(row["last_updated_snapshot_id"])
    return rows


def columns(both: Twins, name: str) -> list[tuple[Any, ...]]:
    """Return names, types, nullability and ids of the columns of a partition statistics file."""
    (file,) = metadata(both, name)["partition-statistics"][:1]
    schema = pq.read_schema(path_of(file[NEW]))
    return [(f.name, f.type, f.nullable, f.metadata[b"PARQUET:field_id"]) for f in schema]


@pytest.mark.parametrize("version", [2, 3])
def test_partitions_are_counted_alike(twins: Callable[..., Twins], version: int) -> None:
    both = twins("'write.delete.mode'='merge-on-read'", version)
    both.sql("INSERT INTO {t} VALUES (1, 'a'), (2, 'a'), (3, 'b'), (4, NULL), (5, 'c')")
    both.sql("DELETE FROM {t} WHERE id = 1")
    both.sql("DELETE FROM {t} WHERE part = 'c'")
    theirs, ours = called(both, "compute_partition_stats")
    assert [len(theirs), len(ours)] == [1, 1]
    assert columns(both, both.ours) == columns(both, both.theirs)
    assert counted(both, both.ours) == counted(both, both.theirs)
    both.sql("ALTER TABLE {t} ADD PARTITION FIELD bucket(2, id)")
    both.sql("INSERT INTO {t} VALUES (6, 'a'), (7, 'd')")
    both.sql("DELETE FROM {t} WHERE id = 2")
    both.sql("DELETE FROM {t} WHERE part = 'b'")
    called(both, "compute_partition_stats")
    assert counted(both, both.ours) == counted(both, both.theirs)
    assert called(both, "compute_partition_stats")[1][0][0].endswith(".parquet")
    both.sql("INSERT INTO {t} VALUES (8, 'd')")  # and the JVM continues from lakescan's
    both.jvm.sql(f"CALL rest.system.compute_partition_stats('{both.theirs}')").collect()
    both.jvm.sql(f"CALL rest.system.compute_partition_stats('{both.ours}')").collect()
    assert counted(both, both.ours) == counted(both, both.theirs)


def copied(file_list: str) -> None:
    with open(path_of(file_list)) as lines:
        for source, target in csv.reader(lines):
            os.makedirs(os.path.dirname(path_of(target)), exist_ok=True)
            shutil.copy(path_of(source), path_of(target))


def listed(both: Twins, file_list: str, folder: str, target: str) -> list[tuple[str, str]]:
    """Count the copied files by extension, source (table or staging folder) and target."""
    with open(path_of(file_list)) as lines:
        pairs = list(csv.reader(lines))
    assert all(each[1].startswith(target) for each in pairs)
    kinds = [("staged" if "copy-table-staging" in each[0] else "own", each[1].rpartition(".")[2]) for each in pairs]
    return sorted(kinds)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_paths_are_rewritten_alike(
    twins: Callable[..., Twins],
    jvm: Any,
    rest: lakescan.Catalog,
    tmp_path: Path,
    version: int,
) -> None:
    both = twins("'write.delete.mode'='merge-on-read'" if version > 1 else "", version)
    both.sql("INSERT INTO {t} VALUES (1, 'a'), (2, 'a'), (3, 'b'), (4, NULL)")
    both.sql("INSERT INTO {t} VALUES (5, 'a'), (6, 'b'), (7, 'b')")
    both.sql("DELETE FROM {t} WHERE id IN (2, 6)")
    both.sql("INSERT INTO {t} VALUES (8, 'c')")
    for each in (both.theirs, both.ours):
        jvm.sql(f"CALL rest.system.compute_table_stats('{each}')").collect()
    found = {}
    for name in (both.theirs, both.ours):
        folder = metadata(both, name)["location"]
        target = f"file://{tmp_path}/{name}"
        named = {"table": name, "source_prefix": folder, "target_prefix": target}
        if name == both.theirs:
            text = ", ".join(f"{key} => '{value}'" for key, value in named.items())
            row = jvm.sql(f"CALL rest.system.rewrite_table_path({text})").collect()[0].asDict()
        else:
            (row,) = procedures.call(rest, "rewrite_table_path", named=named).to_pylist()
        copied(row["file_list_location"])
        counts = row["rewritten_manifest_file_paths_count"], row["rewritten_delete_file_paths_count"]
        found[name] = list(row), counts, listed(both, row["file_list_location"], folder, target)
        shutil.move(path_of(folder), f"{tmp_path}/{name}.away")
        copy = f"{name}_copy"
        jvm.sql(f"CALL rest.system.register_table('{copy}', '{target}/metadata/{row['latest_version']}')").collect()
        here = rest.load_table(copy)
        expected = pa.table({"id": [1, 3, 4, 5, 7, 8], "part": ["a", "b", None, "a", "b", "c"]})
        assert differences(jvm.table(f"rest.{copy}").toArrow(), expected) == "", "there"
        assert differences(here.to_arrow(), expected) == "", "here"
        for snapshot in both.ids(copy):
            there = jvm.sql(f"SELECT * FROM rest.{copy} VERSION AS OF {snapshot}").toArrow()
            assert differences(here.scan().as_of(version=snapshot).to_arrow(), there) == ""
        if name == both.ours:
            jvm.sql(f"INSERT INTO rest.{copy} VALUES (9, 'a')")
            jvm.sql(f"DELETE FROM rest.{copy} WHERE id = 5")
            assert sorted(here.refresh().to_arrow()["id"].to_pylist()) == [1, 3, 4, 7, 8, 9]
    assert found[both.ours] == found[both.theirs]


def test_later_versions_are_copied_onto_earlier_ones(
    twins: Callable[..., Twins],
    jvm: Any,
    rest: lakescan.Catalog,
    tmp_path: Path,
) -> None:
    both = twins("'write.delete.mode'='merge-on-read'")
    both.sql("INSERT INTO {t} VALUES (1, 'a'), (2, 'a'), (3, 'b')")
    both.sql("DELETE FROM {t} WHERE id = 2")
    latest: dict[str, str] = {}
    found = []
    for step in range(2):
        for name in (both.theirs, both.ours):
            named = {
                "table": name,
                "source_prefix": metadata(both, name)["location"],
                "target_prefix": f"file://{tmp_path}/{name}",
            }
            if step:
                named["start_version"] = latest[name]
            if name == both.theirs:
                text = ", ".join(f"{key} => '{value}'" for key, value in named.items())
                row = jvm.sql(f"CALL rest.system.rewrite_table_path({text})").collect()[0].asDict()
            else:
                (row,) = procedures.call(rest, "rewrite_table_path", named=named).to_pylist()
            latest[name] = row["latest_version"]
            counts = row["rewritten_manifest_file_paths_count"], row["rewritten_delete_file_paths_count"]
            found.append((counts, listed(both, row["file_list_location"], "", f"file://{tmp_path}/{name}")))
            copied(row["file_list_location"])
        both.sql("INSERT INTO {t} VALUES (4, 'b')")
        both.sql("DELETE FROM {t} WHERE id = 1")
    assert found[0] == found[1]
    assert found[2] == found[3]
    location = f"file://{tmp_path}/{both.ours}/metadata/{latest[both.ours]}"
    jvm.sql(f"CALL rest.system.register_table('{both.ours}_copy', '{location}')").collect()
    shutil.move(path_of(metadata(both, both.ours)["location"]), f"{tmp_path}/away")
    assert sorted(row[0] for row in jvm.table(f"rest.{both.ours}_copy").collect()) == [3, 4]
    assert sorted(rest.load_table(f"{both.ours}_copy").to_arrow()["id"].to_pylist()) == [3, 4]


def test_values_by_position_come_before_those_by_name(twins: Callable[..., Twins], jvm: Any) -> None:
    both = twins()
    both.sql("INSERT INTO {t} VALUES (1, 'a')")
    both.sql("INSERT INTO {t} VALUES (2, 'a')")
    jvm.sql(f"CALL rest.system.rollback_to_snapshot('{both.theirs}', snapshot_id => {both.ids(both.theirs)[0]})")
    named = {"snapshot_id": both.ids(both.ours)[0]}
    procedures.call(both.rest, "rollback_to_snapshot", [both.ours], named)
    both.check()


def test_a_snapshot_of_a_spark_table_equals_that_of_the_jvm(jvm: Any, rest: lakescan.Catalog, tmp_path: Path) -> None:
    """Equal columns, partitions, properties, name mapping and files; each side reads and changes the other's table."""
    folder = tmp_path / "source"
    jvm.sql(
        "CREATE TABLE spark_catalog.default.source (id BIGINT, s STRUCT<a: INT, l: ARRAY<STRING>>, at TIMESTAMP, "
        f"n DECIMAL(9, 2), part STRING, day DATE) USING parquet PARTITIONED BY (part, day) LOCATION 'file://{folder}'"
    )
    try:
        jvm.sql(
            "INSERT INTO spark_catalog.default.source SELECT id, named_struct('a', int(id), 'l', array('x')), "
            "TIMESTAMP '2026-01-31 00:00:00', id / 4, IF(id = 3, NULL, 'a/b'), DATE '2026-01-31' FROM range(5)"
        )
        call = "CALL rest.system.snapshot('spark_catalog.default.source', 'rest.db.snapped_theirs')"
        ((count,),) = jvm.sql(call).collect()
        own = partial(source_table, jvm)
        given = procedures.call(rest, "snapshot", ["default.source", "db.snapped_ours"], source_table=own)
        assert given.to_pylist() == [{"imported_files_count": count}]
        found, counted = {}, {}
        for name in ("db.snapped_theirs", "db.snapped_ours"):
            rows = jvm.sql(f"SELECT file FROM rest.{name}.metadata_log_entries").collect()
            whole = json.loads(Path(path_of(rows[-1][0])).read_text())
            schema = whole["schemas"][-1]["fields"]
            properties = dict(whole["properties"])
            mapping = json.loads(properties.pop("schema.name-mapping.default"))
            columns = "file_path, partition.part, partition.day, record_count, file_size_in_bytes, lower_bounds"
            rows = jvm.sql(f"SELECT {columns}, upper_bounds FROM rest.{name}.files ORDER BY file_path").collect()
            files = [tuple(map(str, row)) for row in rows]
            counted[name] = jvm.sql(
                f"SELECT value_counts, null_value_counts FROM rest.{name}.files ORDER BY file_path"
            ).collect()
            marks = {key: properties[key] for key in ("gc.enabled", "snapshot")}
            found[name] = schema, whole["partition-specs"], mapping, files, marks
        theirs, ours = found.values()
        for mine, expected in zip(ours, theirs, strict=True):
            assert mine == expected
        for mine, expected in zip(counted["db.snapped_ours"], counted["db.snapped_theirs"], strict=True):
            for ours, theirs in zip(mine, expected, strict=True):  # times of 96 bits (3) have no statistics there
                assert {column: count for column, count in ours.items() if column != 3} == theirs
        expected = jvm.table("spark_catalog.default.source").toArrow()
        for name in ("db.snapped_theirs", "db.snapped_ours"):
            assert differences(rest.load_table(name).to_arrow(), expected) == ""
            assert differences(jvm.table(f"rest.{name}").toArrow(), expected) == ""
        jvm.sql("DELETE FROM rest.db.snapped_ours WHERE id = 1")
        rest.load_table("db.snapped_theirs").delete("id = 2")
        assert sorted(rest.load_table("db.snapped_ours").to_arrow()["id"].to_pylist()) == [0, 2, 3, 4]
        assert sorted(row.id for row in jvm.table("rest.db.snapped_theirs").collect()) == [0, 1, 3, 4]
        assert jvm.table("spark_catalog.default.source").count() == 5
    finally:
        jvm.sql("DROP TABLE spark_catalog.default.source")
