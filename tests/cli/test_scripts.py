"""`lakescan sql` runs the statements of a file in order up to the first error, and never overwrites a file unasked."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import lakescan
from lakescan.cli import commands
from lakescan.errors import InvalidOption
from tests.cli.test_commands import run

FAILS_IN_LINE_4 = """-- a comment; with a semicolon
CREATE TABLE local.db.s (id BIGINT);
INSERT INTO local.db.s VALUES (1), (2);
INSERT INTO local.db.s SELECT nope FROM local.db.s;
DROP TABLE local.db.s;
"""


def run_command(*arguments: str, stdin: str = "") -> tuple[int, str, str]:
    """Return the exit code, standard output and standard error of a command."""
    runner = CliRunner()
    with pytest.MonkeyPatch.context() as patch, runner.isolation(stdin) as (out, err, _):
        patch.setattr("sys.argv", ["lakescan", *arguments])
        with pytest.raises(SystemExit) as ended:
            commands.run()
        sys.stdout.flush()
        return int(ended.value.code or 0), out.getvalue().decode(), err.getvalue().decode()


@pytest.fixture(params=["file", "standard input", "-"])
def run_script(request: pytest.FixtureRequest, tmp_path: Path, local: lakescan.Catalog):
    """Return a function that runs a script in each way that `lakescan sql` accepts one."""

    def run(script: str, *more: str) -> tuple[int, str, str]:
        if request.param == "file":
            (tmp_path / "job.sql").write_text(script)
            return run_command("sql", "--file", str(tmp_path / "job.sql"), *more)
        return run_command("sql", *(["-f", "-"] if request.param == "-" else []), *more, stdin=script)

    return run


def test_statements_run_in_order(run_script) -> None:
    script = "USE local.db; CREATE TABLE s (id BIGINT, t STRING);\nINSERT INTO s VALUES (1, 'a;b');\nSELECT * FROM s"
    code, out, err = run_script(script, "-o", "json")
    assert (code, err) == (0, "")
    assert json.loads(out.splitlines()[-1]) == {"id": 1, "t": "a;b"}


def test_the_first_error_ends_a_script_with_its_line_and_an_exit_code(run_script) -> None:
    code, out, err = run_script(FAILS_IN_LINE_4)
    assert code == 1
    assert "line 4: " in err
    assert "nope" in err
    assert "nope" not in out
    assert lakescan.table("local.db.s").scan().count() == 2  # the DROP after it did not run


def test_a_script_that_cannot_be_parsed_changes_nothing_after_the_error(run_script) -> None:
    code, _, err = run_script("CREATE TABLE local.db.s (id BIGINT);\n\nSELEC 1;\nDROP TABLE local.db.s;")
    assert code == 1
    assert "line 3: UnsupportedFeature" in err
    assert lakescan.table("local.db.s").scan().count() == 0


def test_errors_of_scripts_keep_their_exit_codes(run_script, monkeypatch: pytest.MonkeyPatch) -> None:
    def conflict(text: str) -> None:
        raise lakescan.CommitStateUnknown("nobody knows")

    monkeypatch.setattr(lakescan, "sql", conflict)
    assert run_script("DELETE FROM local.db.s")[0] == 4


def test_an_empty_script_does_nothing(run_script) -> None:
    assert run_script("-- nothing; here\n")[:2] == (0, "")


def test_rows_go_to_the_file_that_is_named_for_them(run_script, tmp_path: Path) -> None:
    rows = tmp_path / "rows.csv"
    assert run_script("SELECT 1 AS a;", "--output-file", str(rows))[0] == 0
    assert rows.read_text() == '"a"\n1\n'


def test_a_file_for_rows_is_refused_before_a_script_of_several_statements_runs(run_script, tmp_path: Path) -> None:
    rows = tmp_path / "rows.csv"
    code, _, err = run_script("CREATE TABLE local.db.s (id BIGINT); SELECT 1", "--output-file", str(rows))
    assert code == 1
    assert "has 2 statements" in err
    assert not rows.exists()
    with pytest.raises(lakescan.NoSuchTable):
        lakescan.table("local.db.s")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["SELECT 1 AS a", "-f", "{script}", "-o", "csv"], "not both"),
        (["-f", "{script}", "--output-file", "{script}", "-o", "csv"], "is the script itself"),
        (["SELECT 1", "--output-file", "{script}", "-o", "table"], "csv, json or parquet"),
        (["-f", "{script}.sql"], "there is no such file"),
    ],
)
def test_no_script_is_overwritten(arguments: list[str], says: str, tmp_path: Path) -> None:
    script = tmp_path / "job.sql"
    script.write_text("SELECT 1 AS a;")
    code, _, err = run_command("sql", *(each.format(script=script) for each in arguments))
    assert code == 1
    assert says in err
    assert script.read_text() == "SELECT 1 AS a;"


def test_scripts_that_are_not_text_are_refused_by_name(tmp_path: Path) -> None:
    script = tmp_path / "job.sql"
    script.write_bytes(b"SELECT '\xff'")
    with pytest.raises(InvalidOption, match=r"job\.sql is not text in UTF-8"):
        run("sql", "--file", str(script))


def test_the_version_is_printed() -> None:
    assert run("--version") == f"lakescan {lakescan.__version__}"


def test_health_with_fail_ends_with_5_if_there_are_findings(local: lakescan.Catalog) -> None:
    table = local.create_table("db.t", "id BIGINT")
    assert run_command("health", "local.db.t", "--fail")[0] == 0
    for n in range(6):
        lakescan.sql(f"INSERT INTO local.db.t VALUES ({n})")
    assert lakescan.table("local.db.t").health().findings
    assert run_command("health", str(table.name))[0] == 0
    assert run_command("health", str(table.name), "--fail")[0] == 5
