"""Middleware for WSGI that traces requests: some of them at random, or one that asks for it by a signed header.

    app = lancet.wsgi.Middleware(app, sample=0.01, threshold=0.5)

README.md has the options. The body is in the trace as far as this thread makes it, until the server closes it. `Page` shows the last requests beside that.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Callable

from . import _page
from ._signature import signature
from ._trace import Trace
from ._tracer import Options, Tracer

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment
    from typing_extensions import Unpack

__all__ = ["Middleware", "Page", "signature"]

HEADER = "HTTP_X_LANCET_TRACE"
ANSWER = "x-lancet-trace"


class Middleware:
    """A WSGI application that hands every request to `app` and traces those that were chosen or ask for it; `options` are those of
    the tracer."""

    def __init__(self, app: WSGIApplication, **options: Unpack[Options]) -> None:
        self._app = app
        self._tracer = Tracer(**options)

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        # Most requests get no further, so this is all that they pay.
        is_chosen = self._tracer.is_chosen()
        begun = self._tracer.border(self._begun, environ, is_chosen) if is_chosen or HEADER in environ else None
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
        trace.route = self._tracer.border(_route, environ)
        self._tracer.border(trace.pause)
        return _Body(body, start, (self._tracer, trace), lambda: self._tracer.ended(trace, asked))

    def asks(self, environ: WSGIEnvironment) -> bool:
        """Whether a request asks by its header, by which it may ask once."""
        return HEADER in environ and self._tracer.asks(environ[HEADER], _signed(environ))

    @property
    def tracer(self) -> Tracer:
        """What traces."""
        return self._tracer

    def _figures(self, trace: Trace) -> str | None:
        return self._tracer.figures(trace.as_of_now())

    def _begun(self, environ: WSGIEnvironment, is_chosen: bool) -> tuple[Trace, bool] | None:
        """The trace of a request, if it is traced, and whether it has asked for that."""
        asked = self.asks(environ)
        if not asked and not is_chosen:
            return None
        value = environ[HEADER] if asked else None
        trace = self._tracer.begun(environ.get("REQUEST_METHOD", ""), _path(environ).decode("utf-8", "replace"), value)
        return None if trace is None else (trace, asked)


class Page:
    """The middleware with a page of the last requests at `path`, for development: whoever can reach it sees the paths that others have asked for. With
    `signed` only a request with a header of `signature` is traced (and the part `sample` of all others), and the page is shown to nobody else either.
    `root` is the folder of the application, to which paths are told in relation."""

    def __init__(
        self, app: WSGIApplication, path: str = "/lancet", signed: bool = False, root: str | os.PathLike[str] | None = None, **options: Unpack[Options]
    ) -> None:
        self._app = app
        self._page = _page.Page(path, signed, root, options)
        self._traced = Middleware(app, **self._page.options)

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        if not self._page.is_at(environ.get("REQUEST_METHOD", ""), environ.get("PATH_INFO", "")):
            return self._traced(environ, start_response)
        if self._page.signed and not self._traced.tracer.border(self._traced.asks, environ):
            # As if there were no page.
            return self._app(environ, start_response)
        body = self._page.html(self._traced.tracer)
        start_response("200 OK", [*_page.HEADERS, ("content-length", str(len(body)))])
        return [body]


def _route(environ: WSGIEnvironment) -> str | None:
    """What Flask calls that which has answered a request; None where it does not say."""
    rule = getattr(getattr(environ.get("werkzeug.request"), "url_rule", None), "rule", None)
    return None if rule is None else f"{environ.get('REQUEST_METHOD', '')} {rule}"


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
