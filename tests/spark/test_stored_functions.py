"""Stored view texts, which others write, call Spark's own functions, but none that run code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakescan
import lakescan.spark
from lakescan.errors import UnsupportedFeature
from lakescan.statements.select.view_functions import FUNCTIONS

pytestmark = pytest.mark.spark
OF_JAVA = ("reflect", "java_method", "try_reflect")
OF_FILES = ("from_xml", "from_avro", "from_protobuf", "to_avro", "to_protobuf", "schema_of_avro", "python_worker_logs")
JAVA = "reflect('java.lang.System', 'getProperty', 'user.dir')"


def write_view(folder: Path, text: str) -> None:
    """Make the view `lake.n.v` over the table `lake.n.t` and replace its text in its metadata file."""
    lake = lakescan.catalog("lake", warehouse=str(folder))
    lake.create_namespace("n")
    lake.create_table("n.t", "id BIGINT")
    lakescan.sql("CREATE VIEW lake.n.v AS SELECT id FROM lake.n.t")
    for file in folder.rglob("*.metadata.json"):
        node = json.loads(file.read_text())
        for version in node.get("versions", ()):
            for each in version["representations"]:
                each["sql"] = text
        file.write_text(json.dumps(node))


def test_built_in_functions_are_allowed_except_those_that_call_java(spark: Any) -> None:
    names = {row[0] for row in spark.sql("SHOW SYSTEM FUNCTIONS").collect()}
    assert {*OF_JAVA, *OF_FILES} <= names
    assert {each for each in names if each.isidentifier()} - {*OF_JAVA, *OF_FILES} == FUNCTIONS


@pytest.mark.parametrize(
    "text",
    [
        f"SELECT id /* /*+ */ + length(coalesce({JAVA},'')) -- */\n AS id FROM lake.n.t",
        f"SELECT id + length(concat('a', -- \\ \n '\n {JAVA} -- '\n )) AS id FROM lake.n.t",
        f"SELECT id + length(concat('a', -- \\\n '\n {JAVA} -- '\n )) AS id FROM lake.n.t",
        f"SELECT id + length(concat('b', -- ${{system:line.separator}} {JAVA}, ''\n '')) AS id FROM lake.n.t",
        "SELECT id + length('${system:user.dir}') AS id FROM lake.n.t",
    ],
)
def test_comments_and_variables_hide_nothing_in_a_view(spark: Any, tmp_path: Path, text: str) -> None:
    """Spark and sqlglot end comments at different places, and Spark substitutes variables before it parses."""
    write_view(tmp_path, text)
    try:
        frame = lakescan.spark.sql(spark, "SELECT * FROM lake.n.v")
    except lakescan.LakescanError:
        return
    plan = frame._jdf.queryExecution().toString()
    assert "reflect" not in plan
    assert "java.lang" not in plan


def test_a_view_text_is_unchanged_except_for_its_comments(spark: Any, tmp_path: Path) -> None:
    text = (
        "SELECT /*+ BROADCAST(t) */ id+2L*3S /* a */ -1Y AS id -- b\n"
        "FROM lake.n.`t` WHERE id>>1 = id << 0 AND NOT 'a''b'\"c\" <=> r'\\d' AND id>=-1.5e3"
    )
    write_view(tmp_path, text)
    lakescan.table("lake.n.t").append(pa.table({"id": pa.array([0, 5], pa.int64())}))
    assert lakescan.spark.sql(spark, "SELECT * FROM lake.n.v").collect() == [(5,)]


@pytest.mark.parametrize("call", [f"{name}('java.lang.System', 'getProperty', 'user.dir')" for name in OF_JAVA])
def test_a_view_cannot_call_java(spark: Any, tmp_path: Path, call: str) -> None:
    write_view(tmp_path, f"SELECT id FROM lake.n.t WHERE length({call}) > 0")
    with pytest.raises(UnsupportedFeature, match=call.partition("(")[0]):
        lakescan.spark.sql(spark, "SELECT * FROM lake.n.v").collect()
    with pytest.raises(UnsupportedFeature, match=call.partition("(")[0]):
        lakescan.sql("SELECT * FROM lake.n.v").to_arrow()


def test_a_redefined_catalog_is_used_by_sparks_own_reads(spark: Any, tmp_path: Path) -> None:
    for name, number in (("test", 1), ("production", 2)):
        lake = lakescan.catalog("lake", warehouse=str(tmp_path / name))
        lake.create_namespace("n")
        lake.create_table("n.t", "id BIGINT").append(pa.table({"id": pa.array([number], pa.int64())}))
    for name, number in (("test", 1), ("production", 2)):
        lakescan.catalog("lake", warehouse=str(tmp_path / name))
        lakescan.spark.register(spark) if number == 1 else None
        assert [row.id for row in spark.read.format("iceberg").load("lake.n.t").collect()] == [number]
