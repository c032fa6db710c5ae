"""Scan tasks partition the rows of a scan, and a worker needs only its task."""

from __future__ import annotations

import multiprocessing
import pickle
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest

import lakescan


def in_order(rows: pa.Table) -> pa.Table:
    return rows.sort_by("id").combine_chunks()


@pytest.mark.parametrize("parallelism", [1, 3, 50])
def test_the_tasks_of_a_scan_have_its_rows_once(table: lakescan.Table, parallelism: int) -> None:
    scan = table.scan().where("price > 5 or name is null")
    tasks = scan.tasks(parallelism=parallelism)
    assert in_order(pa.concat_tables(task.to_arrow() for task in tasks)).equals(in_order(scan.to_arrow()))
    assert all(task.schema == scan.schema for task in tasks)
    planned = {path for task in tasks for path in task.paths}
    assert planned == set(scan.plan().files["path"].to_pylist())


def test_tasks_are_read_by_other_processes(table: lakescan.Table) -> None:
    scan = table.scan()
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        tables = list(pool.map(lakescan.ScanTask.to_arrow, scan.tasks(parallelism=2)))
    assert in_order(pa.concat_tables(tables)).equals(in_order(scan.to_arrow()))


def test_a_task_returns_some_of_its_columns_by_any_filter(table: lakescan.Table) -> None:
    scan = table.scan().where("price > 5").select("id", "name", town="place.city")
    rows = pa.concat_tables(task.select(["town", "id"]).to_arrow() for task in scan.tasks())
    assert in_order(rows).equals(in_order(scan.to_arrow().select(["town", "id"])))
    with pytest.raises(KeyError):
        scan.tasks()[0].select(["price"])


def test_a_task_names_each_of_its_columns_once(table: lakescan.Table) -> None:
    task = table.scan().tasks()[0]
    assert task.select("name").to_arrow().schema.names == ["name"]
    with pytest.raises(lakescan.InvalidOption, match="two columns named 'name'"):
        task.select(["name", "id", "name"])


@pytest.mark.parametrize("limit", [0, 1, 60, 10_000])
def test_a_scan_with_a_limit_is_one_task(table: lakescan.Table, limit: int) -> None:
    scan = table.scan().limit(limit)
    (task,) = scan.tasks(parallelism=8)
    assert task.to_arrow().num_rows == len(scan.to_arrow())


def test_a_scan_without_files_is_a_task_without_rows(table: lakescan.Table) -> None:
    (task,) = table.scan().where("id < 0").tasks()
    assert (task.to_arrow().num_rows, task.paths, task.num_bytes) == (0, [], 0)
    assert task.schema == table.scan().schema


def test_no_text_of_a_task_contains_secrets(tmp_path: Path) -> None:
    lakescan.save(pa.table({"id": [1]}), tmp_path / "t", format="delta")
    table = lakescan.table(tmp_path / "t", storage_options={"aws_secret_access_key": "hidden", "region": "eu-west-1"})
    (task,) = table.scan().tasks()
    assert "hidden" not in f"{task!r} {task} {task.context!r} {task.groups!r}"
    assert pickle.loads(pickle.dumps(task)).to_arrow().num_rows == 1
