"""Patches of the library: files, commits, catalog, clock, random numbers, sleeps and threads come from the world."""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from datetime import datetime
from functools import cached_property, lru_cache
from types import ModuleType
from typing import Any
from unittest.mock import patch

import duckdb
import pyarrow as pa
from pyarrow import fs as pafs

import lakescan
from lakescan.catalogs import multi_table_commit as several_tables
from lakescan.catalogs import registry
from lakescan.common.cache import CACHE, Cache
from lakescan.local import reader
from lakescan.storage import Storage, put_if_absent
from lakescan.storage import s3_requests as single_requests
from lakescan.storage.errors import storage_boundary
from tests.simulation.catalog import NAME, OTHER, SimulatedSession
from tests.simulation.store import Store
from tests.simulation.world import World

_REAL_DATETIME = datetime
_CONNECT = duckdb.connect


class Inline:
    """A pool that runs work immediately, in the calling thread."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        pass

    def __enter__(self) -> Inline:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def submit(self, work: Callable[..., Any], *arguments: Any, **named: Any) -> Future[Any]:
        made: Future[Any] = Future()
        try:
            made.set_result(work(*arguments, **named))
        except Exception as error:
            made.set_exception(error)
        return made

    def map(self, work: Callable[..., Any], *items: Iterable[Any], **named: Any) -> Iterator[Any]:
        return iter([work(*each) for each in zip(*items, strict=False)])

    def shutdown(self, *arguments: Any, **named: Any) -> None:
        pass


class _Kind(type):
    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, _REAL_DATETIME)


class _Clock:
    world: World | None = None


class SimulatedTime(_REAL_DATETIME, metaclass=_Kind):
    """`datetime` whose `now` is the world's clock."""

    @classmethod
    def now(cls, tz: Any = None) -> Any:
        world = _Clock.world
        if world is None:
            return _REAL_DATETIME.now(tz)
        return _REAL_DATETIME.fromtimestamp(world.clock / 1000, tz)


def _unlocked(self: Any, instance: Any, owner: Any = None) -> Any:
    """Behave as `cached_property` from Python 3.12 on: earlier versions lock one property for all objects."""
    if instance is None:
        return self
    values = vars(instance)
    if self.attrname not in values:
        values[self.attrname] = self.func(instance)
    return values[self.attrname]


@lru_cache(maxsize=1)
def _modules(count: int) -> tuple[list[tuple[ModuleType, str]], list[tuple[ModuleType, str]]]:
    pools, clocks = [], []
    for name, module in list(sys.modules.items()):
        if name.startswith(("lakescan", "pyiceberg")) and module is not None:
            for member, value in list(vars(module).items()):
                if value is ThreadPoolExecutor:
                    pools.append((module, member))
                elif value is _REAL_DATETIME:
                    clocks.append((module, member))
    return pools, clocks


@contextmanager
def inside(world: World, store: Store) -> Iterator[None]:
    """Patch the library so that everything in the block happens in the world."""
    filesystem = pafs.PyFileSystem(store)

    def put(storage: Storage, location: str, data: bytes, scheme: str, authority: str) -> bool:
        with storage_boundary("created", location):
            return store.put(f"{authority}/{location.partition('://')[2].partition('/')[2]}", data, create=True)

    caches, whose, before = dict[str, dict[str, Any]](), [""], dict(vars(CACHE))
    vars(CACHE).update(vars(Cache()))

    def switch(name: str) -> None:
        """Give each process its own cache, so that it waits for no other."""
        caches[whose[0]] = dict(vars(CACHE))
        vars(CACHE).update(caches.get(name) or vars(Cache()))
        whose[0] = name

    world.on_switch = switch
    pa.set_cpu_count(1)
    state = random.getstate()
    random.seed(world.plan.seed)
    registry._OPEN.clear()
    for catalog in (NAME, OTHER):
        lakescan.catalog(
            catalog,
            **{
                "py-catalog-impl": "tests.simulation.catalog.SimulatedCatalog",
                "py-io-impl": "tests.simulation.catalog.SimulatedIO",
                "warehouse": f"s3://{store.root}",
            },
        )
    pools, clocks = _modules(len(sys.modules))
    with ExitStack() as stack:
        enter = stack.enter_context
        enter(patch.object(Storage, "_connection", lambda self, scheme, authority, location: filesystem))
        enter(patch.object(put_if_absent, "_put", put))
        enter(patch.object(single_requests, "single_requests", lambda place, settings, signed: None))
        enter(patch.object(several_tables, "is_rest", lambda catalog: catalog.pointer.kind == "rest"))
        enter(patch.object(several_tables, "RestSession", SimulatedSession))
        enter(patch.object(reader, "default_readers", lambda: 1))
        for module, member in pools:
            enter(patch.object(module, member, Inline))
        for module, member in clocks:
            enter(patch.object(module, member, SimulatedTime))
        enter(patch.object(time, "time", lambda: world.clock / 1000))
        enter(patch.object(time, "time_ns", lambda: world.clock * 1_000_000))
        enter(patch.object(time, "monotonic", lambda: world.now / 1000))
        enter(patch.object(time, "sleep", world.sleep))
        enter(patch.object(os, "urandom", world.bytes))
        enter(patch.object(random, "_urandom", world.bytes))  # of `secrets`
        enter(patch.object(duckdb, "connect", lambda: _CONNECT(config={"threads": 1})))
        enter(patch.object(cached_property, "__get__", _unlocked))
        _Clock.world = world
        try:
            yield
        finally:
            _Clock.world = None
            random.setstate(state)
            vars(CACHE).update(before)
