"""The lancet that has this process open, and the socket to it: docs/inside.md has the lines.

Each process has its own. It is started when it is first needed; a child of a fork starts another one.
"""

from __future__ import annotations

# Not `socket`, whose functions a library as gevent may have replaced.
import _socket
import contextlib
import os
import select
import subprocess
import threading
from json.decoder import JSONDecoder
from json.encoder import encode_basestring_ascii
from typing import Any, Callable, cast

from . import _permission, _program
from ._error import Error, Lost

PROTOCOL = 4
# Nothing is heard of it for longer only if it hangs: opening a process and leaving it are given up after 60 s, and of a command that takes longer it says so.
PATIENCE = 150
ENDED = (
    "lancet's companion has ended (was it killed?), and what it had seen is gone:"
    " the next call starts another one"
)
# A companion that was killed is an error of the request, and no SIGPIPE, which ends a program that has the system's own handling of it. A pipe has no such flag.
QUIET = _socket.MSG_NOSIGNAL
SILENT = f"lancet's companion has not answered for {PATIENCE} s and was given up: the next call starts another one"
HANDLER = "lancet is asked already by the code that this handler of a signal has interrupted: have a thread ask"
HERE = os.path.dirname(os.path.abspath(__file__))
# `json.loads` and `json.dumps` make objects at lines of their own, which `lancet.mem()` could not tell from the program's.
_decode: Callable[[str, int], tuple[Any, int]] = JSONDecoder().scan_once  # type: ignore[attr-defined]


def _read(line: bytes) -> Any:
    """The value of a line of JSON."""
    try:
        return _decode(line.decode(), 0)[0]
    except StopIteration as stopped:
        raise ValueError(f"no JSON at {stopped.value}") from None


def _written(value: Any) -> str:
    """A request as JSON: its words, numbers, lists, True, False and None."""
    if isinstance(value, dict):
        pairs = cast("dict[str, Any]", value).items()
        return "{" + ",".join([f"{encode_basestring_ascii(name)}:{_written(one)}" for name, one in pairs]) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join([_written(one) for one in cast("list[Any]", value)]) + "]"
    if isinstance(value, str):
        return encode_basestring_ascii(value)
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int):
        # An Enum or another subclass may write itself in another way.
        return int.__repr__(value)
    raise TypeError(f"{type(value).__name__} is no value of a request to lancet")


class _Silent(Lost):
    """The companion has not answered in time. The same is not asked for a second time."""


# A handler of a signal may come into the lock, which its thread has then: `_starting` tells it.
_lock = threading.RLock()
_current: Companion | None = None
_starting = False


def _after_fork() -> None:
    # Another thread of the parent's may have had the lock.
    global _lock, _current, _starting
    _lock = threading.RLock()
    _starting = False
    if _current is not None:
        _current.abandon()
        _current = None


os.register_at_fork(after_in_child=_after_fork)


def current() -> Companion:
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


def begin(**request: Any) -> tuple[Companion, Any, list[dict[str, Any]]]:
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

    def __init__(self) -> None:
        self.pid: int | None = None
        self._owner = os.getpid()
        self._lock = threading.RLock()
        self._is_asked = False
        self._pending = b""
        self._last = 0
        self._socket: _socket.socket | None = None
        try:
            self._start()
        except OSError as error:
            self.abandon()
            raise Error(f"lancet cannot be started: {error}") from error
        except BaseException:
            self.abandon()
            raise

    def is_over(self) -> bool:
        """Whether the companion is known to have ended, or is another process's."""
        return self._socket is None or self.is_forked()

    def is_forked(self) -> bool:
        """Whether the companion is a parent's, because this process is the child of a fork: it must not be asked."""
        return self._owner != os.getpid()

    def ask(self, **request: Any) -> tuple[Any, list[dict[str, Any]]]:
        """Asks for something; the result and the records.

        An exception that comes within (KeyboardInterrupt) ends the companion: nobody could tell any more what it has done.
        """
        # Before the lock, which in the child of a fork a thread of the parent's may have; and before anything is sent, what cannot be.
        self._check()
        asked = _written(request)[1:]
        with self._lock:
            self._check()
            if self._is_asked:
                raise Error(HANDLER)
            self._is_asked = True
            try:
                self._last += 1
                self._tell(f'{{"id":{self._last},{asked}\n')
                return self._answer()
            except Error:
                # The companion has answered that it cannot be done, so the next request may be sent; or it has ended.
                raise
            except BaseException:
                self.abandon()
                raise
            finally:
                self._is_asked = False

    def _check(self) -> _socket.socket:
        if self._socket is None or self.is_forked():
            raise Lost(ENDED)
        return self._socket

    def abandon(self) -> None:
        """Has the companion leave and end, and closes our end of the socket. Children of a fork may have it too, so that it would not hear of that; and a
        child only closes its own."""
        if self._socket is not None and not self.is_forked():
            with contextlib.suppress(OSError):
                # What stands before it in the socket may be a part of a request.
                self._socket.send(b'\n{"id":0,"do":"leave"}\n', QUIET | _socket.MSG_DONTWAIT)
        ours, self._socket = self._socket, None
        if ours is not None:
            with contextlib.suppress(OSError):
                ours.close()

    def _start(self) -> None:
        program = _program.path()
        words = [program, "companion", "--pid", str(os.getpid()), "--hide", HERE]
        ours, theirs = _socket.socketpair()
        self._socket = ours
        try:
            # The program may have set a time limit for all its sockets.
            ours.settimeout(None)
            theirs.settimeout(None)
            # It starts the companion, which is not our child, and ends.
            subprocess.run(words, stdin=theirs.fileno(), stdout=theirs.fileno(), check=False)
        finally:
            theirs.close()
        hello = self._hello(program)
        if hello["protocol"] != PROTOCOL:
            raise Error(
                f"lancet {hello['lancet']} speaks protocol {hello['protocol']}, and this package {PROTOCOL}:"
                " install the same version of both, or unset LANCET_BIN"
            )
        pid: int = hello["pid"]
        self.pid = pid
        _permission.give(pid)

    def _hello(self, program: str) -> dict[str, Any]:
        """The companion's first line."""
        try:
            hello: Any = _read(self._line())
        except Lost:
            raise Error(f"{program} has not answered: is it a lancet, and not one of another machine?") from None
        except ValueError:
            hello = None
        if isinstance(hello, dict):
            told = cast("dict[str, Any]", hello)
            if isinstance(told.get("protocol"), int) and isinstance(told.get("pid"), int):
                return told
        raise Error(f"the first line that {program} writes is no companion's: is it a lancet, or a script that writes something before?")

    def _tell(self, line: str) -> None:
        text = line.encode()
        try:
            while text:
                text = text[self._check().send(text, QUIET) :]
        except OSError:
            # It has ended, or the program has closed what is not its own.
            self.abandon()
            raise Lost(ENDED) from None

    def _answer(self) -> tuple[Any, list[dict[str, Any]]]:
        records: list[dict[str, Any]] = []
        while True:
            answer = _read(self._line())
            known = answer.get("id")
            if known != self._last and (known or "error" not in answer):
                continue
            # An error without our number is about a line that it could not read, and the only one that waits is ours.
            if "ok" in answer:
                return answer["ok"], records
            if "error" in answer:
                raise Error(answer["error"])
            if "gone" in answer:
                raise Lost(answer["gone"])
            records.append(answer["record"])

    def _line(self) -> bytes:
        pieces = [self._pending]
        # Not `select`, which knows no descriptor beyond 1,023.
        ours = self._check()
        wanted = select.poll()
        wanted.register(ours.fileno(), select.POLLIN)
        while b"\n" not in pieces[-1]:
            if not wanted.poll(PATIENCE * 1000):
                self.abandon()
                raise _Silent(SILENT)
            try:
                piece = ours.recv(65536)
            except OSError:
                # The program has closed what is not its own.
                piece = b""
            if not piece:
                self.abandon()
                raise Lost(ENDED)
            pieces.append(piece)
        line, _, self._pending = b"".join(pieces).partition(b"\n")
        return line
