"""Middleware for ASGI that traces requests: some of them at random, or one that asks for it by a signed header.

    app = lancet.asgi.Middleware(app, sample=0.01, threshold=0.5)

README.md has the options. Requests of one thread run in turns, a step of one after a step of another, so a trace counts the steps
of its own request: what the application's coroutine does itself and awaits. What it has tasks or threads of their own do is not in it. `Page` shows the last requests beside that.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Generator, MutableMapping
from typing import TYPE_CHECKING, Any, Callable, TypeVar

from . import _page
from ._signature import signature
from ._trace import Trace
from ._tracer import Options, Tracer

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["Middleware", "Page", "signature"]

HEADER = b"x-lancet-trace"

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]
T = TypeVar("T")


class Middleware:
    """An ASGI application that hands every request to `app` and traces those that were chosen or ask for it; `options` are those of
    the tracer."""

    def __init__(self, app: Application, **options: Unpack[Options]) -> None:
        self._app = app
        self._tracer = Tracer(**options)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        chosen = self._tracer.border(self._chosen, scope)
        begun = None if chosen is None else await begin(self._tracer, *chosen)
        if chosen is None or begun is None:
            return await self._app(scope, receive, send)
        trace, asked = begun, chosen[2] is not None

        async def sends(message: MutableMapping[str, Any]) -> None:
            if asked and message["type"] == "http.response.start":
                figures = await figures_of_now(self._tracer, trace)
                if figures is not None:
                    message = self._tracer.border(_with_figures, message, figures) or message
            await send(message)

        async def answered() -> None:
            # Within the trace also where it raises at once, as a plain function that returns a coroutine may.
            try:
                await self._app(scope, receive, sends)
            finally:
                trace.route = self._tracer.border(_route, scope)

        return await traced(answered(), (self._tracer, trace), asked)

    def asks(self, scope: Scope) -> str | None:
        """The value of its header by which a request asks, which it may once; None if it does not."""
        value = next((value for name, value in scope.get("headers", ()) if name == HEADER), None)
        asked = None if value is None else value.decode("latin-1")
        is_asked = asked is not None and self._tracer.asks(asked, (scope["method"], scope["path"], _query(scope)))
        return asked if is_asked else None

    @property
    def tracer(self) -> Tracer:
        """What traces."""
        return self._tracer

    def _chosen(self, scope: Scope) -> tuple[str, str, str | None] | None:
        """Method and path of a request that is traced, and the value by which it has asked for that, if it has; None if it is not traced."""
        method, path = scope["method"], scope["path"]
        asked = self.asks(scope)
        if asked is None and not self._tracer.is_chosen():
            return None
        return method, path.encode("utf-8", "replace").decode("utf-8"), asked


class Page:
    """The middleware with a page of the last requests, as `lancet.wsgi.Page`."""

    def __init__(self, app: Application, path: str = "/lancet", signed: bool = False, root: str | os.PathLike[str] | None = None, **options: Unpack[Options]) -> None:
        self._app = app
        self._page = _page.Page(path, signed, root, options)
        self._traced = Middleware(app, **self._page.options)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not self._page.is_at(scope["method"], scope["path"]):
            return await self._traced(scope, receive, send)
        if self._page.signed and self._traced.tracer.border(self._traced.asks, scope) is None:
            # As if there were no page.
            return await self._app(scope, receive, send)
        body = await aside(self._page.html, self._traced.tracer)
        headers = [*_page.HEADERS, ("content-length", str(len(body)))]
        await send({"type": "http.response.start", "status": 200, "headers": [(name.encode(), value.encode()) for name, value in headers]})
        await send({"type": "http.response.body", "body": body})


def _route(scope: Scope) -> str | None:
    """What Starlette and FastAPI call that which has answered a request; None where they do not say."""
    path = getattr(scope.get("route"), "path", None)
    return None if path is None else f"{scope['method']} {path}"


def _query(scope: Scope) -> str:
    query: bytes = scope.get("query_string", b"")
    return query.decode("utf-8", "surrogateescape")


async def begin(tracer: Tracer, method: str, path: str, value: str | None) -> Trace | None:
    """A trace of a request that has begun and is paused, or None if it cannot be. A value with which the request has asked for that is then good once more."""
    if not (tracer.is_prepared() or await aside(tracer.prepare)):
        tracer.give_back(value)
        return None
    trace = tracer.border(tracer.begun, method, path, value)
    if trace is not None:
        tracer.border(trace.pause)
    return trace


async def figures_of_now(tracer: Tracer, trace: Trace) -> str | None:
    """What is told in a header of a trace that goes on; None if it cannot be."""
    now = tracer.border(trace.as_of_now)
    return None if now is None else await aside(tracer.figures, now)


async def traced(coroutine: Awaitable[T], begun: tuple[Tracer, Trace], asked: bool) -> T:
    """Does what a coroutine does, its steps of this trace, and ends and tells that."""
    tracer, trace = begun
    try:
        answer = await _Steps(coroutine, begun)
    except BaseException:
        # Nothing is waited for that may not be: the coroutine may be closed.
        tracer.ended(trace, asked)
        raise
    if tracer.is_to_be_told(trace, asked):
        await aside(tracer.tell, trace)
    return answer


def _with_figures(message: MutableMapping[str, Any], figures: str) -> MutableMapping[str, Any]:
    return {**message, "headers": [*message.get("headers", []), (HEADER, figures.encode("ascii", "replace"))]}


async def aside(work: Callable[..., T], *arguments: Any) -> T:
    """Has a thread of the event loop's do what may wait for the companion, so that other requests go on; where the loop is none of asyncio's, does it here."""
    try:
        done = asyncio.get_running_loop().run_in_executor(None, work, *arguments)
    except RuntimeError:
        # There is no such loop, or its threads are ended, or no thread can be made.
        return work(*arguments)
    return await done


class _Steps(Awaitable[T]):
    """A coroutine whose steps are of a trace."""

    def __init__(self, coroutine: Awaitable[T], begun: tuple[Tracer, Trace]) -> None:
        self._coroutine = coroutine
        self._tracer, self._trace = begun

    def __await__(self) -> Generator[Any, Any, T]:
        steps = self._coroutine.__await__()
        step: Callable[[Any], Any] = steps.send
        value: Any = None
        while True:
            self._tracer.border(self._trace.resume)
            try:
                awaited = step(value)
            except StopIteration as done:
                answer: T = done.value
                return answer
            finally:
                self._tracer.border(self._trace.pause)
            try:
                step, value = steps.send, (yield awaited)
            except GeneratorExit:
                steps.close()
                raise
            except BaseException as error:  # noqa: BLE001
                step, value = steps.throw, error
