"""The account of a stretch of one thread's time, a block or a request: what it has called and taken. What other threads, and other greenlets of its thread, do
meanwhile is not in it, but for garbage collections, which stop every thread."""

from __future__ import annotations

import copy
import datetime
import gc
import json
import os
import time
from collections.abc import Collection
from types import TracebackType
from typing import Any, Callable

from . import _counters, _turns
from ._error import Error

# Steps of one trace that are counted: see `Trace.pause`.
MOST_STEPS = 4096


class _Collections:
    """What the garbage collector has done since the first trace: how often, and for how many seconds."""

    def __init__(self) -> None:
        self.count, self.seconds = 0, 0.0
        self._began: float | None = None

    def watch(self) -> tuple[int, float]:
        """Counts from now on."""
        if self._heard not in gc.callbacks:
            gc.callbacks.append(self._heard)
        return self.count, self.seconds

    def _heard(self, phase: str, _: dict[str, int]) -> None:
        if phase == "start":
            self._began = time.perf_counter()
        elif self._began is not None:
            self.count += 1
            self.seconds += time.perf_counter() - self._began
            self._began = None


_collections = _Collections()


class Trace:
    """A context manager. Afterwards it tells what its thread has done in between."""

    def __init__(self, calls: bool | Collection[str] = True, request: dict[str, str] | None = None) -> None:
        #: Of what the block served: a dict, method and path.
        self.request = request
        #: When it began.
        self.started: datetime.datetime | None = None
        #: Seconds of wall clock and of this thread's processor time.
        self.seconds, self.cpu = 0.0, 0.0
        #: Collections of garbage, and the seconds that they took.
        self.collections, self.collecting = 0, 0.0
        #: Sentences about what could not be counted.
        self.lost: list[str] = []
        self._wanted = calls
        self._counters: _counters.Counters | None = None
        self._between: _counters.Between | None = None
        #: What the framework calls that which has answered the request; None where it does not say.
        self.route: str | None = None
        self._ended = self._failed = False
        # Of its thread, and of another one that has worked for it.
        self._stretches: list[tuple[int, int]] = []
        self._beside: list[tuple[int, int]] = []
        self._mark: int | None = None
        self._cpu: float | None = None
        self._greenlets: _turns.Greenlets | None = None
        self._tasks: _turns.Tasks | None = None

    def begin(self) -> None:
        """Begins. Raises if it cannot be done."""
        if self._wanted:
            self._counters = _counters.of(self._wanted)
        self.started = datetime.datetime.now(datetime.timezone.utc)
        self._before = _collections.watch()
        self._clock = time.monotonic()
        self.resume()
        self._greenlets = _turns.greenlets()
        if self._greenlets is not None:
            self._greenlets.begin(self)

    def is_on(self) -> bool:
        """Whether it counts now: it has begun, and is neither paused nor at its end."""
        return self._cpu is not None

    def pause(self) -> None:
        """What the thread does from now on is not of the trace, until `resume`: of code that runs in steps, as a coroutine."""
        if self._cpu is None:
            return
        if self._counters is not None and self._mark is not None:
            self._stretches.append((self._mark, self._counters.mark()))
            self._mark = None
        self.cpu += time.thread_time() - self._cpu
        self._cpu = None

    def resume(self) -> None:
        """Takes back `pause`."""
        self._cpu = time.thread_time()
        if self._counters is None:
            return
        if len(self._stretches) < MOST_STEPS:
            self._mark = self._counters.mark()
        else:
            self.lose(f"calls are not counted beyond the first {MOST_STEPS:,} steps")

    def beside(self) -> Callable[[], None]:
        """Counts what the thread that calls this does, beside the trace's own, until that thread calls what this returns."""
        counters, cpu = self._counters, time.thread_time()
        mark = None if counters is None else counters.mark()

        def end() -> None:
            if counters is not None and mark is not None:
                self._beside.append((mark, counters.mark()))
            self.cpu += time.thread_time() - cpu

        return end

    def end(self) -> None:
        """Ends; more than once does nothing."""
        if self._greenlets is not None:
            self._greenlets.end(self)
            self._greenlets = None
        self.pause()
        if not self._ended:
            self._sum_up()

    def as_of_now(self) -> Trace:
        """A trace of what was until now; this one goes on."""
        self.pause()
        now = copy.copy(self)
        now.lost, now._stretches, now._beside = list(self.lost), list(self._stretches), list(self._beside)
        now._sum_up()
        self.resume()
        return now

    def until_now(self) -> str:
        """Its figures in the midst of it, as `figures`."""
        return self.as_of_now().figures

    def _sum_up(self) -> None:
        self._ended = True
        self.seconds = time.monotonic() - self._clock
        count, seconds = _collections.count, _collections.seconds
        self.collections, self.collecting = count - self._before[0], seconds - self._before[1]

    def __enter__(self) -> Trace:
        self.begin()
        # Code that runs in steps, as the middleware of ASGI has it, is paused between them; a block is not.
        self._tasks = _turns.tasks()
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None) -> None:
        if self._tasks is not None:
            others = self._tasks.end()
            if others is not None:
                self.lose(others)
        self.end()

    @property
    def calls(self) -> dict[str, _counters.Sum] | None:
        """Calls by group: a dict of tuples `calls`, `time`, `bytes`; None if they were not counted."""
        if self._between is None:
            self._ask(False)
        return None if self._between is None else self._between.sums

    @property
    def details(self) -> dict[str, Any] | None:
        """What the calls were about, by line, and when they were made: `rows` and `pieces`, as docs/inside.md has them; None if they were not counted."""
        if self._between is None or self._between.details is None:
            self._ask(True)
        return None if self._between is None else self._between.details

    def _ask(self, details: bool) -> None:
        if self._counters is None or not self._ended or self._failed:
            return
        try:
            between = self._counters.between(self._stretches, details)
            if self._beside:
                # Not in one question: a call that lies within another one of the same thread is a part of it, and of another thread is not.
                between = between.plus(self._counters.between(self._beside, details))
        except Error as error:
            # It is not asked again by each that wants to know: the answer may take seconds.
            self._failed = True
            self.lose(str(error))
            return
        self._between = between
        for text in between.lost:
            self.lose(text)

    def lose(self, text: str) -> None:
        """Adds a sentence to `lost`, once."""
        if text not in self.lost:
            self.lost.append(text)

    def to_dict(self) -> dict[str, Any]:
        """As JSON writes it; times are seconds."""
        calls = {group: found._asdict() for group, found in (self.calls or {}).items()}
        tracers: dict[str, Any] = {"gc": {"calls": self.collections, "time": self.collecting}, **calls}
        told: dict[str, Any] = {"start": self.start, "time": self.seconds, "cpu": self.cpu}
        if self.request is not None:
            told["request"] = self.request
        return {**told, "tracers": tracers, "lost": self.lost}

    @property
    def start(self) -> str | None:
        """When it began, as a text."""
        return None if self.started is None else self.started.strftime("%Y-%m-%dT%H:%M:%S.%fZ")

    def to_json(self) -> str:
        """The same as a line."""
        return json.dumps(self.to_dict())

    def append_to(self, path: str | os.PathLike[str]) -> None:
        """Appends that line to a file, which only its owner may read."""
        line = (self.to_json() + "\n").encode()
        file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            while line:
                line = line[os.write(file, line) :]
        finally:
            os.close(file)

    @property
    def figures(self) -> str:
        """The figures as a part of a line."""
        parts = [f"{self.seconds * 1e3:.1f} ms, {self.cpu * 1e3:.1f} ms CPU"]
        if self.collections:
            parts.append(f"{self.collections} collections {self.collecting * 1e3:.1f} ms")
        for group, found in (self.calls or {}).items():
            parts.append(f"{group} {found.calls} in {found.time * 1e3:.1f} ms")
        return ", ".join(parts)

    def __str__(self) -> str:
        words = ["lancet:"]
        if self.request is not None:
            # A path is what somebody has sent, and may hold control characters.
            words.append(" ".join(_printable(str(value)) for value in self.request.values()))
        figures = self.figures
        return " ".join([*words, figures, *(f"({text})" for text in self.lost)])


def _printable(text: str) -> str:
    return "".join(one if one.isprintable() else ascii(one)[1:-1] for one in text)
