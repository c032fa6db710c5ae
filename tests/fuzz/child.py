"""Run a case in a child process with a memory limit and a deadline, so that the run survives any outcome."""

from __future__ import annotations

import faulthandler
import json
import os
import resource
import select
import signal
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import IO, Any

MEMORY = 3 * 2**30  # bytes of address space
RESIDENT = 3 * 2**29  # bytes that may be resident at once


@dataclass(frozen=True)
class Ending:
    """The values that a child sent, how it ended, and its stack if it did not end well.

    Endings are `done`, `hang`, `memory` (over the limit) and `crash`, with the signal.
    """

    sent: list[Any]
    how: str
    stack: str = ""


def run(work: Callable[[Callable[[Any], None]], None], seconds: float, *, limited: bool = True) -> Ending:
    """Run `work` in a forked child. Its argument is a function that sends JSON values to the parent."""
    reading, writing = os.pipe()
    with tempfile.TemporaryFile("w+") as stack:
        pid = os.fork()
        if pid == 0:
            os.close(reading)
            _child(work, writing, stack, seconds, limited)
        os.close(writing)
        data, is_late = _received(reading, pid, seconds)
        os.close(reading)
        _, status, used = os.wait4(pid, 0)
        stack.seek(0)
        sent = [json.loads(line) for line in data.splitlines() if line.endswith(b"}")]
        how = "done"
        if is_late:
            how = "hang"
        elif os.WIFSIGNALED(status):
            how = f"crash {signal.Signals(os.WTERMSIG(status)).name}"
        elif limited and used.ru_maxrss * 1024 > RESIDENT:
            how = "memory"
        return Ending(sent, how, "" if how == "done" else stack.read())


def _received(reading: int, pid: int, seconds: float) -> tuple[bytes, bool]:
    """Return all bytes that the child sends, and whether it had to be stopped."""
    data, deadline = bytearray(), time.monotonic() + seconds
    while True:
        ready, _, _ = select.select([reading], [], [], max(0, deadline - time.monotonic()))
        if not ready:
            os.kill(pid, signal.SIGKILL)
            return bytes(data), True
        piece = os.read(reading, 1 << 16)
        if not piece:
            return bytes(data), False
        data += piece


def _child(
    work: Callable[[Callable[[Any], None]], None], writing: int, stack: IO[str], seconds: float, limited: bool
) -> None:
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nowhere, number)
    faulthandler.enable(file=stack)
    faulthandler.dump_traceback_later(max(1, seconds - 1), file=stack)
    with os.fdopen(writing, "wb", 0) as out:

        def send(value: Any) -> None:
            out.write(json.dumps(value).encode() + b"\n")

        try:
            if limited:
                resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
            work(send)
        except BaseException as error:
            send({"broken": repr(error)})
    os._exit(0)
