"""Traces some of many requests, and tells of those that took long. What goes wrong with a trace is said once, and the request is served all the same."""

import hashlib
import hmac
import random
import sys
import time

from . import _counters
from ._error import Error, Lost
from ._trace import Trace

# What may go wrong within this package, at the beginning or the end of a trace. Not every Exception: one that the program has raised meanwhile by a handler of
# a signal, as a time limit of its own does, is the program's (and so is a TimeoutError, which is an OSError).
FAULTS = (Error, OSError, ValueError, LookupError, TypeError, AttributeError, ImportError)

# Seconds without a trace after one that could not begin, the first time and at most; each that follows waits twice as long.
FIRST_REST = 1
LONGEST_REST = 60
# The standard error of the time at which something is written.
STANDARD_ERROR = object()


def signature(secret, method, path, seconds=60, now=None):
    """The value of the header `X-Lancet-Trace` that has one request traced, within so many seconds."""
    until = int(time.time() if now is None else now) + seconds
    return f"{until}:{_sign(secret, method, path, until)}"


def is_signed(secret, value, method, path):
    """Whether such a value is one for this request, now."""
    until, _, given = value.partition(":")
    if not (until.isascii() and until.isdigit() and len(until) <= 12) or int(until) < time.time():
        return False
    return hmac.compare_digest(_sign(secret, method, path, int(until)).encode(), given.encode("utf-8", "replace"))


def _sign(secret, method, path, until):
    text = f"{until} {method} {path}".encode("utf-8", "surrogateescape")
    return hmac.new(secret.encode(), text, hashlib.sha256).hexdigest()


class Tracer:
    """Traces the part `sample` of all requests (0 to 1), and tells of what took `threshold` seconds or more: to `log` (a file, or whatever has `info`) a line,
    to `file` a line of JSON, and to the function `told` the trace itself. With a `secret`, a request with a header of `signature` is traced and told whatever
    the others say."""

    def __init__(self, sample=0.01, threshold=0, secret=None, calls=True, log=STANDARD_ERROR, file=None, told=None):
        if not 0 <= sample <= 1:
            raise ValueError("sample is a part of all requests, from 0 to 1")
        if secret == "":
            raise ValueError("an empty secret is none")
        if not (threshold is None or isinstance(threshold, (int, float))):
            raise ValueError("threshold is a number of seconds")
        self._sample, self._threshold, self._secret, self._calls = sample, threshold or 0, secret, calls
        self._log, self._file, self._told = log, file, told
        #: Why the last request that was to be traced was not; None: it was.
        self.refused = None
        self._said = None
        self._rest = self._rests_until = 0

    def asks(self, value, method, path):
        """Whether a request asks for its trace, by the value of its header or None."""
        return self._secret is not None and value is not None and is_signed(self._secret, value, method, path)

    def is_chosen(self):
        """Whether the next request is to be traced."""
        return self._sample > 0 and (self._sample >= 1 or random.random() < self._sample)

    def begun(self, method, path):
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

    def border(self, work, *arguments):
        """Does what a middleware does itself and is not the application's; the result, or None if it fails, which is said once. The request is served all the
        same."""
        try:
            return work(*arguments)
        except TimeoutError:
            raise
        except FAULTS as error:
            self._refuse(error)
            return None

    def is_prepared(self):
        """Whether a trace begins without waiting for anything."""
        return not self._calls or self._rests() or _counters.are_there(self._calls)

    def prepare(self):
        """Does what may take long before a trace begins: hooks its functions. Whether it can."""
        try:
            _counters.of(self._calls)
        except FAULTS as error:
            self._begin_rest(error)
            self._refuse(error)
            return False
        return True

    def _begin_rest(self, error):
        # What could not be begun (nobody may trace) is not tried again by each request, which would wait for it. A companion that has ended is replaced at once.
        if type(error) is not Lost:
            self._rest = min(max(2 * self._rest, FIRST_REST), LONGEST_REST)
            self._rests_until = time.monotonic() + self._rest

    def _rests(self):
        return self._rest > 0 and time.monotonic() < self._rests_until

    def ended(self, trace, always):
        """Ends a trace and tells it; with `always` however long it took."""
        if self.is_to_be_told(trace, always):
            self.tell(trace)

    def is_to_be_told(self, trace, always):
        """Ends a trace; whether it took long enough, or is told `always`."""
        try:
            trace.end()
        except TimeoutError:
            raise
        except FAULTS as error:
            self._refuse(error)
            return False
        return always or trace.seconds >= self._threshold

    def tell(self, trace):
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

    def figures(self, trace):
        """What is told of a trace in a header; None if it cannot be."""
        try:
            return trace.figures
        except TimeoutError:
            raise
        except FAULTS as error:
            self._refuse(error)
            return None

    def _apart(self, tell, what):
        # What the program does to tell a trace may fail in any way.
        try:
            tell(what)
        except Exception as error:  # noqa: BLE001
            self._refuse(error)

    def _refuse(self, error):
        # Each reason is said once, until another one comes.
        self.refused = str(error)
        if self._said != self.refused:
            self._said = self.refused
            try:
                self._write(f"lancet: not traced: {error}")
            except Exception:  # noqa: BLE001, S110
                # Not even that can be written: nobody is told.
                pass

    def _write(self, line):
        log = sys.stderr if self._log is STANDARD_ERROR else self._log
        if hasattr(log, "info"):
            log.info("%s", line)
        elif log is not None:
            print(line, file=log)
