"""`lakescan run` runs a job as `python` does, and every Spark session that the job makes is enabled."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from lakescan.cli import first_use
from lakescan.cli.job import Job, parse_job
from lakescan.spark.drop_in import interception

SHOW = "import sys\nprint(sys.argv, __name__, __file__, sys.path[0], sys.stdin.read())\n"
FAILS = "def f():\n    raise ValueError('no')\nf()\n"
_OWN = ("PYSPARK_SUBMIT_ARGS", "SPARK_CONF_DIR", "SPARK_HOME", "PYTHONSAFEPATH")


def python(
    folder: Path, *arguments: str, stdin: str = "", env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run Python in a folder."""
    kept = {name: value for name, value in os.environ.items() if name not in _OWN}
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        input=stdin,
        capture_output=True,
        text=True,
        env={**kept, **(env or {})},
        check=False,
    )


def run(
    folder: Path, *arguments: str, stdin: str = "", env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run `python -m lakescan run` in a folder."""
    return python(folder, "-m", "lakescan", "run", *arguments, stdin=stdin, env=env)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("run job.py -x --help", Job("job.py", ("-x", "--help"))),
        ("run -m pkg.job --json", Job("pkg.job", ("--json",), is_module=True)),
        ("run -mpkg.job a", Job("pkg.job", ("a",), is_module=True)),
        ("run -- -odd.py a", Job("-odd.py", ("a",))),
        ("--catalog local=./lake --catalog=b=./b run job.py", Job("job.py", (), catalogs=("local=./lake", "b=./b"))),
        ("run --help", None),
        ("run", None),
        ("sql run", None),
        ("--version run", None),
    ],
)
def test_options_before_the_job_are_lakescans_and_those_after_it_the_jobs(line: str, expected: Job | None) -> None:
    assert parse_job(line.split()) == expected


@pytest.mark.parametrize("target", [["job.py"], ["-m", "job"], ["sub/job.py"], ["link.py"], ["folder"]])
def test_a_job_sees_what_it_sees_under_python(tmp_path: Path, target: list[str]) -> None:
    (tmp_path / "job.py").write_text(SHOW)
    for name in ("sub", "folder"):
        (tmp_path / name).mkdir()
    (tmp_path / "sub" / "job.py").write_text(SHOW)
    (tmp_path / "folder" / "__main__.py").write_text(SHOW)
    (tmp_path / "link.py").symlink_to(tmp_path / "sub" / "job.py")
    ours, theirs = (each(tmp_path, *target, "-a", "--json", "b c", stdin="text") for each in (run, python))
    assert (ours.returncode, ours.stdout, ours.stderr) == (0, theirs.stdout, theirs.stderr)


@pytest.mark.parametrize(
    "text",
    [
        FAILS,
        "import sys\nsys.exit(3)\n",
        "raise SystemExit('stopped')\n",
        "x = (\n",
        "import nosuchmodule\n",
        "raise KeyboardInterrupt\n",
        "import sys\nsys.excepthook = lambda *a: print('own', a[1], file=sys.stderr)\n1 / 0\n",
        "import atexit\nx = 1\natexit.register(lambda: print(x))\n",
        "import threading, time\nthreading.Thread(target=lambda: (time.sleep(0.2), print('late'))).start()\n",
        "def f(x: int) -> int: ...\nprint(f.__annotations__)\n",
    ],
)
def test_a_job_ends_as_under_python(tmp_path: Path, text: str) -> None:
    (tmp_path / "job.py").write_text(text)
    ours, theirs = run(tmp_path, "job.py"), python(tmp_path, "job.py")
    assert (ours.returncode, ours.stdout, ours.stderr) == (theirs.returncode, theirs.stdout, theirs.stderr)


def test_ctrl_c_interrupts_a_job_as_under_python(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text("import time\nprint('ready', flush=True)\ntime.sleep(60)\n")
    process = subprocess.Popen(
        [sys.executable, "-m", "lakescan", "run", "job.py"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGINT
    assert b"KeyboardInterrupt" in stderr
    assert b"lakescan" not in stderr


def test_a_missing_script_is_named(tmp_path: Path) -> None:
    found = run(tmp_path, "nosuch.py")
    assert (found.returncode, found.stderr) == (2, "lakescan run: there is no script 'nosuch.py'\n")


def notebook(folder: Path, *cells: str) -> str:
    """Write a notebook with these code cells, and return its name."""
    found = [{"cell_type": "markdown", "source": "# text"}, *({"cell_type": "code", "source": each} for each in cells)]
    (folder / "job.ipynb").write_text(json.dumps({"cells": found, "nbformat": 4}))
    return "job.ipynb"


def test_the_code_cells_of_a_notebook_run_in_order(tmp_path: Path) -> None:
    name = notebook(tmp_path, "import sys\nx = 1", "print(x, __name__, sys.argv)", "display(x + 1)")
    assert run(tmp_path, name, "-a").stdout == "1 __main__ ['job.ipynb', '-a']\n2\n"


def test_an_error_in_a_notebook_names_its_cell(tmp_path: Path) -> None:
    found = run(tmp_path, notebook(tmp_path, "x = 1", "x = 2\n1 / 0"))
    assert found.returncode == 1
    assert "job.ipynb[cell 3]" in found.stderr
    assert "    1 / 0\n" in found.stderr


@pytest.mark.parametrize(
    ("cell", "magic"), [("%sql SELECT 1", "%sql"), ("%%bash\nls", "%%bash"), ("!pip install x", "!")]
)
def test_magics_are_refused_by_name_before_anything_runs(tmp_path: Path, cell: str, magic: str) -> None:
    found = run(tmp_path, notebook(tmp_path, "print('ran')", cell))
    assert (found.returncode, found.stdout) == (2, "")
    assert f"cell 3 of '{tmp_path}/job.ipynb' uses {magic}, " in found.stderr


def test_calls_are_recorded_under_the_same_name_before_and_after_the_engine_is_loaded() -> None:
    assert first_use.CALLS == interception.CALLS


WITHOUT_OURS = """
import sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
spark.range(3).createOrReplaceTempView("v")
spark.sql("SELECT * FROM v").write.mode("overwrite").option("compression", "none").parquet("t")
print(spark.read.format("parquet").load("t").count(), spark.table("v").count(), spark.catalog.tableExists("v"))
print([name for name in ("pyarrow.dataset", "lakescan.api", "lakescan.spark") if name in sys.modules])
"""


@pytest.mark.spark
def test_a_job_without_our_tables_does_not_load_the_engine(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(WITHOUT_OURS)
    found = run(tmp_path, "job.py")
    assert found.stdout == "3 3 True\n[]\n", found.stderr


CATALOG = (
    '"spark.sql.catalog.{name}": "org.apache.iceberg.spark.SparkCatalog", "spark.sql.catalog.{name}.type": "hadoop", '
)
CATALOG += '"spark.sql.catalog.{name}.warehouse": "wh/{name}"'
CLASSIC = """
from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

conf = SparkConf().setMaster("local[1]").setAll(list({%(b)s}.items()))
spark = SparkSession(SparkContext(conf=conf))
spark = SparkSession.builder.config(map={%(c)s}).getOrCreate()
for name, value in {%(d)s}.items():
    spark.conf.set(name, value)
for name in "abcd":
    spark.sql(f"CREATE TABLE {name}.db.t (id BIGINT)")
    spark.sql(f"INSERT INTO {name}.db.t VALUES (1)")
    print(name, spark.table(f"{name}.db.t").count())
print("new session", spark.newSession().table("a.db.t").count())
spark.range(2).write.format("delta").save("t")
print("delta", spark.read.format("delta").load("t").count())
print("packages", repr(spark.sparkContext.getConf().get("spark.jars.packages", "")))
print("extensions", repr(spark.sparkContext.getConf().get("spark.sql.extensions", "")))
""" % {name: CATALOG.format(name=name) for name in "bcd"}
RUNTIME = "org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.10.0"


@pytest.mark.spark
def test_each_way_to_make_a_session_enables_it(tmp_path: Path) -> None:
    (tmp_path / "conf").mkdir()
    defaults = [pair.split(": ") for pair in CATALOG.format(name="a").replace('"', "").split(", ")]
    defaults += [["spark.sql.extensions", "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"]]
    defaults += [["spark.jars.packages", RUNTIME], ["spark.ui.enabled", "false"]]
    (tmp_path / "conf" / "spark-defaults.conf").write_text("".join(f"{name} {value}\n" for name, value in defaults))
    (tmp_path / "job.py").write_text(CLASSIC)
    submit = "--packages io.delta:delta-spark_2.13:4.0.0 --conf spark.sql.shuffle.partitions=1 pyspark-shell"
    found = run(tmp_path, "job.py", env={"SPARK_CONF_DIR": str(tmp_path / "conf"), "PYSPARK_SUBMIT_ARGS": submit})
    expected = [*(f"{name} 1" for name in "abcd"), "new session 1", "delta 2", "packages ''", "extensions ''"]
    assert found.stdout.splitlines() == expected, found.stderr[-3000:]


CONNECT = """
from pyspark.sql import SparkSession

spark = SparkSession.builder.remote("local[1]").config(map={a}).config("spark.ui.enabled", "false").getOrCreate()
spark.sql("CREATE TABLE a.db.t (id BIGINT)")
spark.range(3).writeTo("a.db.t").append()
print(spark.table("a.db.t").count(), "connect" in type(spark).__module__)
""".replace("{a}", f"{{{CATALOG.format(name='a')}}}")


@pytest.mark.spark
def test_a_session_of_connect_is_enabled(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(CONNECT)
    found = run(tmp_path, "job.py", env={"SPARK_TESTING": "1"})  # a free port
    assert found.stdout == "3 True\n", found.stderr[-3000:]
