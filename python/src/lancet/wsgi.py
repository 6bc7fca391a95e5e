"""Middleware for WSGI that traces requests: some of them at random, or one that asks for it by a signed header.

    app = lancet.wsgi.Middleware(app, sample=0.01, threshold=0.5)

README.md has the options. The body is in the trace as far as this thread makes it, until the server closes it.
"""

from ._tracer import Tracer, signature

__all__ = ["Middleware", "signature"]

HEADER = "HTTP_X_LANCET_TRACE"
ANSWER = "x-lancet-trace"


class Middleware:
    """A WSGI application that hands every request to `app` and traces those that were chosen or ask for it; `options` are those of
    the tracer."""

    def __init__(self, app, **options):
        self._app = app
        self._tracer = Tracer(**options)

    def __call__(self, environ, start_response):
        trace, asked = self._tracer.border(self._begun, environ) or (None, False)
        if trace is None:
            return self._app(environ, start_response)
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

    def _figures(self, trace):
        return self._tracer.figures(trace.as_of_now())

    def _begun(self, environ):
        """The trace of a request, if it is traced, and whether it has asked for that."""
        method = environ.get("REQUEST_METHOD", "")
        # WSGI hands bytes over as Latin-1 (PEP 3333), and they need not be UTF-8.
        raw = (environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", "")).encode("latin-1", "replace")
        asked = self._tracer.asks(environ.get(HEADER), method, raw.decode("utf-8", "surrogateescape"))
        if not asked and not self._tracer.is_chosen():
            return None
        return self._tracer.begun(method, raw.decode("utf-8", "replace")), asked


class _Start:
    """`start_response`. Where the trace was asked for, the headers wait for its figures: until the application has
    returned, or, if it answers only then, until the first part of the body is there."""

    def __init__(self, start_response, figures):
        self._start, self._figures = start_response, figures
        self._held = None

    def __call__(self, status, headers, exc_info=None):
        if self._figures is None:
            return self._start(status, headers, *([exc_info] if exc_info else []))
        self._held = (status, headers, exc_info)
        return self._write

    def _write(self, data):
        self.send()
        return self._writes(data)

    def send(self):
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

    def __init__(self, body, start, traced, ended):
        self._body, self._start, self._ended = body, start, ended
        self._tracer, self._trace = traced
        self._parts = None

    def __len__(self):
        # A server takes the length of the only part as that of the body.
        return len(self._body)

    def __bool__(self):
        # A body that has no length, as a generator, is one all the same.
        return True

    def __iter__(self):
        return self

    def __next__(self):
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

    def close(self):
        """The server has had enough."""
        try:
            if hasattr(self._body, "close"):
                self._tracer.border(self._trace.resume)
                self._body.close()
        finally:
            self._ended()
