"""The commands, run in this process: their output as text and as JSON, and their effects."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv
from typer.testing import CliRunner

import lakescan
from lakescan.cli import commands, progress
from lakescan.cli.commands import app
from lakescan.cli.failures import EXIT_CODES, exit_code, shell_advice
from tests.support.two_commits import save_in_two_commits
from tests.tables.aged import folder_of, make_old, write_stray_files
from tests.tables.support import NAME, now, pairs, rows

ROOT = Path(__file__).parents[2]


def run(*arguments: str) -> str:
    found = CliRunner().invoke(app, list(arguments), env={"COLUMNS": "200"}, catch_exceptions=False)
    assert found.exit_code == 0, found.output
    return found.stdout.strip()


def run_json(*arguments: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in run(*arguments, "--json").splitlines()]


@pytest.fixture
def table(local: lakescan.Catalog) -> lakescan.Table:
    """Make a table of two snapshots with one row each."""
    made = local.create_table("db.t", "id BIGINT NOT NULL COMMENT 'the key', part STRING", properties={"owner": "me"})
    made.append(rows((1, "a")))
    now().append(rows((2, "b")))
    return now()


def test_catalogs_namespaces_and_tables_are_listed(table: lakescan.Table) -> None:
    assert run("catalogs") == "local"
    assert run("namespaces", "local") == "local.db"
    assert run("tables", "local") == NAME
    assert run_json("tables", "local", "db") == [{"table": NAME}]


def test_a_table_is_described(table: lakescan.Table) -> None:
    text = run("describe", NAME)
    assert all(word in text for word in ("iceberg", "unpartitioned", "the key", "owner = me"))
    (found,) = run_json("describe", NAME)
    assert (found["name"], found["version"], found["properties"]["owner"]) == (NAME, table.version, "me")
    columns = run_json("schema", NAME)
    assert columns[0] == {"column": "id", "type": "long", "required": True, "comment": "the key"}
    assert {"property": "owner", "value": "me"} in run_json("properties", NAME)


def test_rows_are_counted_and_shown(table: lakescan.Table) -> None:
    assert run("count", NAME) == "2"
    assert run_json("count", NAME, "-w", "id = 1") == [{"rows": 1}]
    assert sorted(row["id"] for row in run_json("head", NAME)) == [1, 2]
    assert run_json("sql", f"SELECT sum(id) AS total FROM {NAME}") == [{"total": 3}]
    assert run("sql", f"SELECT sum(id) AS total FROM {NAME}").endswith("\n1 row")


@pytest.mark.parametrize("name", ["snapshots", "history", "refs", "ancestors", "explain", "health", "inspect"])
def test_the_json_output_has_one_object_per_line(table: lakescan.Table, name: str) -> None:
    more = ("files",) if name == "inspect" else ()
    assert run(name, NAME, *more)
    found = run_json(name, NAME, *more)
    assert all(isinstance(each, dict) for each in found)
    if name in ("snapshots", "history", "ancestors", "inspect"):
        assert len(found) == 2


def test_branches_and_tags_are_made_moved_and_dropped(table: lakescan.Table) -> None:
    first = table.history()["snapshot_id"][0].as_py()
    run("create-tag", NAME, "first", "--version", str(first), "--max-ref-age", "30d")
    (made,) = run_json("create-branch", NAME, "audit", "--tag", "first", "--min-snapshots-to-keep", "2")
    assert (made["name"], made["previous"], made["current"]) == ("audit", None, first)
    assert now().tags["first"].max_ref_age.days == 30  # type: ignore[union-attr]
    run("fast-forward", NAME, "audit", "main")
    assert now().branches["audit"].snapshot_id == table.version
    assert "would be dropped" in run("drop-tag", NAME, "first", "--dry-run")
    assert "first" in now().tags
    run("drop-tag", NAME, "first")
    run("drop-branch", NAME, "audit")
    assert run("drop-branch", NAME, "audit", "--if-exists", "--dry-run").endswith("nothing to do")
    assert (list(now().branches), list(now().tags)) == (["main"], [])


def test_branches_of_a_delta_table_are_refused_by_name(local: lakescan.Catalog) -> None:
    local.create_table("db.d", "id BIGINT", format="delta")
    with pytest.raises(lakescan.UnsupportedFeature, match="branches and tags of the delta table"):
        run("refs", "local.db.d")


def test_a_table_goes_back_and_forth(table: lakescan.Table) -> None:
    first, last = table.history()["snapshot_id"].to_pylist()
    assert run("rollback", NAME, "--version", str(first)) == f"main: snapshot {last} -> {first}"
    assert pairs() == [(1, "a")]
    run("set-current", NAME, "--version", str(last))
    assert len(pairs()) == 2
    assert run_json("restore", NAME, "--version", str(first))[0]["version"] == first
    assert run("cherry-pick", NAME, str(last))
    assert len(pairs()) == 2


def test_a_dry_run_removes_nothing(table: lakescan.Table) -> None:
    folder = folder_of(table.folder)
    write_stray_files(folder / "data" / "stray.parquet")
    make_old(folder)
    before = sorted(folder.rglob("*"))
    later = ("--older-than", "2026-01-01")
    assert run("expire-snapshots", NAME, *later, "--dry-run", "--clean-expired-files").startswith("0 snapshots would")
    assert run("remove-orphans", NAME, "--dry-run").splitlines()[0].endswith("stray.parquet")
    assert run("vacuum", NAME, "--dry-run").endswith("1 file would be removed")
    assert "remove orphans: 11 B in 1 file would be removed" in run("maintain", NAME, "--dry-run")
    assert sorted(folder.rglob("*")) == before
    (found,) = run_json("remove-orphans", NAME)
    assert found["file"].endswith("stray.parquet")


def test_maintenance_reports_its_steps_and_fails_if_one_fails(
    table: lakescan.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(5):
        now().append(rows((10 + number, "c")))
    (found,) = run_json("maintain", NAME, "--skip", "remove-orphans")
    assert [step["name"] for step in found["steps"]] == ["compact", "rewrite_manifests"]

    def fails(*arguments: Any, **options: Any) -> None:
        raise lakescan.StorageError("the store does not answer")

    monkeypatch.setattr(lakescan.Table, "remove_orphans", fails)
    failed = CliRunner().invoke(app, ["maintain", NAME])
    assert failed.exit_code == 1
    assert "remove orphans: failed: StorageError" in failed.stdout


def test_the_health_is_written_as_a_page(table: lakescan.Table, tmp_path: Path) -> None:
    assert "written to" in run("health", NAME, "--html", str(tmp_path / "health.html"))
    assert "<svg" in (tmp_path / "health.html").read_text()


def test_storage_options_reach_the_table(table: lakescan.Table) -> None:
    assert run("count", NAME, "--storage-option", "region=eu-west-1") == "2"
    with pytest.raises(lakescan.InvalidOption, match="unknown"):
        run("count", NAME, "--storage-option", "regoin=eu-west-1")
    with pytest.raises(lakescan.InvalidOption, match="storage options are written name=value"):
        run("count", NAME, "--storage-option", "region")


def test_a_parser_error_has_its_own_exit_code() -> None:
    for arguments in (["no-such-command"], ["head"], ["head", "x", "--no-such-option"]):
        assert CliRunner().invoke(app, arguments).exit_code == 2


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (lakescan.NoSuchTable("x"), 1),
        (lakescan.StorageError("x"), 1),
        (lakescan.CommitConflict("x"), 3),
        (lakescan.CommitStateUnknown("x"), 4),
        (ZeroDivisionError(), None),
    ],
)
def test_kinds_of_errors_have_different_exit_codes(error: Exception, code: int | None) -> None:
    assert exit_code(error) == code
    assert code is None or code in EXIT_CODES


def test_a_defect_has_a_traceback_and_its_own_exit_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def defect(**more: Any) -> None:
        raise ZeroDivisionError("a defect")

    monkeypatch.setattr(commands, "app", defect)
    with pytest.raises(SystemExit) as ended:
        commands.run()
    assert ended.value.code == 70
    assert "Traceback" in capsys.readouterr().err


def test_advice_is_phrased_for_the_shell() -> None:
    assert shell_advice("12 has expired: see Table.history()") == "12 has expired: lakescan history TABLE"
    assert shell_advice("compact(purge=True) applies deletion vectors.").startswith("lakescan compact --purge")


def test_progress_is_shown_only_on_a_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    with progress.working("counting") as work:
        assert work.executor is None
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with progress.working("counting") as work:
        assert work.executor is not None
        assert list(work.executor.map(abs, [-3, 2])) == [3, 2]


@pytest.mark.parametrize("kind", ["parquet", "csv", "table"])
def test_orphans_of_an_inventory_are_removed(table: lakescan.Table, tmp_path: Path, kind: str) -> None:
    folder = folder_of(table.folder)
    files = folder / "data" / "listed.parquet", folder / "data" / "not listed.parquet"
    write_stray_files(*files)
    row = {"path": [str(files[0])], "length": [11], "isDir": [False], "modificationTime": [1_600_000_000_000]}
    place = tmp_path / f"inventory.{kind}"
    if kind == "parquet":
        pq.write_table(pa.table(row), place)
    elif kind == "csv":
        csv.write_csv(pa.table(row), place)
    else:
        save_in_two_commits(pa.table(row), str(place), format="delta")
    assert run_json("vacuum", NAME, "--inventory", str(place), "--dry-run") == [{"file": str(files[0])}]
    run("vacuum", NAME, "--inventory", str(place))
    assert [each.exists() for each in files] == [False, True]


def test_a_folder_of_parquet_files_becomes_a_delta_table(tmp_path: Path) -> None:
    (tmp_path / "day=2026-01-31").mkdir()
    pq.write_table(pa.table({"id": [1, 2]}), tmp_path / "day=2026-01-31" / "f.parquet")
    assert run("convert", str(tmp_path), "--partition-by", "day DATE") == f"{tmp_path}: a Delta table of 1 file"
    assert run("count", str(tmp_path), "-w", "day = '2026-01-31'") == "2"
    assert run_json("convert", str(tmp_path)) == [{"table": str(tmp_path), "version": 0, "files": 1}]


def test_the_page_of_commands_is_current() -> None:
    spec = importlib.util.spec_from_file_location("cli_doc", ROOT / "scripts" / "cli_doc.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert (ROOT / "docs" / "cli.md").read_text() == module.page(), "run: python scripts/cli_doc.py"
