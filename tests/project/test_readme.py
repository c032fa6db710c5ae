"""The code of the README and of the tour runs unchanged."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support import readme


@pytest.mark.spark
@pytest.mark.parametrize("page", [readme.README, readme.TOUR], ids=lambda page: page.name)
def test_the_pages_python_and_sql_run(
    spark, shop, page: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = readme.run_python_and_sql(page, spark, shop, tmp_path)
    assert names["table"].num_rows == names["frame"].count() > 0
    assert "files by partition" in capsys.readouterr().out


def test_the_readmes_first_block_runs_without_a_jvm_and_prints_the_plan_that_it_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    exec(compile(readme.blocks("python")[0], "README.md", "exec"), names)
    assert names["table"].num_rows == 1
    printed = capsys.readouterr().out
    shown = [line for line in readme.blocks("text")[0].splitlines() if not re.search(r"/tmp/|UTC|\.\.\.", line)]
    assert [line for line in shown if line not in printed] == []
    assert len(shown) > 5


def test_the_readme_is_two_screens_of_short_lines() -> None:
    lines = readme.README.read_text().splitlines()
    assert len(lines) <= 90
    assert [line for line in lines if len(line) > 80] == []


def test_the_readmes_shell_lines_are_targets_and_extras_that_exist() -> None:
    assert readme.unknown_commands() == []


def test_importing_lakescan_imports_neither_spark_nor_pandas() -> None:
    import subprocess
    import sys

    heavy = (
        "[m for m in ('pyspark', 'pandas', 'polars', 'deltalake', 'pyiceberg', 'rich', 'sqlglot') if m in sys.modules]"
    )
    script = f"import sys, lakescan; lakescan.spark.register; print({heavy})"
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
