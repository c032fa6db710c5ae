"""`lakescan sql` output for programs is lossless and contains no terminal control sequences."""

from __future__ import annotations

import json
import sys

import pyarrow as pa
import pytest
from typer.testing import CliRunner

import lakescan
from lakescan.cli import query
from lakescan.cli.commands import app

OBEYED = "\x1b[2J\x9b31m\u202e"


def sql(text: str, output: str) -> str:
    found = CliRunner().invoke(app, ["sql", text, "-o", output], catch_exceptions=False)
    assert found.exit_code == 0
    return found.stdout


def test_json_refuses_two_columns_of_one_name_instead_of_losing_one() -> None:
    with pytest.raises(lakescan.InvalidOption, match="several columns are called a"):
        sql("SELECT 1 AS a, 2 AS a, 3 AS b", "json")
    assert sql("SELECT 1 AS a, 2 AS a", "csv") == '"a","a"\n1,2\n'


def test_json_has_texts_for_numbers_that_json_does_not_have() -> None:
    def no_constant(name: str) -> None:
        raise AssertionError(f"{name} is not JSON")

    text = sql("SELECT CAST('NaN' AS DOUBLE) AS x, array(CAST('-Infinity' AS DOUBLE), 1.5D) AS y", "json")
    assert json.loads(text, parse_constant=no_constant) == {"x": "NaN", "y": ["-Infinity", 1.5]}


def test_json_holds_control_characters_as_escapes(capsys: pytest.CaptureFixture[str]) -> None:
    query._save(pa.table({OBEYED: [OBEYED]}), "json", None)
    text = capsys.readouterr().out
    assert not set(text) & set("\x1b\x9b\u202e")
    assert json.loads(text) == {OBEYED: OBEYED}


@pytest.mark.parametrize("is_terminal", [True, False])
def test_csv_is_exact_in_a_pipe_and_harmless_on_a_terminal(
    is_terminal: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: is_terminal)
    query._save(pa.table({"a": [OBEYED]}), "csv", None)
    assert (OBEYED in capsys.readouterr().out) is not is_terminal


@pytest.mark.parametrize("column", [pa.array([[1]]), pa.array([b"\xab"])])
def test_csv_refuses_unsupported_types_by_name(column: pa.Array) -> None:
    with pytest.raises(lakescan.InvalidOption, match=r"the column c is .*choose json or parquet"):
        query._save(pa.table({"c": column}), "csv", None)
