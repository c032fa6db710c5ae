"""Show the progress of long work on stderr if it is a terminal, and nothing otherwise."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import contextmanager
from typing import TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from lakescan.common.executors import LOCAL

T = TypeVar("T")
R = TypeVar("R")


class Work:
    """A progress display: the current step, and the number of finished tasks.

    It is also an executor that runs tasks in threads, as the default executor does, and advances the bar with each.
    """

    def __init__(self, bar: Progress | None) -> None:
        self._bar = bar
        self._task = None if bar is None else bar.add_task("", total=None)

    def says(self, what: str) -> None:
        """Show the text `what` as the current step, and reset the number of finished tasks."""
        if self._bar is not None and self._task is not None:
            self._bar.reset(self._task, total=None, description=what)

    def map(self, work: Callable[[T], R], items: Iterable[T], /) -> Iterator[R]:
        """Yield the result of `work` for each item, in the order of the items; it runs in threads."""
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, total=len(items) if isinstance(items, Sized) else None, completed=0)
        for result in LOCAL.map(work, items):
            if self._bar is not None and self._task is not None:
                self._bar.advance(self._task)
            yield result

    @property
    def executor(self) -> Work | None:
        """The object itself as an executor that shows progress; None if no progress is shown."""
        return None if self._bar is None else self


@contextmanager
def working(what: str) -> Iterator[Work]:
    """Context manager: show a progress bar labelled `what` on stderr while the block runs.

    If stderr is not a terminal, nothing is shown.
    """
    if not sys.stderr.isatty():
        yield Work(None)
        return
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        work = Work(bar)
        work.says(what)
        yield work
