"""Credentials that expire after a scan was planned: workers in other processes fetch new ones themselves."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from typing import Any

import pytest

import lakescan
from tests.support.s3 import SECRET
from tests.support.unity_server import TOKEN, UnityServer
from tests.support.unity_tables import NAME, rows


@pytest.mark.slow
def test_workers_renew_credentials_that_have_expired(bucket: UnityServer) -> None:
    for number in range(3):
        lakescan.table(NAME).append(rows(number))
    tasks = lakescan.table(NAME).scan().tasks(parallelism=3)
    vended: Any = tasks[0].context.storage.vended
    vended._issued = replace(vended._issued, renewal=0.0, expiry=0.0)  # as time would
    asked = len(bucket.asked("GET", "/credentials"))
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        found = [number for read in pool.map(lakescan.ScanTask.to_arrow, tasks) for number in read["id"].to_pylist()]
    assert sorted(found) == [0, 1, 2]
    assert len(bucket.asked("GET", "/credentials")) > asked
    shown = f"{tasks!r} {tasks[0].context!r} {tasks[0].groups!r}"
    assert SECRET not in shown
    assert TOKEN not in shown
