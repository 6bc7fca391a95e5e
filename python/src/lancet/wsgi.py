"""Middleware for WSGI that traces requests: some of them at random, or one that asks for it by a signed header.

    app = lancet.wsgi.Middleware(app, sample=0.01, threshold=0.5)

README.md has the options. The body is in the trace as far as this thread makes it, until the server closes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Callable

from ._signature import signature
from ._trace import Trace
from ._tracer import Options, Tracer

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment
    from typing_extensions import Unpack

__all__ = ["Middleware", "signature"]

HEADER = "HTTP_X_LANCET_TRACE"
ANSWER = "x-lancet-trace"


class Middleware:
    """A WSGI application that hands every request to `app` and traces those that were chosen or ask for it; `options` are those of
    the tracer."""

    def __init__(self, app: WSGIApplication, **options: Unpack[Options]) -> None:
        self._app = app
        self._tracer = Tracer(**options)

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        begun = self._tracer.border(self._begun, environ)
        if begun is None:
            return self._app(environ, start_response)
        trace, asked = begun
        figures = (lambda: self._tracer.border(self._figures, trace)) if asked else None
        start = _Start(start_response, figures)
        try:
            body = self._app(environ, start)
        except BaseException:
            self._tracer.ended(trace, asked)
            raise
        start.send()
        self._tracer.border(trace.pause)
        return _Body(body, start, (self._tracer, trace), lambda: self._tracer.ended(trace, asked))

    def _figures(self, trace: Trace) -> str | None:
        return self._tracer.figures(trace.as_of_now())

    def _begun(self, environ: WSGIEnvironment) -> tuple[Trace, bool] | None:
        """The trace of a request, if it is traced, and whether it has asked for that."""
        asked = HEADER in environ and self._tracer.asks(environ[HEADER], _signed(environ))
        if not asked and not self._tracer.is_chosen():
            return None
        trace = self._tracer.begun(environ.get("REQUEST_METHOD", ""), _path(environ).decode("utf-8", "replace"))
        return None if trace is None else (trace, asked)


def _path(environ: WSGIEnvironment) -> bytes:
    # WSGI hands bytes over as Latin-1 (PEP 3333), and they need not be UTF-8.
    path: str = environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", "")
    return path.encode("latin-1", "replace")


def _signed(environ: WSGIEnvironment) -> tuple[str, str, str]:
    """Method, path and query."""
    query = environ.get("QUERY_STRING", "").encode("latin-1", "replace")
    return environ.get("REQUEST_METHOD", ""), _path(environ).decode("utf-8", "surrogateescape"), query.decode("utf-8", "surrogateescape")


class _Start:
    """`start_response`. Where the trace was asked for, the headers wait for its figures: until the application has
    returned, or, if it answers only then, until the first part of the body is there."""

    def __init__(self, start_response: StartResponse, figures: Callable[[], str | None] | None) -> None:
        self._start, self._figures = start_response, figures
        self._held: tuple[str, list[tuple[str, str]], Any] | None = None
        self._writes: Callable[[bytes], object] | None = None

    def __call__(self, status: str, headers: list[tuple[str, str]], exc_info: Any = None, /) -> Callable[[bytes], object]:
        if self._figures is None:
            return self._start(status, headers, *([exc_info] if exc_info else []))
        self._held = (status, headers, exc_info)
        return self._write

    def _write(self, data: bytes) -> object:
        self.send()
        return None if self._writes is None else self._writes(data)

    def send(self) -> None:
        """Hands the headers on, if they wait."""
        if self._held is None:
            return
        status, headers, exc_info = self._held
        self._held = None
        figures, self._figures = self._figures, None
        told = figures() if figures is not None else None
        if told is not None:
            headers = [*headers, (ANSWER, told)]
        self._writes = self._start(status, headers, *([exc_info] if exc_info else []))


class _Body:
    """The body: what is done to make its parts is of the trace, and what the server does between them is not."""

    def __init__(self, body: Iterable[bytes], start: _Start, traced: tuple[Tracer, Trace], ended: Callable[[], None]) -> None:
        self._body, self._start, self._ended = body, start, ended
        self._tracer, self._trace = traced
        self._parts: Iterator[bytes] | None = None

    def __len__(self) -> int:
        # A server takes the length of the only part as that of the body.
        return len(self._body)  # type: ignore[arg-type]

    def __bool__(self) -> bool:
        # A body that has no length, as a generator, is one all the same.
        return True

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        self._tracer.border(self._trace.resume)
        try:
            if self._parts is None:
                self._parts = iter(self._body)
            try:
                return next(self._parts)
            finally:
                self._start.send()
        finally:
            self._tracer.border(self._trace.pause)

    def close(self) -> None:
        """The server has had enough."""
        try:
            close: Callable[[], object] | None = getattr(self._body, "close", None)
            if close is not None:
                self._tracer.border(self._trace.resume)
                close()
        finally:
            self._ended()
