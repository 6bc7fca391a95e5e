"""The lancet that has this process open, and the two pipes to it: docs/inside.md has the lines.

Each process has its own. It is started when it is first needed; a child of a fork starts another one.
"""

import contextlib
import json
import os
import select
import subprocess
import threading

from . import _permission, _program
from ._error import Error, Lost

PROTOCOL = 3
# Nothing is heard of it for longer only if it hangs: opening a process and leaving it are given up after 60 s, and of a command that takes longer it says so.
PATIENCE = 150
ENDED = (
    "lancet's companion has ended (was it killed?), and what it had seen is gone:"
    " the next call starts another one"
)
SILENT = f"lancet's companion has not answered for {PATIENCE} s and was given up: the next call starts another one"
HANDLER = "lancet is asked already by the code that this handler of a signal has interrupted: have a thread ask"
HERE = os.path.dirname(os.path.abspath(__file__))


class _Silent(Lost):
    """The companion has not answered in time. The same is not asked for a second time."""


# A handler of a signal may come into the lock, which its thread has then: `_starting` tells it.
_lock = threading.RLock()
_current = None
_starting = False


def _after_fork():
    # Another thread of the parent's may have had the lock.
    global _lock, _current, _starting
    _lock = threading.RLock()
    _starting = False
    if _current is not None:
        _current.abandon()
        _current = None


os.register_at_fork(after_in_child=_after_fork)


def current():
    """Returns the companion of this process, and starts one if it has none or its companion has ended."""
    global _current, _starting
    with _lock:
        if _starting:
            raise Error(HANDLER)
        if _current is None or _current.is_over():
            _starting = True
            try:
                _current = Companion()
            finally:
                _starting = False
        return _current


def begin(**request):
    """Asks for something that depends on nothing before. A companion that was killed unnoticed is replaced. Returns the
    companion, the result and the records."""
    companion = current()
    try:
        return (companion, *companion.ask(**request))
    except _Silent:
        # It may still be at work.
        raise
    except Lost:
        companion = current()
        return (companion, *companion.ask(**request))


class Companion:
    """The connection of one process to its companion. Requests of several threads wait for each other; when the companion has
    ended it is used no more, and `current` starts another one."""

    def __init__(self):
        self.pid = None
        self._owner = os.getpid()
        self._lock = threading.RLock()
        self._is_asked = False
        self._pending = b""
        self._last = 0
        self._to = self._from = None
        try:
            self._start()
        except OSError as error:
            self.abandon()
            raise Error(f"lancet cannot be started: {error}") from error
        except BaseException:
            self.abandon()
            raise

    def is_over(self):
        """Whether the companion is known to have ended, or is another process's."""
        return self._to is None or self.is_forked()

    def is_forked(self):
        """Whether the companion is a parent's, because this process is the child of a fork: it must not be asked."""
        return self._owner != os.getpid()

    def ask(self, **request):
        """Asks for something; the result and the records.

        An exception that comes within (KeyboardInterrupt) ends the companion: nobody could tell any more what it has done.
        """
        # Before the lock, which in the child of a fork a thread of the parent's may have.
        self._check()
        with self._lock:
            self._check()
            if self._is_asked:
                raise Error(HANDLER)
            self._is_asked = True
            try:
                self._last += 1
                self._tell({"id": self._last, **request})
                return self._answer()
            except Error:
                # The companion has answered that it cannot be done, so the next request may be sent; or it has ended.
                raise
            except BaseException:
                self.abandon()
                raise
            finally:
                self._is_asked = False

    def _check(self):
        if self.is_over():
            raise Lost(ENDED)

    def abandon(self):
        """Has the companion leave and end, and closes our ends of the pipes. Children of a fork may have them too, so that it would not hear of that; and a
        child only closes its own."""
        if not self.is_over():
            with contextlib.suppress(OSError):
                os.set_blocking(self._to, False)
                # What stands before it in the pipe may be a part of a request.
                os.write(self._to, b'\n{"id":0,"do":"leave"}\n')
        ends, self._to, self._from = (self._to, self._from), None, None
        for end in ends:
            if end is not None:
                with contextlib.suppress(OSError):
                    os.close(end)

    def _start(self):
        program = _program.path()
        words = [program, "companion", "--pid", str(os.getpid()), "--hide", HERE]
        theirs = answers = None
        try:
            theirs, self._to = os.pipe()
            self._from, answers = os.pipe()
            # It starts the companion, which is not our child, and ends.
            subprocess.run(words, stdin=theirs, stdout=answers, check=False)
        finally:
            for end in (theirs, answers):
                if end is not None:
                    os.close(end)
        hello = self._hello(program)
        if hello["protocol"] != PROTOCOL:
            raise Error(
                f"lancet {hello['lancet']} speaks protocol {hello['protocol']}, and this package {PROTOCOL}:"
                " install the same version of both, or unset LANCET_BIN"
            )
        self.pid = hello["pid"]
        _permission.give(self.pid)

    def _hello(self, program):
        """The companion's first line."""
        try:
            hello = json.loads(self._line())
        except Lost:
            raise Error(f"{program} has not answered: is it a lancet, and not one of another machine?") from None
        except ValueError:
            hello = None
        if not isinstance(hello, dict) or not isinstance(hello.get("protocol"), int) or not isinstance(hello.get("pid"), int):
            raise Error(
                f"the first line that {program} writes is no companion's: is it a lancet, or a script that writes something before?"
            )
        return hello

    def _tell(self, request):
        text = json.dumps(request).encode() + b"\n"
        try:
            while text:
                text = text[os.write(self._to, text) :]
        except OSError:
            # It has ended, or the program has closed what is not its own.
            self.abandon()
            raise Lost(ENDED) from None

    def _answer(self):
        records = []
        while True:
            answer = json.loads(self._line())
            if answer["id"] != self._last:
                continue
            if "ok" in answer:
                return answer["ok"], records
            if "error" in answer:
                raise Error(answer["error"])
            if "gone" in answer:
                raise Lost(answer["gone"])
            records.append(answer["record"])

    def _line(self):
        pieces = [self._pending]
        # Not `select`, which knows no descriptor beyond 1,023.
        wanted = select.poll()
        wanted.register(self._from, select.POLLIN)
        while b"\n" not in pieces[-1]:
            if not wanted.poll(PATIENCE * 1000):
                self.abandon()
                raise _Silent(SILENT)
            try:
                piece = os.read(self._from, 65536)
            except OSError:
                # The program has closed what is not its own.
                piece = b""
            if not piece:
                self.abandon()
                raise Lost(ENDED)
            pieces.append(piece)
        line, _, self._pending = b"".join(pieces).partition(b"\n")
        return line
