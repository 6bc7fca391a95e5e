"""Middleware for Django that traces requests: some of them at random, or one that asks for it by a signed header.

    MIDDLEWARE = ["lancet.django.Middleware", ...]
    LANCET = {"sample": 0.01, "threshold": 0.5}

README.md has the settings; with `"page": True` the last requests are shown at `/lancet`. What stands below it in MIDDLEWARE, and the view, is in the trace; parts
of a streamed body that are made later are not.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Awaitable
from typing import Any, Callable, cast

from . import _page
from ._signature import signature
from ._trace import Trace
from ._tracer import Options, Tracer
from .asgi import aside, begin, figures_of_now, traced

__all__ = ["Middleware", "signature"]

HEADER = "HTTP_X_LANCET_TRACE"
ANSWER = "x-lancet-trace"
SHARED = "what its synchronous code has done is not counted: it runs on a thread with that of other requests (Django before 4.0)"
GIVEN_UP = "what its synchronous code has done is not counted: the request was given up, or has failed"
ELSEWHERE = "what its asynchronous view has done is not counted: a middleware below is synchronous, so it runs on another thread"

# Django has no hints.
_conf: Any = importlib.import_module("django.conf")
_exceptions: Any = importlib.import_module("django.core.exceptions")
_http: Any = importlib.import_module("django.http")
_sync: Any = importlib.import_module("asgiref.sync")


class Middleware:
    """Traces requests as the setting LANCET says, a dict of the tracer's options."""

    sync_capable = True
    async_capable = True

    def __init__(self, get_response: Callable[[Any], Any]) -> None:
        self._get_response = get_response
        self._page, self._tracer = _made(getattr(_conf.settings, "LANCET", {}))
        self._is_async = bool(_sync.iscoroutinefunction(get_response))
        if self._is_async:
            _sync.markcoroutinefunction(self)

    def __call__(self, request: Any) -> Any | Awaitable[Any]:
        if self._page is not None and self._page.is_at(request.method, request.path_info) and self._shows(self._page, request):
            return self._shown_later(self._page) if self._is_async else _shown(self._page.html(self._tracer))
        return self._answered_later(request) if self._is_async else self._answered(request)

    def _shows(self, page: _page.Page, request: Any) -> bool:
        """Whether this request is shown the page; to others there is none."""
        return not page.signed or self._tracer.border(self._asked, request) is not None

    async def _shown_later(self, page: _page.Page) -> Any:
        return _shown(await aside(page.html, self._tracer))

    def _answered(self, request: Any) -> Any:
        chosen = self._tracer.border(self._chosen, request)
        trace = None if chosen is None else self._tracer.border(self._tracer.begun, *chosen)
        if chosen is None or trace is None:
            return self._get_response(request)
        asked = chosen[2] is not None
        try:
            response = self._get_response(request)
        except BaseException:
            self._tracer.border(_note, trace, request)
            self._tracer.ended(trace, asked)
            raise
        self._tracer.border(_note, trace, request)
        is_told = self._tracer.is_to_be_told(trace, asked)
        if asked:
            self._tracer.border(_add, response, self._tracer.figures(trace))
        if is_told:
            self._tracer.tell(trace)
        return response

    async def _answered_later(self, request: Any) -> Any:
        chosen = self._tracer.border(self._chosen, request)
        begun = None if chosen is None else await begin(self._tracer, *chosen)
        if chosen is None or begun is None:
            return await self._get_response(request)
        trace, asked = begun, chosen[2] is not None

        async def answered() -> Any:
            end = await self._on_its_thread(trace, trace.beside)
            try:
                response = await self._get_response(request)
            except BaseException:
                # Its thread cannot be waited for: the coroutine may be closed.
                if end is not None:
                    trace.lose(GIVEN_UP)
                raise
            if end is not None:
                await self._on_its_thread(trace, end)
            self._tracer.border(_name, trace, request)
            if asked:
                self._tracer.border(_add, response, await figures_of_now(self._tracer, trace))
            return response

        return await traced(answered(), (self._tracer, trace), asked)

    async def _on_its_thread(self, trace: Trace, work: Callable[[], Any]) -> Any:
        """Does it on the thread that runs the synchronous code of this request, and that of no other one; None where there is no such thread."""
        if not _has_thread():
            trace.lose(SHARED)
            return None
        try:
            return await _sync.sync_to_async(self._tracer.border, thread_sensitive=True)(work)
        except RuntimeError as error:
            # The thread is ended, or none can be made.
            trace.lose(f"what its synchronous code has done is not counted: {error}")
            return None

    def _chosen(self, request: Any) -> tuple[str, str, str | None] | None:
        """Method and path of a request that is traced, and the value by which it has asked for that, if it has; None if it is not traced."""
        asked = self._asked(request)
        if asked is None and not self._tracer.is_chosen():
            return None
        return request.method, request.path, asked

    def _asked(self, request: Any) -> str | None:
        """The value by which a request has asked for its trace, which it may once; None if it has not."""
        asked: str | None = request.META.get(HEADER)
        is_asked = asked is not None and self._tracer.asks(asked, (request.method, request.path, _query(request)))
        return asked if is_asked else None


def _made(settings: Any) -> tuple[_page.Page | None, Tracer]:
    """The page, if the settings have one, and the tracer. Where the application is not in development (DEBUG), the page is for who signs."""
    try:
        options = {**settings}
        path, root = options.pop("page", False), options.pop("root", getattr(_conf.settings, "BASE_DIR", None))
        signed = options.pop("signed", not _conf.settings.DEBUG)
        if not path:
            return None, Tracer(**options)
        page = _page.Page("/lancet" if path is True else path, signed, root, cast(Options, options))
        return page, Tracer(**page.options)
    except (TypeError, ValueError) as error:
        raise _exceptions.ImproperlyConfigured(f"the setting LANCET: {error}") from error


def _query(request: Any) -> str:
    query: str = request.META.get("QUERY_STRING", "")
    if hasattr(request, "environ"):
        # WSGI hands bytes over as Latin-1 (PEP 3333).
        return query.encode("latin-1", "replace").decode("utf-8", "surrogateescape")
    return query


def _shown(body: bytes) -> Any:
    response = _http.HttpResponse(body)
    for name, value in _page.HEADERS:
        response[name] = value
    return response


def _note(trace: Trace, request: Any) -> None:
    _lose_asynchronous(trace, request)
    _name(trace, request)


def _name(trace: Trace, request: Any) -> None:
    """What Django calls that which has answered a request."""
    route = getattr(getattr(request, "resolver_match", None), "route", None)
    if route is not None:
        trace.route = f"{request.method} /{route.lstrip('^')}"


def _lose_asynchronous(trace: Trace, request: Any) -> None:
    """Says it where an asynchronous view was run on another thread than this one: under ASGI, that of the event loop."""
    view = getattr(getattr(request, "resolver_match", None), "func", None)
    if not hasattr(request, "environ") and _sync.iscoroutinefunction(view):
        trace.lose(ELSEWHERE)


def _add(response: Any, figures: str | None) -> None:
    if figures is not None:
        response[ANSWER] = figures


def _has_thread() -> bool:
    """Whether the request that is served has a thread of its own for synchronous code."""
    with contextlib.suppress(AttributeError):
        return _sync.SyncToAsync.thread_sensitive_context.get(None) is not None
    return False
