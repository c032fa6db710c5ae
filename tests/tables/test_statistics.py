"""Statistics of written files hold for all of their rows, for every type, value and mode."""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lakescan
from lakescan.catalogs.registry import connection
from lakescan.writing.parquet_writer import write_rows
from tests.support.two_commits import save_in_two_commits

NAN, INF = math.nan, math.inf
EPOCH = datetime(1970, 1, 1)
LAST = "\U0010ffff"
EXTREMES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "booleans": (pa.bool_(), [True, False]),
    "ints": (pa.int32(), [-(2**31), -1, 0, 2**31 - 1]),
    "longs": (pa.int64(), [-(2**63), -(2**53) - 1, 0, 2**53 + 1, 2**63 - 1]),
    "floats": (pa.float32(), [0.0, -0.0, NAN, INF, -INF, 1.401298464324817e-45, 3.4028234663852886e38]),
    "doubles": (pa.float64(), [0.0, -0.0, NAN, INF, -INF, 5e-324, 0.1, -1.7976931348623157e308]),
    "small decimals": (pa.decimal128(9, 2), [Decimal("-9999999.99"), Decimal("0.00"), Decimal("0.01")]),
    "decimals": (pa.decimal128(18, 2), [Decimal("9007199254740993.01"), Decimal("-9007199254740993.01")]),
    "wide decimals": (
        pa.decimal128(38, 2),
        [Decimal("9" * 36 + ".99"), Decimal("-" + "9" * 36 + ".98"), Decimal("-1.28")],
    ),
    "dates": (pa.date32(), [-2_000_000_000, -719_163, -719_162, -1, 0, 2_932_896, 2_932_897, 2**31 - 1]),
    "times": (
        pa.timestamp("us"),
        [-(2**63), -62_135_596_800_000_000, -1, 0, 999, 1000, 253_402_300_799_999_999, 2**63 - 1],
    ),
    "instants": (pa.timestamp("us", "UTC"), [-1, 0, 1, 253_402_300_799_999_999]),
    "texts": (
        pa.string(),
        [
            "",
            "a",
            "a" * 15 + "\ud7ffz",
            "a" * 16 + LAST * 20,
            "a" * 32 + LAST + "z",
            LAST * 40,
            "é" * 40,
            "\U0001f600",
            "\uffff",
        ],
    ),
    "binaries": (pa.binary(), [b"", b"\x00", b"\x7f" * 20, b"\x80", b"\xff" * 17, b"\xfe" + b"\xff" * 40]),
}
OF_ICEBERG: dict[str, tuple[pa.DataType, list[Any]]] = {
    "nanos": (pa.timestamp("ns"), [-(2**63) + 1, -1, 0, 1, 1001, 2**63 - 1]),
    "of the day": (pa.time64("us"), [0, 1, 86_399_999_999]),
    "fixed": (pa.binary(2), [b"\x00\x00", b"\x7f\xff", b"\xff\xff"]),
}
MODES = ["none", "counts", "truncate(1)", "truncate(16)", "full"]


def array_of(values: list[Any], kind: pa.DataType) -> pa.Array:
    if pa.types.is_temporal(kind):
        return pa.array(values, pa.int32() if kind.bit_width == 32 else pa.int64()).cast(kind)
    return pa.array(values, kind)


def of_size(values: list[Any]) -> list[Any]:
    """Return the values that the bounds cover."""
    return [value for value in values if value is not None and not (isinstance(value, float) and math.isnan(value))]


def ordered(value: Any) -> Any:
    """Return a sort key in the order of both formats: texts by their bytes, -0.0 before 0.0."""
    if isinstance(value, str):
        return value.encode()
    return (value, math.copysign(1, value)) if isinstance(value, float) else value


def drawn(cases: dict[str, tuple[pa.DataType, list[Any]]]) -> st.SearchStrategy[dict[str, list[Any]]]:
    """Draw values of each type for some rows."""

    def rows(count: int) -> st.SearchStrategy[dict[str, list[Any]]]:
        return st.fixed_dictionaries(
            {
                name: st.lists(st.one_of(st.none(), st.sampled_from(values)), min_size=count, max_size=count)
                for name, (_, values) in cases.items()
            }
        )

    return st.integers(1, 4).flatmap(rows)


def table_of(found: dict[str, list[Any]], cases: dict[str, tuple[pa.DataType, list[Any]]]) -> pa.Table:
    """Return the columns, and all of them again as members of a struct with the same names."""
    arrays = {name: array_of(values, cases[name][0]) for name, values in found.items()}
    members = pa.StructArray.from_arrays(list(arrays.values()), list(arrays))
    return pa.table({**arrays, "s": members})


def law(check: Callable[[dict[str, list[Any]]], None], cases: dict[str, tuple[pa.DataType, list[Any]]]) -> None:
    settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))(given(drawn(cases))(check))()


@pytest.mark.parametrize("mode", MODES)
def test_iceberg_metrics_hold_for_the_rows(mode: str) -> None:
    from pyiceberg.conversions import from_bytes

    cases = {**EXTREMES, **OF_ICEBERG}

    def check(found: dict[str, list[Any]]) -> None:
        with tempfile.TemporaryDirectory() as folder:
            catalog = lakescan.catalog("statistics", warehouse=folder)
            catalog.create_namespace("db")
            properties = {"format-version": "3", "write.metadata.metrics.default": mode}
            rows = table_of(found, cases)
            catalog.create_table("db.t", rows.schema, properties=properties).append(rows)
            theirs = connection("statistics").load_table(("db", "t"))
            (manifest,) = theirs.current_snapshot().manifests(theirs.io)
            (entry,) = manifest.fetch_manifest_entry(theirs.io)
            for name, values in found.items():
                for path in (name, f"s.{name}"):
                    field = theirs.schema().find_field(path)
                    bounds = [
                        None if raw is None else from_bytes(field.field_type, raw)
                        for raw in (
                            (entry.data_file.lower_bounds or {}).get(field.field_id),
                            (entry.data_file.upper_bounds or {}).get(field.field_id),
                        )
                    ]
                    nans = (entry.data_file.nan_value_counts or {}).get(field.field_id)
                    nulls = (entry.data_file.null_value_counts or {}).get(field.field_id)
                    count = (entry.data_file.value_counts or {}).get(field.field_id)
                    check_counts(values, count, nulls, nans, is_counted=mode != "none")
                    check_bounds(values, *bounds, is_exact=mode == "full", is_bounded=mode not in ("none", "counts"))

    law(check, cases)


def check_counts(values: list[Any], count: Any, nulls: Any, nans: Any, *, is_counted: bool) -> None:
    if not is_counted:
        assert (count, nulls, nans) == (None, None, None)
        return
    assert (count, nulls) == (len(values), values.count(None))
    if any(isinstance(value, float) for value in values):
        assert nans == len([value for value in values if isinstance(value, float) and math.isnan(value)])


def check_bounds(values: list[Any], lower: Any, upper: Any, *, is_exact: bool, is_bounded: bool) -> None:
    known = sorted(map(ordered, of_size(values)))
    if not is_bounded or not known:
        assert (lower, upper) == (None, None)
        return
    if lower is not None:
        assert ordered(lower) <= known[0]
    if upper is not None:
        assert ordered(upper) >= known[-1]
        assert len(of_size(values)) == len([v for v in values if v is not None])  # for engines, NaN is greater than all
    if is_exact:
        assert lower is not None
        if isinstance(lower, float):  # the zero that is safe for both signs
            assert lower == of_size([min(of_size(values))])[0]
        else:
            assert ordered(lower) == known[0]


def test_delta_statistics_hold_for_the_rows() -> None:
    def check(found: dict[str, list[Any]]) -> None:
        with tempfile.TemporaryDirectory() as folder:
            table = Path(folder) / "t"
            rows = table_of(found, EXTREMES)
            save_in_two_commits(rows, table, format="delta")
            commits = [
                json.loads(line) for log in table.glob("_delta_log/*.json") for line in log.read_text().splitlines()
            ]
            (text,) = [commit["add"]["stats"] for commit in commits if "add" in commit]
        stats = json.loads(text, parse_float=Decimal, parse_constant=pytest.fail)
        assert stats["numRecords"] == rows.num_rows
        for name, values in found.items():
            for pick in (lambda node, name=name: node.get(name), lambda node, name=name: node.get("s", {}).get(name)):
                assert pick(stats["nullCount"]) == values.count(None)
                lower, upper = (parsed(pick(stats[which]), name) for which in ("minValues", "maxValues"))
                check_bounds(values, lower, upper, is_exact=False, is_bounded=name not in ("booleans", "binaries"))

    law(check, EXTREMES)


def parsed(bound: Any, name: str) -> Any:
    """Parse a bound in JSON to a value of the column."""
    if bound is None:
        return None
    match name:
        case "dates":
            return (date.fromisoformat(bound) - EPOCH.date()).days
        case "times" | "instants":
            assert bound.endswith("Z") == (name == "instants")
            return (datetime.fromisoformat(bound).replace(tzinfo=None) - EPOCH) // timedelta(microseconds=1)
        case "floats" | "doubles":
            return float(bound)
    return bound


def test_decimals_of_delta_statistics_have_all_their_digits(tmp_path: Path) -> None:
    values = [Decimal("12345678901234567.89"), Decimal("12345678901234567.93")]
    save_in_two_commits(pa.table({"d": pa.array(values, pa.decimal128(38, 2))}), tmp_path, format="delta")
    (text,) = [log.read_text() for log in tmp_path.glob("_delta_log/*1.json")]
    assert r"\"minValues\": {\"d\": 12345678901234567.89}" in text
    assert lakescan.table(tmp_path).scan().where("d = 12345678901234567.93").count() == 1


def test_statistics_go_by_columns_and_not_by_dotted_names(tmp_path: Path) -> None:
    rows = pa.table({"a.b": [1, 2], "a": [{"b": 100}, {"b": 200}]})
    save_in_two_commits(rows, tmp_path, format="delta")
    log = (tmp_path / "_delta_log" / "00000000000000000001.json").read_text()
    stats = json.loads(next(json.loads(line)["add"]["stats"] for line in log.splitlines() if '"add"' in line))
    assert (stats["minValues"], stats["maxValues"]) == ({"a.b": 1, "a": {"b": 100}}, {"a.b": 2, "a": {"b": 200}})


@pytest.mark.parametrize(
    ("named", "expected"),
    [("a", {"a"}), ("`a.b`", {"a.b"}), ("a.b", {"a"}), ("`a.b`, c", {"a.b", "c"}), ("a.x", set()), ("A", {"a"})],
)
def test_columns_with_delta_statistics_are_named_by_their_parts(named: str, expected: set[str], tmp_path: Path) -> None:
    rows = pa.table({"a.b": [1], "a": [{"b": 2}], "c": [3]})
    properties = {"table-property.delta.dataSkippingStatsColumns": named}
    save_in_two_commits(rows, tmp_path, format="delta", **properties)
    log = (tmp_path / "_delta_log" / "00000000000000000001.json").read_text()
    stats = json.loads(next(json.loads(line)["add"]["stats"] for line in log.splitlines() if '"add"' in line))
    assert set(stats["nullCount"]) == expected


def test_list_elements_have_no_statistics(local: lakescan.Catalog) -> None:
    save_in_two_commits(
        pa.table({"l": [[1, None], None, []], "m": pa.array([[("k", 1)]] * 3, pa.map_("string", "int64"))}),
        "local.db.t",
    )
    found = lakescan.table("local.db.t").inspect("files").to_pylist()[0]
    assert found["value_counts"] in (None, [])
    assert found["lower_bounds"] in (None, [])


def test_files_of_many_row_groups_have_bounds_of_all(tmp_path: Path) -> None:
    """A row group of only NaN or nulls has no bounds."""
    groups = [[NAN] * 3, [1.0, 2.0], [None, None]]
    batches = [pa.record_batch({"x": pa.array(group, pa.float64())}) for group in groups]
    save_in_two_commits(pa.Table.from_batches(batches), tmp_path, format="delta", target_file_size_bytes=1)
    assert lakescan.table(tmp_path).scan().where("x > 1").to_arrow().num_rows == 4
    assert lakescan.table(tmp_path).scan().where("x < 2").to_arrow()["x"].to_pylist() == [1.0]


def recorded_statistics(table: Path) -> list[dict[str, Any]]:
    """Return the statistics of the files that the newest commit adds."""
    log = sorted((table / "_delta_log").glob("*.json"))[-1]
    actions = map(json.loads, log.read_text().splitlines())
    return [json.loads(each["add"]["stats"]) for each in actions if "add" in each]


def footer_bounds(file: Path) -> list[dict[str, Any]]:
    """Return the bounds in each row group, for the columns that have them."""
    found = pq.read_metadata(file)
    groups = [found.row_group(n) for n in range(found.num_row_groups)]
    columns = [[group.column(n) for n in range(group.num_columns)] for group in groups]
    return [{c.path_in_schema: (c.statistics.min, c.statistics.max) for c in each if c.statistics} for each in columns]


def test_columns_with_nan_have_no_statistics_in_footers(tmp_path: Path) -> None:
    """They would omit NaN. Spark treats NaN as the greatest number and would skip row groups with it."""
    inner = pa.array([{"f": NAN, "g": 1.0}, None, {"f": 2.0, "g": 2.0}], pa.struct({"f": "float", "g": "double"}))
    save_in_two_commits(pa.table({"id": [1, 2, 3], "a.b": [1.5, NAN, None], "s": inner}), tmp_path, format="delta")
    (file,) = tmp_path.glob("*.parquet")
    assert footer_bounds(file) == [{"id": (1, 3), "s.g": (1.0, 2.0)}]
    assert lakescan.table(tmp_path).scan().where("`a.b` > 100").to_arrow()["id"].to_pylist() == [2]


def test_a_file_ends_before_a_row_group_whose_nan_its_footer_would_leave_out(tmp_path: Path) -> None:
    lakescan.save(pa.table({"x": pa.array([], pa.float64())}), tmp_path, format="delta")
    table = lakescan.table(tmp_path)
    groups = [[1.0, 2.0], [3.0, 4.0], [5.0, NAN], [6.0, 7.0]]
    with patch.object(write_rows, "__defaults__", (2,)):
        table.append(pa.Table.from_batches([pa.record_batch({"x": group}) for group in groups]))
    files = sorted(map(footer_bounds, tmp_path.glob("*.parquet")), key=len)
    assert [{"x": (1.0, 2.0)}, {"x": (3.0, 4.0)}] in files
    assert [{}, {}] in files
    bounds = {(each["minValues"].get("x"), each["maxValues"].get("x")) for each in recorded_statistics(tmp_path)}
    assert bounds == {(1.0, 4.0), (5.0, None)}
    scan = lakescan.table(tmp_path).scan().where("x >= 6")
    assert sorted(map(str, scan.to_arrow()["x"].to_pylist())) == ["6.0", "7.0", "nan"]
    assert scan.count() == 3


def test_instants_are_in_utc(tmp_path: Path) -> None:
    moment = datetime(2026, 1, 1, 0, 0, 0, 1, UTC)
    save_in_two_commits(
        pa.table({"t": pa.array([moment], pa.timestamp("us", "Europe/Berlin"))}), tmp_path, format="delta"
    )
    log = (tmp_path / "_delta_log" / "00000000000000000001.json").read_text()
    assert "2026-01-01T00:00:00.000Z" in log
    assert "2026-01-01T00:00:00.001Z" in log
