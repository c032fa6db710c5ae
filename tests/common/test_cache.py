"""The cache of a process: one byte limit for all kinds, least recently used first, each value computed once."""

from __future__ import annotations

import gc
import os
import signal
import threading
from collections.abc import Callable, Hashable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from hypothesis import given
from hypothesis import strategies as st

import lakescan
from lakescan.common.cache import CACHE, DEFAULT_LIMIT, ENTRY, Cache, CacheKind, entry_size, table_size
from lakescan.delta.log.reader import DeltaVersion
from tests.support.allocated import allocated_bytes
from tests.support.catalog import local_catalog

SECONDS = 120  # seconds that a thread waits at most, so that a deadlock fails


def never() -> Any:
    raise AssertionError("it was cached")


def size(value: bytes | None) -> int:
    return len(value or b"")


@pytest.fixture
def default_limit() -> Iterator[None]:
    yield
    lakescan.set_cache_limit(DEFAULT_LIMIT)


def test_a_cached_value_is_not_computed_again() -> None:
    cache = Cache()
    assert cache.get("a", lambda: b"1", size) == cache.get("a", never, size) == b"1"
    assert cache.get("none", lambda: None, size) is None
    assert cache.get("none", never, size) is None


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 3 * ENTRY)), max_size=60), st.integers(0, 6 * ENTRY))
def test_the_least_recently_used_entries_are_evicted_first(gets: list[tuple[int, int]], limit: int) -> None:
    """The model is a list, searched in order. An entry larger than the limit is not cached and evicts nothing."""
    cache, entries, computed = Cache(limit), [], []
    for key, length in gets:
        cached = next((entry for entry in entries if entry[0] == key), None)
        value = cache.get(key, lambda key=key, n=length: computed.append(key) or bytes(n), size)
        if cached is not None:
            entries.remove(cached)
        else:
            assert computed.pop() == key
        entries.append(cached or (key, length))
        assert len(value) == entries[-1][1]
        if cached is None and length + entry_size(key) > limit:
            entries.pop()
        while sum(n + entry_size(key) for key, n in entries) > limit:
            entries.pop(0)
        assert not computed
        assert (len(cache), cache.nbytes) == (len(entries), sum(n + entry_size(key) for key, n in entries))


def test_kinds_share_the_limit_but_no_keys() -> None:
    CACHE.clear()
    one, other = CacheKind("one", size), CacheKind("other", size)
    assert (one.get("a", lambda: b"1"), other.get("a", lambda: b"2"), one.get("a", never)) == (b"1", b"2", b"1")
    assert CACHE.nbytes == entry_size(("one", "a")) + entry_size(("other", "a")) + 2


def test_a_smaller_limit_evicts_and_zero_caches_nothing() -> None:
    cache = Cache()
    for key in "abc":
        cache.get(key, lambda: bytes(100), size)
    cache.resize(2 * (entry_size("a") + 100))
    assert cache.get("b", never, size) == cache.get("c", never, size)
    cache.resize(0)
    assert (len(cache), cache.nbytes) == (0, 0)
    assert cache.get("b", lambda: None, size) is None
    assert len(cache) == 0


def test_a_negative_limit_is_refused() -> None:
    with pytest.raises(lakescan.InvalidOption, match="-1"):
        lakescan.set_cache_limit(-1)


class Held:
    """A function that blocks until it is released, and counts its calls."""

    def __init__(self, result: Callable[[], Any]) -> None:
        self.calls, self._result = 0, result
        self.started, self.go = threading.Event(), threading.Event()

    def __call__(self) -> Any:
        self.calls += 1
        self.started.set()
        assert self.go.wait(SECONDS)
        return self._result()


def waiting(cache: Cache, threads: int) -> None:
    """Return once `threads` threads wait for a value."""
    for _ in range(SECONDS * 1000):
        if len(cache._waiting) == threads:
            return
        threading.Event().wait(0.001)
    raise AssertionError("they do not wait")


@pytest.mark.parametrize("limit", [0, DEFAULT_LIMIT])
def test_threads_that_want_the_same_value_compute_it_once(limit: int) -> None:
    cache, make = Cache(limit), Held(lambda: object())
    with ThreadPoolExecutor(8) as pool:
        values = [pool.submit(cache.get, "a", make, lambda _: 1) for _ in range(8)]
        waiting(cache, 7)
        assert cache.get("b", lambda: 2, lambda _: 1) == 2  # other keys are not held up
        make.go.set()
        assert len({id(value.result(SECONDS)) for value in values}) == make.calls == 1
    assert not cache._computations
    assert not cache._waiting


def test_an_exception_is_not_cached_and_those_who_waited_compute_the_value_themselves() -> None:
    cache = Cache()

    def fail() -> Any:
        raise OSError("connection reset")

    first = Held(fail)
    with ThreadPoolExecutor(4) as pool:
        failing = pool.submit(cache.get, "a", first, size)
        assert first.started.wait(SECONDS)
        others = [pool.submit(cache.get, "a", lambda: b"1", size) for _ in range(3)]
        waiting(cache, 3)
        first.go.set()
        with pytest.raises(OSError, match="reset"):
            failing.result(SECONDS)
        assert [each.result(SECONDS) for each in others] == [b"1"] * 3
    assert cache.get("a", never, size) == b"1"
    assert not cache._computations


def test_a_computation_may_request_other_keys_and_even_its_own() -> None:
    cache, depth = Cache(), iter(range(2))

    def make() -> bytes:
        return cache.get("b", lambda: b"2", size) + (b"" if next(depth) else cache.get("a", make, size))

    assert cache.get("a", make, size) == b"22"
    assert cache.get("b", never, size) == b"2"
    assert not cache._computations


def test_threads_that_need_each_others_values_do_not_wait_forever() -> None:
    """The first computes a and then wants b; the second computes b and then wants a."""
    cache, both = Cache(), threading.Barrier(2)

    def make(other: Hashable) -> Callable[[], bytes]:
        def computed() -> bytes:
            both.wait(SECONDS)
            return b"1" + cache.get(other, lambda: b"0", size)

        return computed

    with ThreadPoolExecutor(2) as pool:
        values = [pool.submit(cache.get, key, make(other), size) for key, other in (("a", "b"), ("b", "a"))]
        assert {value.result(SECONDS) for value in values} <= {b"10", b"110"}
    assert not cache._computations
    assert not cache._waiting


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")
def test_a_forked_process_does_not_wait_for_threads_that_it_does_not_have() -> None:
    kind, make = CacheKind("forked", size), Held(lambda: b"parent")
    kind.get("cached", lambda: b"1")
    with ThreadPoolExecutor(1) as pool:
        value = pool.submit(kind.get, "a", make)
        assert make.started.wait(SECONDS)
        child = os.fork()
        if child == 0:  # exit without running the parent's cleanup
            signal.alarm(SECONDS)
            os._exit(0 if kind.get("a", lambda: b"child") + kind.get("cached", never) == b"child1" else 1)
        make.go.set()
        assert value.result(SECONDS) == b"parent"
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize("limit", [0, 2_000])
def test_tables_are_read_whatever_the_limit(limit: int, tmp_path: Path, default_limit: None) -> None:
    lakescan.set_cache_limit(limit)
    made = local_catalog(tmp_path).create_table("n.t", pa.schema({"n": pa.int64()}))
    for start in range(3):
        made.append(pa.table({"n": [start]}))
        write_deltalake(str(tmp_path / "delta"), pa.table({"n": [start]}), mode="append")
    delta = lakescan.table(tmp_path / "delta")
    for scan in (lakescan.table(made.metadata_location).scan(), delta.scan()):
        assert sorted(scan.to_arrow()["n"].to_pylist()) == [0, 1, 2]
        assert scan.count() == 3
    assert [delta.scan().as_of(version=n).count() for n in (0, 2, 1, 0)] == [1, 3, 2, 1]
    assert CACHE.nbytes <= limit


def test_states_of_a_delta_table_are_bounded(tmp_path: Path, default_limit: None) -> None:
    for n in range(6):
        write_deltalake(str(tmp_path), pa.table({"n": [n]}), mode="append", configuration={"delta.appendOnly": "true"})
    table = lakescan.table(tmp_path)
    lakescan.set_cache_limit(10_000)  # two states, not four
    before = states()
    for version in (*range(6), *range(6)):
        assert table.scan().as_of(version=version).snapshot.id == version
        assert states() <= before + 4  # two in the cache, the table's last one, and the snapshot's


def states() -> int:
    return sum(isinstance(each, DeltaVersion) for each in gc.get_objects())


@pytest.mark.slow
@pytest.mark.parametrize(
    "column",
    [
        pa.array([1, 2]),
        pa.array(["a", "b"]),
        pa.array([{"a": 1, "b": {"c": 2}}]),
        pa.array([[1, 2]], pa.list_(pa.int64())),
        pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64())),
        pa.array(range(10_000)),
    ],
    ids=lambda column: f"{len(column)} of {column.type}",
)
def test_the_counted_size_of_a_table_is_its_memory(column: pa.Array) -> None:
    """In a table of few rows, the fields and arrays take most of the memory."""

    def made() -> pa.Table:
        return pa.table({f"column {n}": pa.concat_arrays([column, column]) for n in range(20)})

    def taken() -> float:
        before = allocated_bytes()
        kept = [made() for _ in range(50)]
        return (allocated_bytes() - before) / len(kept)

    made()
    usual = median(taken() for _ in range(5))  # other threads of the process allocate and free, too
    assert usual / 2 < table_size(made()) < 2.5 * usual  # types may be shared between tables


def test_a_slice_counts_the_buffers_that_it_keeps_alive() -> None:
    whole = pa.table({"n": range(10_000)})
    assert table_size(whole.slice(5, 1)) == table_size(whole)


def test_long_keys_count() -> None:
    names = tuple(f"file:///lake/orders/metadata/{n:0100}.avro" for n in range(64))
    assert entry_size(("metadata", (names, 1))) > sum(map(len, names)) > entry_size(("metadata", 1))


@pytest.mark.parametrize("kind", ["iceberg", "delta"])
def test_the_cache_of_many_commits_uses_the_memory_that_it_counts(kind: str, tmp_path: Path) -> None:
    """Small metadata tables are numerous, and each was once counted at a tenth of its bytes."""
    catalog = lakescan.catalog("counted", warehouse=str(tmp_path))
    catalog.create_namespace("n")
    made = catalog.create_table("n.t", "n BIGINT, text STRING", format=kind)
    CACHE.clear()
    for start in range(20):
        made.append(pa.table({"n": [start], "text": ["a"]}))
        assert lakescan.table("counted.n.t").scan().to_arrow().num_rows == start + 1
    counted, before = CACHE.nbytes, allocated_bytes()
    CACHE.clear()
    assert 0 < before - allocated_bytes() < 1.5 * counted
