"""The command `sql`."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import lakescan
from lakescan.cli import query
from lakescan.cli.commands import app
from lakescan.cli.query import completions


@pytest.fixture
def lake(tmp_path: Path) -> str:
    """A folder with the catalog `cli`, whose table db.t has two rows."""
    folder = str(tmp_path / "lake")
    lakescan.catalog("cli", warehouse=folder).create_namespace("db")
    lakescan.sql("CREATE TABLE cli.db.t (id BIGINT, s STRING) USING delta")
    lakescan.table("cli.db.t").append(pa.table({"id": [1, 2], "s": ["a,b", None]}))
    return f"cli={folder}"


def run(lake: str, *arguments: str, input: str | None = None) -> str:
    result = CliRunner().invoke(app, ["--catalog", lake, "sql", *arguments], input=input, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_rows_are_printed_and_written_in_every_format(lake: str, tmp_path: Path) -> None:
    text = "SELECT * FROM cli.db.t ORDER BY id"
    printed = run(lake, text)
    assert "│ 2  │ null │" in printed
    assert "2 rows" in printed
    assert run(lake, text, "-o", "csv") == '"id","s"\n1,"a,b"\n2,\n'
    assert [json.loads(line) for line in run(lake, text, "-o", "json").splitlines()][1] == {"id": 2, "s": None}
    file = tmp_path / "rows.parquet"
    run(lake, text, "--output-file", str(file))
    assert pq.read_table(file).num_rows == 2


def test_a_truncated_result_is_marked(lake: str) -> None:
    assert "the first 1 rows; --limit shows more" in run(lake, "SELECT * FROM cli.db.t", "--limit", "1")


def test_the_prompt_continues_after_errors(
    lake: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = iter(["USE cli.db;", "SELECT nope FROM t;", "SELECT max(id)", "FROM t;", "SELECT 1 AS one"])

    def typed(prompt: str) -> str:
        try:
            return next(lines)
        except StopIteration:
            raise EOFError from None

    monkeypatch.setattr("builtins.input", typed)
    monkeypatch.setattr(query, "_enable_history", lambda: None)
    query._prompt("table", None, 10)
    out, err = capsys.readouterr()
    assert "there is no column 'nope'" in err
    assert "max(id)" in out
    assert "one" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(("SELECT 1", "-o", "jsn"), "Did you mean 'json'"), (("SELECT 1", "-o", "parquet"), "takes a file")],
)
def test_options_that_do_not_fit_are_refused(lake: str, arguments: tuple[str, ...], message: str) -> None:
    with pytest.raises(lakescan.InvalidOption, match=message):
        run(lake, *arguments)


def test_keywords_and_names_are_completed(lake: str) -> None:
    assert completions("sel") == ["SELECT"]
    assert "cli." in completions("cl")
    assert completions("cli.d") == ["cli.db."]
    assert completions("cli.db.") == ["cli.db.t"]
    assert completions("not_there.x") == []


def test_the_result_of_a_changing_statement_is_printed(lake: str) -> None:
    assert run(lake, "INSERT INTO cli.db.t VALUES (3, 'c')").startswith("1 file written (1 row")
    assert run(lake, "DELETE FROM cli.db.t WHERE id = 3").startswith("1 row deleted")
