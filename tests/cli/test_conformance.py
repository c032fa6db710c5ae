"""Engines read tables in processes of their own, and their rows are compared with lakescan's."""

from __future__ import annotations

import datetime
import decimal
import json
import os
import signal
import stat
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import Any

import polars
import pyarrow as pa
import pytest
from deltalake import write_deltalake
from typer.testing import CliRunner

import lakescan
from lakescan.cli.commands import app
from lakescan.conformance import child
from lakescan.conformance.child import plain
from lakescan.conformance.engines import Job, ReadLimits, ask, ask_many, find_tables, job_of
from lakescan.conformance.report import as_markdown, as_record, compare_answers, conformance

KEY = uuid.UUID(int=10**30)
ROWS = pa.table({"id": [1, 2, 3], "name": ["a", None, "c|d"]})
LIMITS = ReadLimits(seconds=60)


@pytest.fixture
def orders(tmp_path: Path) -> str:
    place = str(tmp_path / "lake" / "orders")
    write_deltalake(place, ROWS)
    return place


def interpreter(folder: Path, text: str) -> str:
    """Write a program that stands in for an engine's Python interpreter."""
    path = folder / "python"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def answering(folder: Path, **answer: Any) -> str:
    return interpreter(folder, f"cat > /dev/null; echo '{json.dumps(answer)}'")


def test_engines_that_read_the_same_rows_agree(orders: str) -> None:
    found = conformance("orders", job_of(orders, {}, {}), LIMITS, engines=("deltalake", "polars", "pyiceberg"))
    assert [(r.engine, r.outcome, r.rows) for r in found.readings] == [
        ("lakescan", "read", 3),
        ("deltalake", "same", 3),
        ("polars", "same", 3),
    ]
    assert (found.format, found.columns, found.files) == ("delta", 2, 1)
    assert all(r.version for r in found.readings)


def test_an_iceberg_table_of_a_catalog_is_read_by_its_metadata_file(local: lakescan.Catalog) -> None:
    local.create_table("db.t", "id BIGINT, part STRING", partition_by=("part",)).append(
        pa.table({"id": [1, 2], "part": ["a", "b"]})
    )
    lakescan.table("local.db.t").delete("id = 1")
    found = conformance("t", job_of("local.db.t", {}, {}), LIMITS, engines=("pyiceberg", "polars", "deltalake"))
    assert [(r.engine, r.outcome, r.rows) for r in found.readings] == [
        ("lakescan", "read", 1),
        ("pyiceberg", "same", 1),
        ("polars", "same", 1),
    ]


@pytest.mark.parametrize(
    ("answer", "outcome", "detail"),
    [
        ({"rows": 2, "columns": ["id", "name"], "digest": "1"}, "other rows", "2 rows instead of 3"),
        ({"rows": 3, "columns": ["id"], "digest": "1"}, "other rows", "lacks ['name']"),
        ({"rows": 3, "columns": ["id", "name"], "digest": "1", "of": {"id": "", "name": ""}}, "other rows", "id, name"),
        ({"error": "ValueError", "words": "reader feature x is not supported"}, "unsupported", "reader feature x"),
        ({"error": "ValueError", "words": "no such file"}, "error", "no such file"),
        ({"error": "ModuleNotFoundError", "words": "No module named 'duckdb'"}, "not installed", "duckdb"),
    ],
)
def test_differences_are_reported(
    orders: str, tmp_path: Path, answer: dict[str, Any], outcome: str, detail: str
) -> None:
    other = {"duckdb": answering(tmp_path, **answer)}
    found = conformance("orders", job_of(orders, {}, {}), LIMITS, other, engines=("duckdb",)).readings[1]
    assert found.outcome == outcome
    assert detail in found.detail


def test_a_crash_a_hang_and_silence_are_findings(orders: str, tmp_path: Path) -> None:
    job = job_of(orders, {}, {})
    crash = ask("duckdb", job, LIMITS, interpreter(tmp_path, "kill -SEGV $$"))
    assert crash == {"error": "Crash", "words": signal.Signals.SIGSEGV.name}
    hang = ask("duckdb", job, ReadLimits(seconds=0.2), interpreter(tmp_path, "exec sleep 60"))
    assert hang["error"] == "Hang"
    silence = ask("duckdb", job, LIMITS, interpreter(tmp_path, "echo broken >&2; exit 3"))
    assert silence == {"error": "NoAnswer", "words": "exit code 3: broken"}


def test_an_engine_leaves_no_child_processes(orders: str, tmp_path: Path) -> None:
    """The timeout ends all of an engine's processes. Otherwise a child that holds the pipes would block the caller."""
    job = job_of(orders, {}, {})
    found = ask(
        "duckdb", job, ReadLimits(seconds=0.5), interpreter(tmp_path, f"sleep 30 & echo $! > {tmp_path}/pid; wait")
    )
    assert found["error"] == "Hang"
    assert ended(int((tmp_path / "pid").read_text()))


def test_many_tables_are_read_as_a_single_one_is(orders: str, tmp_path: Path) -> None:
    """Forks of one process return the same as separate processes; a fork that fails does not end the others."""
    jobs = [Job("delta", str(tmp_path / "absent")), job_of(orders, {}, {})]
    absent, found = ask_many("deltalake", jobs, LIMITS)
    assert found == ask("deltalake", jobs[1], LIMITS)
    assert absent["error"] == "TableNotFoundError"
    assert [each["error"] for each in ask_many("deltalake", jobs, ReadLimits(seconds=0))] == ["Hang", "Hang"]


def test_a_crash_of_a_fork_is_a_finding(orders: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(child.READERS, "polars", lambda job: os.kill(os.getpid(), signal.SIGKILL))
    job = {"engine": "polars", "rows": 1, "seconds": 60, "folder": str(tmp_path)}
    assert child.run_fork(job) == {"error": "Crash", "words": "SIGKILL"}


def ended(pid: int) -> bool:
    """Return whether a process ends within some seconds. A zombie counts as ended."""
    for _ in range(100):
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except (FileNotFoundError, ProcessLookupError):
            return True
        time.sleep(0.1)
    return False


def test_refusals_of_lakescan_are_reported_by_feature(orders: str) -> None:
    log = Path(orders, "_delta_log")
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["later"], "writerFeatures": ["later"]}
    (log / "00000000000000000001.json").write_text(json.dumps({"protocol": protocol}))
    found = conformance("orders", job_of(orders, {}, {}), LIMITS, engines=("deltalake",))
    assert found.lakescan_reading.outcome == "unsupported"
    assert "later" in found.lakescan_reading.detail
    assert found.readings[1].outcome in ("unsupported", "error")


def test_rows_beyond_the_limit_of_comparison_are_counted(orders: str) -> None:
    found = conformance("orders", job_of(orders, {}, {}), ReadLimits(rows=2), engines=("deltalake",))
    assert [(r.outcome, r.rows) for r in found.readings] == [("read", 3), ("same count", 3)]


def test_tables_are_found_below_folders_and_not_inside_of_tables(orders: str, tmp_path: Path) -> None:
    write_deltalake(str(tmp_path / "lake" / "a" / "b"), ROWS)
    (tmp_path / "lake" / "empty").mkdir()
    assert list(find_tables(str(tmp_path / "lake"))) == [str(tmp_path / "lake" / "a" / "b"), orders]
    assert list(find_tables(orders)) == [orders]
    assert list(find_tables("s3://lake/orders")) == ["s3://lake/orders"]


def test_values_are_the_same_whatever_arrow_type_holds_them() -> None:
    moment = datetime.datetime(2026, 1, 31, 12, tzinfo=datetime.UTC)
    same = [
        (pa.array([1, None], pa.int8()), pa.array([1, None], pa.int64())),
        (pa.array(["a"], pa.string_view()), pa.array(["a"]).dictionary_encode()),
        (pa.array([moment], pa.timestamp("ms", "UTC")), pa.array([moment], pa.timestamp("ns", "Europe/Berlin"))),
        (pa.array([KEY.bytes], pa.binary(16)), pa.array([str(KEY)])),
        (pa.array([-0.0]), pa.array([0.0])),
        (pa.array([float("nan")]), pa.array([-float("nan")])),
        (pa.array([decimal.Decimal("1.50")]), pa.array([decimal.Decimal("1.50")], pa.decimal256(40, 2))),
        (
            pa.array([[("a", 1), ("b", 2)], None], pa.map_(pa.string(), pa.int64())),
            pa.array(
                [[{"key": "b", "value": 2}, {"key": "a", "value": 1}], None],
                pa.large_list(pa.struct({"key": pa.string(), "value": pa.int8()})),
            ),
        ),
        (pa.array([decimal.Decimal("1.50")]), pa.array([decimal.Decimal("1.5")])),
        (pa.array([[-0.0, float("nan")]], pa.list_view(pa.float32())), pa.array([[0.0, float("nan")]])),
        (pa.array([[1, 2]], pa.list_(pa.int64(), 2)), pa.array([[0], [1, 2]]).slice(1)),
        (pa.array([{"a": 1}, None]), pa.array([{"a": 5}, {"a": 1}, None]).slice(1)),
    ]
    for one, other in same:
        assert plain(one) == plain(other), (one.type, other.type)


def test_texts_that_are_not_utf8_are_compared_by_their_bytes() -> None:
    def text(data: bytes) -> pa.Array:
        return pa.array([data], pa.binary()).view(pa.string())

    assert answer_of(text(b"a\xff")) == answer_of(text(b"a\xff"))
    assert answer_of(text(b"a\xff")) != answer_of(text(b"a\xfe"))


def test_other_values_are_not_the_same() -> None:
    pairs = [
        (pa.array([[]], pa.list_(pa.int64())), pa.array([None], pa.list_(pa.int64()))),
        (pa.array([1]), pa.array(["1"])),
        (pa.array([{"a": None}], pa.struct({"a": pa.int64()})), pa.array([None], pa.struct({"a": pa.int64()}))),
        (pa.array([1], pa.timestamp("us")), pa.array([1], pa.timestamp("ms"))),
        (pa.array([float("nan")]), pa.array(["NaN"])),
        (pa.array([b"\xab"]), pa.array(["ab"])),
        (pa.array([decimal.Decimal("1.5")]), pa.array(["1.5"])),
        (pa.array([str(KEY)]), pa.array([str(KEY).upper()])),
        (pa.array([decimal.Decimal("10")]), pa.array([decimal.Decimal("1")])),
    ]
    for one, other in pairs:
        assert list(map(repr, plain(one))) != list(map(repr, plain(other))), one.type


def test_the_report_is_text_json_and_markdown(orders: str, tmp_path: Path) -> None:
    page = tmp_path / "report.md"
    folder = str(Path(orders).parent)
    text = CliRunner().invoke(app, ["conformance", folder, "--markdown", str(page)], catch_exceptions=False).stdout
    assert f"{orders}: delta" in text
    assert "  lakescan " in text
    assert f"  polars {polars.__version__}: same, 3 rows" in text
    assert f"| `{orders}` | delta 1,2 | 3 | 2 |" in page.read_text()
    found = CliRunner().invoke(app, ["conformance", folder, "--json"], catch_exceptions=False).stdout
    (record,) = [json.loads(line) for line in found.splitlines()]
    assert record["table"] == orders
    assert record["engines"]["deltalake"]["outcome"] == "same"


def test_a_folder_without_tables_is_an_error(tmp_path: Path) -> None:
    found = CliRunner().invoke(app, ["conformance", str(tmp_path)])
    assert isinstance(found.exception, lakescan.LakescanError)


def test_bars_in_texts_do_not_break_the_markdown(tmp_path: Path, orders: str) -> None:
    other = {"duckdb": answering(tmp_path, error="ValueError", words="a | b")}
    found = conformance("a|b", Job("delta", orders), LIMITS, other, engines=("duckdb",))
    assert "`a\\|b`" in as_markdown([found])
    assert "a \\| b" in as_markdown([found])
    assert as_record(found)["engines"]["duckdb"]["detail"] == "ValueError: a | b"


def test_an_engine_is_tried_in_each_of_its_ways_to_read() -> None:
    def fails(words: str) -> Any:
        def way() -> Any:
            raise OSError(words)

        return way

    found = child.first_answer(fails("Cannot open file"), lambda: ROWS.to_reader())
    assert found.read_all() == ROWS
    with pytest.raises(OSError, match="ORC is not supported"):
        child.first_answer(fails("Cannot open file"), fails("ORC is not supported"))
    with pytest.raises(OSError, match="first"):
        child.first_answer(fails("first"), fails("No such file"))


def test_a_failure_in_a_fork_is_retried_in_a_separate_process(orders: str, tmp_path: Path) -> None:
    job = job_of(orders, {}, {})
    python = interpreter(
        tmp_path,
        """case "$*" in *--many*) cat > /dev/null; echo '{"error": "Crash", "words": "SIGSEGV"}';;
        *) cat > /dev/null; echo '{"rows": 3, "columns": ["id"], "digest": "1"}';; esac""",
    )
    assert [each.get("rows") for each in ask_many("polars", [job], LIMITS, python)] == [3]


ENTRIES = pa.list_(pa.struct({"key": pa.string(), "value": pa.int64()}))


def answer_of(column: pa.Array) -> dict[str, Any]:
    return child.digest_rows(pa.table({"c": column}).to_reader(), 100)


def outcome_of(ours: pa.Array, theirs: pa.Array) -> str:
    answers = {"lakescan": answer_of(ours), "polars": answer_of(theirs)}
    return compare_answers("t", Job("delta", "/t"), answers).readings[1].outcome


def test_the_order_of_a_list_counts_also_where_its_structs_are_like_entries_of_a_map() -> None:
    entries = [{"key": "b", "value": 1}, {"key": "a", "value": 2}]
    one, turned = pa.array([entries], ENTRIES), pa.array([entries[::-1]], ENTRIES)
    assert outcome_of(one, one) == "same"
    assert outcome_of(one, turned) == "other rows"
    assert outcome_of(pa.array([[entries]], pa.list_(ENTRIES)), pa.array([[entries[::-1]]], pa.list_(ENTRIES))) == (
        "other rows"
    )


def test_the_order_of_a_maps_entries_does_not_count_whatever_holds_them() -> None:
    entries = [{"key": "b", "value": 1}, {"key": "a", "value": 2}]
    of_maps = pa.array([[("a", 2), ("b", 1)]], pa.map_(pa.string(), pa.int64()))
    assert outcome_of(of_maps, pa.array([entries], ENTRIES)) == "same"
    assert outcome_of(of_maps, pa.array([entries[:1]], ENTRIES)) == "other rows"


def test_different_rows_or_a_table_that_lakescan_cannot_read_end_with_exit_code_1(orders: str, tmp_path: Path) -> None:
    def exit_code(*arguments: str) -> int:
        return CliRunner().invoke(app, ["conformance", *arguments]).exit_code

    assert exit_code(orders) == 0
    engine = answering(tmp_path, rows=2, columns=["id", "name"], digest="1")
    assert exit_code(orders, "--python", f"duckdb={engine}") == 1
    broken = tmp_path / "lake" / "broken" / "_delta_log"
    broken.mkdir(parents=True)
    (broken / "00000000000000000000.json").write_text("{")
    assert exit_code(str(tmp_path / "lake")) == 1
    assert exit_code(str(tmp_path / "absent")) == 1


def test_a_refusal_by_name_is_not_a_failure(orders: str) -> None:
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["later"], "writerFeatures": ["later"]}
    Path(orders, "_delta_log", "00000000000000000001.json").write_text(json.dumps({"protocol": protocol}))
    found = CliRunner().invoke(app, ["conformance", orders])
    assert "lakescan 0" in found.stdout
    assert ": unsupported: " in found.stdout
    assert found.exit_code == 0


def test_a_table_that_is_named_twice_is_read_once_and_several_are_summed_up(orders: str, tmp_path: Path) -> None:
    write_deltalake(str(tmp_path / "lake" / "more"), ROWS)
    found = CliRunner().invoke(app, ["conformance", orders, orders, str(tmp_path / "lake")]).stdout
    assert found.count(f"{orders}: delta") == 1
    assert "2 tables. lakescan: 2 read; deltalake: 2 same" in found


@pytest.mark.parametrize("python", ["duckbd=/bin/sh", "lakescan=/bin/sh", "duckdb=/no/such/python"])
def test_an_unknown_engine_or_missing_interpreter_is_refused(orders: str, python: str) -> None:
    found = CliRunner().invoke(app, ["conformance", orders, "--python", python])
    assert isinstance(found.exception, lakescan.InvalidOption)
    assert python in str(found.exception)


def test_an_engines_python_may_be_a_relative_path(orders: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = answering(tmp_path, error="ValueError", words="it was asked")
    monkeypatch.chdir(tmp_path)
    found = CliRunner().invoke(app, ["conformance", orders, "--python", f"duckdb=./{Path(engine).name}"])
    assert "it was asked" in found.stdout


def test_a_folder_that_cannot_be_listed_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.scandir

    def scandir(place: Any) -> Any:
        if str(place).endswith("closed"):
            raise PermissionError(13, "Permission denied", str(place))
        return real(place)

    (tmp_path / "closed").mkdir()
    monkeypatch.setattr(os, "scandir", scandir)
    with pytest.raises(lakescan.errors.StorageError, match="closed: Permission denied"):
        list(find_tables(str(tmp_path)))


def test_a_folder_named_like_a_refusal_is_not_one(tmp_path: Path) -> None:
    place = str(tmp_path / "unsupported types")
    answers = {"lakescan": {"error": "CorruptMetadata", "words": f"{place}: the log has no protocol action"}}
    assert compare_answers("t", Job("delta", place), answers).lakescan_reading.outcome == "error"


def test_the_command_line_also_runs_as_a_python_module() -> None:
    done = subprocess.run([sys.executable, "-m", "lakescan", "--help"], capture_output=True, text=True, check=True)
    assert "conformance" in done.stdout
