"""Traces some of many requests, and tells of those that took long. What goes wrong with a trace is said once, and the request is served all the same."""

import hashlib
import hmac
import random
import sys
import time

from ._error import Error
from ._trace import Trace

# What may go wrong within this package, at the beginning or the end of a trace. Not every Exception: one that the program has raised meanwhile by a handler of
# a signal, as a time limit of its own does, is the program's (and so is a TimeoutError, which is an OSError).
FAULTS = (Error, OSError, ValueError, LookupError, TypeError, AttributeError, ImportError)


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

    def __init__(self, sample=0.01, threshold=0, secret=None, calls=True, log=sys.stderr, file=None, told=None):
        if not 0 <= sample <= 1:
            raise ValueError("sample is a part of all requests, from 0 to 1")
        if secret == "":
            raise ValueError("an empty secret is none")
        self._sample, self._threshold, self._secret, self._calls = sample, threshold, secret, calls
        self._log, self._file, self._told = log, file, told
        self._refused = None

    def asks(self, value, method, path):
        """Whether a request asks for its trace, by the value of its header or None."""
        return self._secret is not None and value is not None and is_signed(self._secret, value, method, path)

    def is_chosen(self):
        """Whether the next request is to be traced."""
        return self._sample > 0 and (self._sample >= 1 or random.random() < self._sample)

    def begun(self, method, path):
        """A trace of a request that has begun, or None if it cannot be."""
        trace = Trace(self._calls, {"method": method, "path": path})
        try:
            trace.begin()
        except TimeoutError:
            raise
        except FAULTS as error:
            self._refuse(error)
            return None
        return trace

    def ended(self, trace, always):
        """Ends a trace and tells it; with `always` however long it took."""
        try:
            trace.end()
            if always or trace.seconds >= self._threshold:
                self._tell(trace)
        except Exception as error:  # noqa: BLE001
            self._refuse(error)

    def _tell(self, trace):
        if self._log is not None:
            self._write(str(trace))
        if self._file is not None:
            trace.append_to(self._file)
        if self._told is not None:
            self._told(trace)

    def _refuse(self, error):
        # Each reason is said once, until another one comes.
        if self._refused != str(error):
            self._refused = str(error)
            try:
                self._write(f"lancet: not traced: {error}")
            except Exception:  # noqa: BLE001, S110
                # Not even that can be written: nobody is told.
                pass

    def _write(self, line):
        if hasattr(self._log, "info"):
            self._log.info("%s", line)
        elif self._log is not None:
            print(line, file=self._log)
