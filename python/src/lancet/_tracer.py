"""Traces some of many requests, and tells of those that took long. What goes wrong with a trace is said once, and the request is served all the same."""

from __future__ import annotations

import contextlib
import os
import random
import sys
import time
from collections.abc import Collection
from typing import Any, Callable, TypedDict, TypeVar

from . import _counters
from ._error import Error, Lost
from ._signature import used
from ._trace import Trace

T = TypeVar("T")

# What may go wrong within this package, at the beginning or the end of a trace. Not every Exception: one that the program has raised meanwhile by a handler of
# a signal, as a time limit of its own does, is the program's (and so is a TimeoutError, which is an OSError).
FAULTS = (Error, OSError, ValueError, LookupError, TypeError, AttributeError, ImportError)

# Seconds without a trace after one that could not begin, the first time and at most; each that follows waits twice as long.
FIRST_REST = 1
LONGEST_REST = 60
# The standard error of the time at which something is written.
STANDARD_ERROR = object()


class Options(TypedDict, total=False):
    """Those of Tracer."""

    sample: float
    threshold: float | None
    secret: str | None
    calls: bool | Collection[str]
    log: Any
    file: str | os.PathLike[str] | None
    told: Callable[[Trace], object] | None


class Tracer:
    """Traces the part `sample` of all requests (0 to 1), and tells of what took `threshold` seconds or more: to `log` (a file, or whatever has `info`) a line,
    to `file` a line of JSON, and to the function `told` the trace itself. With a `secret`, a request with a header of `signature` is traced and told whatever
    the others say."""

    def __init__(
        self,
        sample: float = 0.01,
        threshold: float | None = 0,
        secret: str | None = None,
        calls: bool | Collection[str] = True,
        log: Any = STANDARD_ERROR,
        file: str | os.PathLike[str] | None = None,
        told: Callable[[Trace], object] | None = None,
    ) -> None:
        if not 0 <= sample <= 1:
            raise ValueError("sample is a part of all requests, from 0 to 1")
        if secret == "":
            raise ValueError("an empty secret is none")
        if not (threshold is None or isinstance(threshold, (int, float))):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ValueError("threshold is a number of seconds")
        self._sample, self._threshold, self._secret, self._calls = sample, threshold or 0, secret, calls
        self._log, self._file, self._told = log, file, told
        #: Why the last request that was to be traced was not; None: it was.
        self.refused: str | None = None
        self._said: str | None = None
        self._rest, self._rests_until = 0, 0.0

    def asks(self, value: str, request: tuple[str, str, str]) -> bool:
        """Whether a request (method, path, query) asks for its trace, by the value of its header. A value asks once."""
        return self._secret is not None and used.is_first(self._secret, value, request)

    def is_chosen(self) -> bool:
        """Whether the next request is to be traced."""
        return self._sample > 0 and (self._sample >= 1 or random.random() < self._sample)

    def begun(self, method: str, path: str) -> Trace | None:
        """A trace of a request that has begun, or None if it cannot be."""
        if self._rests():
            return None
        trace = Trace(self._calls, {"method": method, "path": path})
        try:
            trace.begin()
        except TimeoutError:
            raise
        except FAULTS as error:
            self._begin_rest(error)
            self._refuse(error)
            return None
        self._rest, self.refused = 0, None
        return trace

    def border(self, work: Callable[..., T], *arguments: Any) -> T | None:
        """Does what a middleware does itself and is not the application's; the result, or None if it fails, which is said once. The request is served all the
        same."""
        try:
            return work(*arguments)
        except TimeoutError:
            raise
        except FAULTS as error:
            self._refuse(error)
            return None

    def is_prepared(self) -> bool:
        """Whether a trace begins without waiting for anything."""
        return not self._calls or self._rests() or _counters.are_there(self._calls)

    def prepare(self) -> bool:
        """Does what may take long before a trace begins: hooks its functions. Whether it can."""
        try:
            if self._calls:
                _counters.of(self._calls)
        except FAULTS as error:
            self._begin_rest(error)
            self._refuse(error)
            return False
        return True

    def _begin_rest(self, error: Exception) -> None:
        # What could not be begun (nobody may trace) is not tried again by each request, which would wait for it. A companion that has ended is replaced at once.
        if type(error) is not Lost:
            self._rest = min(max(2 * self._rest, FIRST_REST), LONGEST_REST)
            self._rests_until = time.monotonic() + self._rest

    def _rests(self) -> bool:
        return self._rest > 0 and time.monotonic() < self._rests_until

    def ended(self, trace: Trace, always: bool) -> None:
        """Ends a trace and tells it; with `always` however long it took."""
        if self.is_to_be_told(trace, always):
            self.tell(trace)

    def is_to_be_told(self, trace: Trace, always: bool) -> bool:
        """Ends a trace; whether it took long enough, or is told `always`."""
        try:
            trace.end()
        except TimeoutError:
            raise
        except FAULTS as error:
            self._refuse(error)
            return False
        return always or trace.seconds >= self._threshold

    def tell(self, trace: Trace) -> None:
        """Tells a trace that has ended."""
        try:
            if self._log is not None:
                self._apart(self._write, str(trace))
            if self._file is not None:
                trace.append_to(self._file)
        except TimeoutError:
            raise
        except FAULTS as error:
            self._refuse(error)
        else:
            if self._told is not None:
                self._apart(self._told, trace)

    def figures(self, trace: Trace) -> str | None:
        """What is told of a trace in a header; None if it cannot be."""
        try:
            return trace.figures
        except TimeoutError:
            raise
        except FAULTS as error:
            self._refuse(error)
            return None

    def _apart(self, tell: Callable[[Any], object], what: object) -> None:
        # What the program does to tell a trace may fail in any way.
        try:
            tell(what)
        except Exception as error:  # noqa: BLE001
            self._refuse(error)

    def _refuse(self, error: Exception) -> None:
        # Each reason is said once, until another one comes.
        self.refused = str(error)
        if self._said != self.refused:
            self._said = self.refused
            # Where not even that can be written, nobody is told.
            with contextlib.suppress(Exception):
                self._write(f"lancet: not traced: {error}")

    def _write(self, line: str) -> None:
        log: Any = sys.stderr if self._log is STANDARD_ERROR else self._log
        if hasattr(log, "info"):
            log.info("%s", line)
        elif log is not None:
            print(line, file=log)
