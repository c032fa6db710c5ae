"""The scheduler: each actor is a thread. One actor runs at a time and hands over at every call to the store or catalog.

The seed decides everything: the next actor, which call fails and how, the clock, and random numbers. Two runs of one
plan have the same history.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import blake2b
from random import Random
from typing import Any, TypeVar

from tests.simulation.plan import ActorPlan, Plan, Step

T = TypeVar("T")
START = 1_800_000_000_000  # milliseconds since 1970, when each run begins
_STACK = 1 << 20


class Killed(BaseException):
    """The actor's process has ended: a BaseException, which no error handler catches."""


class Broken(AssertionError):
    """An invariant does not hold."""


@dataclass
class Actor:
    """One process: it runs its steps in sequence, in its own thread."""

    plan: ActorPlan
    world: World
    step: Step | None = None
    calls: int = 0  # of the step
    is_dead: bool = False
    is_done: bool = False
    is_busy: bool = False  # within a step
    asleep_until: int = 0
    turn: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))

    @property
    def name(self) -> str:
        return self.plan.name

    def hand_over(self) -> None:
        """Let other actors run until it is this actor's turn again; the calling thread waits."""
        self.world.baton.release()
        self.turn.acquire()
        if self.is_dead:
            raise Killed


@dataclass
class Pending:
    """A request that still arrives after its client gave up waiting."""

    at: int  # milliseconds
    text: str
    actor: Actor
    step: Step
    act: Callable[[], Any]


class World:
    """One run of a plan."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.now = START
        self.history: list[str] = []
        self.faults: list[tuple[int, int, str]] = []  # step, call, kind
        self.numbers, self._bytes = Random(f"{plan.seed} numbers"), Random(f"{plan.seed} bytes")
        self._schedule = Random(f"{plan.seed} {plan.variant} schedule")
        self.baton = threading.Semaphore(0)
        self.current: Actor | None = None
        self.actors: list[Actor] = []
        self.pending: list[Pending] = []
        self.waiting: list[Callable[[], None]] = []  # checks to run before any actor continues
        self.failure: BaseException | None = None
        self.is_quiet = False
        self.on_switch: Callable[[str], None] = lambda name: None  # the actor whose process runs; "" for the checks

    @contextmanager
    def as_server(self) -> Iterator[None]:
        """Within the block, act as a server: its own requests do not fail, and no other actor runs in between."""
        before, self.is_quiet = self.is_quiet, True
        try:
            yield
        finally:
            self.is_quiet = before

    # The interface of the code under test

    @property
    def clock(self) -> int:
        """Return the running machine's clock in milliseconds; actors' clocks differ."""
        return self.now + (0 if self.current is None or self.is_quiet else self.current.plan.skew)

    def bytes(self, count: int) -> bytes:
        return self._bytes.randbytes(count)

    def sleep(self, seconds: float) -> None:
        actor = self.current
        if actor is None:
            self.now += int(seconds * 1000)
            return
        actor.asleep_until = self.now + int(seconds * 1000)
        self.call("sleep", f"{seconds:.1f} s", lambda: None, faults=())

    def call(self, kind: str, what: str, act: Callable[[], T], faults: Sequence[str] = ()) -> T:
        """Make a request of the current actor: other actors may run first, and one of `faults` may occur."""
        actor = self.current
        if actor is None or self.is_quiet:
            return act()
        if actor.is_dead:
            raise Killed
        actor.hand_over()
        self.now += 1 + self.numbers.randrange(20)
        actor.calls += 1
        fault = self._fault(actor, faults)
        self.tell(actor, f"{kind} {what}{f'  <- {fault}' if fault else ''}")
        return self._befallen(fault, actor, act, f"{kind} {what}")

    def _befallen(self, fault: str | None, actor: Actor, act: Callable[[], T], text: str) -> T:
        if fault is None:
            found = act()
            if self.waiting:
                actor.hand_over()
            return found
        assert actor.step is not None
        if fault == "killed":
            actor.is_dead = True
            raise Killed
        if fault == "killed after":
            act()
            actor.is_dead = True
            raise Killed
        if fault == "stalled":
            actor.asleep_until = self.now + self.numbers.choice([5_000, 60_000, 3_600_000])
            actor.hand_over()
            return self._befallen(None, actor, act, text)
        if fault == "lost answer":
            with suppress(Exception):  # an error's answer is lost as well
                act()
            if self.waiting:
                actor.hand_over()
            raise TimeoutError("AWS Error NETWORK_CONNECTION: the answer was lost")
        if fault == "late":
            at = self.now + self.numbers.choice([10, 200, 2_000, 60_000])
            self.pending.append(Pending(at, text, actor, actor.step, act))
            raise TimeoutError("AWS Error NETWORK_CONNECTION: no answer in time")
        if fault == "429":
            raise OSError("AWS Error SLOW_DOWN (HTTP status 429): reduce your request rate")
        if fault == "503":
            raise OSError("AWS Error SERVICE_UNAVAILABLE (HTTP status 503): try again")
        raise AssertionError(fault)

    def _fault(self, actor: Actor, kinds: Sequence[str]) -> str | None:
        """Return the fault of this call. It depends only on its step and number, so it stays under shrinking."""
        step = actor.step
        kinds = [each for each in kinds if not self.plan.fault_kinds or each in self.plan.fault_kinds]
        if step is None or not kinds or (step.number, actor.calls) in self.plan.spared or not step.may_fail:
            return None
        chance, which = _drawn(self.plan.seed, step.number, actor.calls)
        if chance >= self.plan.fault_rate:
            return None
        kind = kinds[which % len(kinds)]
        self.faults.append((step.number, actor.calls, kind))
        return kind

    def tell(self, actor: Actor | None, text: str) -> None:
        self.history.append(f"{self.now - START:>9} {'-' if actor is None else actor.name}: {text}")

    # Running

    def run(self, work: Callable[[Actor, Step], None]) -> None:
        """Run all actors to their end, then the pending requests; raise `Broken` if an invariant fails."""
        for each in self.plan.actors:
            actor = Actor(each, self)
            self.actors.append(actor)
            threading.Thread(target=self._live, args=(actor, work), daemon=True).start()
        last: Actor | None = None
        while alive := [each for each in self.actors if not each.is_done]:
            self._arrive()
            last = self._next(alive, last)
            self._let(last)
            self._check()
            if self.failure is not None:
                self._end()
                raise self.failure
        for each in list(self.pending):
            self.now = max(self.now, each.at)
            self._arrive()

    def _next(self, alive: list[Actor], last: Actor | None) -> Actor:
        awake = [each for each in alive if each.asleep_until <= self.now]
        if not awake:
            self.now = min(each.asleep_until for each in alive)
            awake = [each for each in alive if each.asleep_until <= self.now]
        if self._schedule.random() < self.plan.jump_rate:
            self.now += self._schedule.choice([1_000, 60_000, 600_000])
        if last in awake and self._schedule.random() >= self.plan.switch_rate:
            return last
        return self._schedule.choice(awake)

    def _let(self, actor: Actor) -> None:
        self.current = actor
        self.on_switch(actor.name)
        actor.turn.release()
        self.baton.acquire()
        self.on_switch("")
        self.current = None

    def _arrive(self) -> None:
        for each in [p for p in self.pending if p.at <= self.now]:
            self.pending.remove(each)
            self.tell(each.actor, f"(late) {each.text} arrives")
            self.arriving = each
            try:
                each.act()
            except Exception as error:  # the client no longer waits
                self.tell(each.actor, f"(late) {type(error).__name__}")
            finally:
                self.arriving = None
            self._check()

    arriving: Pending | None = None

    @property
    def author(self) -> tuple[Actor | None, Step | None]:
        """Return the actor and step whose request is being served."""
        if self.arriving is not None:
            return self.arriving.actor, self.arriving.step
        return self.current, None if self.current is None else self.current.step

    def _check(self) -> None:
        while self.waiting:
            check = self.waiting.pop(0)
            try:
                check()
            except BaseException as error:
                if self.failure is None:
                    self.failure = error
        if self.failure is not None and not any(each.is_done is False for each in self.actors):
            raise self.failure

    def _live(self, actor: Actor, work: Callable[[Actor, Step], None]) -> None:
        actor.turn.acquire()
        try:
            for step in actor.plan.steps:
                if actor.is_dead:
                    break
                actor.step, actor.calls, actor.is_busy = step, 0, True
                work(actor, step)
                actor.is_busy = False
                self.between(actor)
        except Killed:
            pass
        except BaseException as error:
            if self.failure is None:
                self.failure = error
        actor.is_done, actor.is_busy = True, False
        self.baton.release()

    def between(self, actor: Actor) -> None:
        """Let other actors run between two steps."""
        actor.hand_over()

    def _end(self) -> None:
        """End all threads."""
        for actor in self.actors:
            while not actor.is_done:
                actor.is_dead = True
                self._let(actor)


def _drawn(seed: int, step: int, call: int) -> tuple[float, int]:
    drawn = blake2b(f"{seed} {step} {call}".encode(), digest_size=8).digest()
    return int.from_bytes(drawn[:4], "little") / 2**32, int.from_bytes(drawn[4:], "little")
