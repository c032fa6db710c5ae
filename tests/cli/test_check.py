"""`lakescan check` reads a job without running it, and lists what works, what differs and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lakescan.cli.commands import app
from lakescan.cli.script_check import Finding, check_script
from lakescan.cli.script_reader import read_script
from lakescan.errors import InvalidOption

SETTINGS = """
from pyspark.sql import SparkSession
spark = (SparkSession.builder
    .config("spark.sql.catalog.lake", "org.apache.iceberg.spark.SparkCatalog")
    .config("spark.sql.catalog.lake.type", "hadoop")
    .config("spark.sql.catalog.lake.warehouse", "/wh")
    .getOrCreate())
"""


def run(*arguments: str, code: int = 0) -> str:
    """Return the output of a command that exits with `code`."""
    found = CliRunner().invoke(app, list(arguments), env={"COLUMNS": "200"}, catch_exceptions=False)
    assert found.exit_code == code, found.output
    return found.stdout.strip()


def check(folder: Path, text: str, name: str = "job.py") -> list[Finding]:
    """Return the findings of a script without those of its settings."""
    path = folder / name
    path.write_text(SETTINGS + text)
    return [each for each in check_script(read_script(str(path))) if not each.subject.startswith("catalog lake")]


@pytest.mark.parametrize(
    "line",
    [
        'spark.sql("SELECT * FROM lake.db.t")',
        'spark.sql("MERGE INTO lake.db.t t USING s ON t.id = s.id WHEN MATCHED THEN DELETE")',
        'spark.sql("DELETE FROM lake.db.t WHERE id = :id", args={"id": 1})',
        "spark.sql(\"CALL lake.system.expire_snapshots(table => 'db.t')\")",
        'TABLE = "lake.db.t"\nspark.sql(f"TRUNCATE TABLE {TABLE}")',
        'spark.table("lake.db.t").show()',
        'spark.read.format("delta").option("versionAsOf", 3).load("/t")',
        'df.write.format("delta").mode("overwrite").option("replaceWhere", "a = 1").save(path)',
        'df.writeTo("lake.db.t").append()',
        'df.writeStream.format("iceberg").option("checkpointLocation", c).toTable("lake.db.t")',
        "from delta.tables import DeltaTable",
        'DeltaTable.forPath(spark, "/t").vacuum(168)',
        'spark.conf.set("spark.databricks.delta.schema.autoMerge.enabled", True)',
    ],
)
def test_these_lines_work(tmp_path: Path, line: str) -> None:
    assert {each.outcome for each in check(tmp_path, line)} == {"works"}


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("spark.sql(\"CALL lake.system.rewrite_data_file('db.t')\")", "Did you mean 'rewrite_data_files'"),
        ('spark.sql("CREATE TABLE lake.db.t (id BIGINT) PARTITIONED BY (bukcet(8, id))")', "not a partition transform"),
        ('spark.sql("MERGE INTO lake.db.t USING s WHEN MATCHED THEN DELETE")', "not valid SQL"),
        ('spark.sql("ANALYZE TABLE lake.db.t COMPUTE STATISTICS")', "Spark's own tables"),
        ('spark.read.format("delta").option("timestmpAsOf", "x").load("/t")', "Did you mean 'timestampAsOf'"),
        ('df.write.format("iceberg").bucketBy(4, "id").saveAsTable("lake.db.t")', "bucket(n, column)"),
        ('dt = DeltaTable.forPath(spark, "/t")\ndt.vacum()', "Did you mean 'vacuum'"),
        ("spark._jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(s, 't')", "classes of the JARs"),
        ('spark.udf.registerJavaFunction("f", "org.apache.iceberg.spark.IcebergSpark")', "is in the JARs"),
    ],
)
def test_these_lines_are_refused_with_the_reason(tmp_path: Path, line: str, reason: str) -> None:
    refused = [each for each in check(tmp_path, line) if each.outcome == "refused"]
    assert len(refused) == 1
    assert reason in refused[0].detail


@pytest.mark.parametrize(
    ("line", "outcome"),
    [
        ("df._jdf.queryExecution()", "differs"),
        ('spark.conf.set("spark.databricks.delta.replaceWhere.constraintCheck.enabled", "false")', "differs"),
        ("spark.sql(text)", "unclear"),
        ('spark.sql(f"SELECT {columns} FROM lake.db.t WHERE {condition} {rest}")', "unclear"),
    ],
)
def test_lines_that_differ_or_are_only_known_at_run_time_are_named(tmp_path: Path, line: str, outcome: str) -> None:
    assert [each.outcome for each in check(tmp_path, line)] == [outcome]


@pytest.mark.parametrize(
    "line",
    [
        'spark.sql("SELECT * FROM sales")',
        'spark.table("sales")',
        'spark.read.format("parquet").option("whatever", 1).load("/t")',
        'df.write.mode("overwrite").parquet("/t")',
        'spark.sql("THIS IS NOT SQL")',
        '{"a": 1}.get("a")',
    ],
)
def test_lines_that_do_not_concern_our_tables_are_left_out(tmp_path: Path, line: str) -> None:
    assert check(tmp_path, line) == []


def test_a_finding_has_the_line_of_its_call_and_of_the_place_in_a_statement(tmp_path: Path) -> None:
    text = 'spark.sql("""\n  CREATE TABLE lake.db.t (id BIGINT)\n  PARTITIONED BY (bukcet(8, id))\n""")'
    found = check(tmp_path, f"x = 1\n{text}\n")
    lines = SETTINGS.count("\n") + 1
    assert [(each.outcome, each.line) for each in found] == [("refused", lines + 3)]


def test_cells_of_notebooks_are_checked_and_magics_refused(tmp_path: Path) -> None:
    cells = [
        {"cell_type": "markdown", "source": "# orders"},
        {"cell_type": "code", "source": ["%sql SELECT 1\n"]},
        {"cell_type": "code", "source": ['spark.read.format("delta").load("/t")']},
    ]
    path = tmp_path / "orders.ipynb"
    path.write_text(json.dumps({"cells": cells}))
    found = check_script(read_script(str(path)))
    assert [(each.cell, each.line, each.outcome) for each in found] == [(2, 1, "refused"), (3, 1, "works")]


def test_a_file_that_is_not_python_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text("def (")
    with pytest.raises(InvalidOption, match=r"job.py cannot be read"):
        read_script(str(tmp_path / "job.py"))


def test_the_command_exits_with_1_if_something_is_refused(tmp_path: Path) -> None:
    (tmp_path / "good.py").write_text(SETTINGS)
    (tmp_path / "bad.py").write_text(SETTINGS + 'spark.sql("ANALYZE TABLE lake.db.t COMPUTE STATISTICS")')
    assert "1 works" in run("check", str(tmp_path / "good.py"))
    assert "1 works, 1 refused" in run("check", str(tmp_path / "bad.py"), code=1)
    lines = run("check", str(tmp_path / "bad.py"), "--json", "--problems", code=1).splitlines()
    assert [json.loads(line)["outcome"] for line in lines] == ["refused"]
