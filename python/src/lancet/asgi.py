"""Middleware for ASGI that traces requests: some of them at random, or one that asks for it by a signed header.

    app = lancet.asgi.Middleware(app, sample=0.01, threshold=0.5)

README.md has the options. Requests of one thread run in turns, a step of one after a step of another, so a trace counts the steps
of its own request: what the application's coroutine does itself and awaits. What it has tasks or threads of their own do is not in it.
"""

from ._tracer import Tracer, signature

__all__ = ["Middleware", "signature"]

HEADER = b"x-lancet-trace"


class Middleware:
    """An ASGI application that hands every request to `app` and traces those that were chosen or ask for it; `options` are those of
    the tracer."""

    def __init__(self, app, **options):
        self._app = app
        self._tracer = Tracer(**options)

    async def __call__(self, scope, receive, send):
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        method, path = scope["method"], scope["path"]
        value = next((value for name, value in scope["headers"] if name == HEADER), None)
        asked = self._tracer.asks(None if value is None else value.decode("latin-1"), method, path)
        if not asked and not self._tracer.is_chosen():
            return await self._app(scope, receive, send)
        trace = self._tracer.begun(method, path)
        if trace is None:
            return await self._app(scope, receive, send)
        trace.pause()

        async def sends(message):
            if asked and message["type"] == "http.response.start":
                headers = [*message.get("headers", []), (HEADER, trace.until_now().encode("ascii"))]
                message = {**message, "headers": headers}
            await send(message)

        try:
            return await _Steps(self._app(scope, receive, sends), trace)
        finally:
            self._tracer.ended(trace, asked)


class _Steps:
    """A coroutine whose steps are of a trace."""

    def __init__(self, coroutine, trace):
        self._coroutine, self._trace = coroutine, trace

    def __await__(self):
        steps = self._coroutine.__await__()
        step, value = steps.send, None
        while True:
            self._trace.resume()
            try:
                awaited = step(value)
            except StopIteration as done:
                return done.value
            finally:
                self._trace.pause()
            try:
                step, value = steps.send, (yield awaited)
            except GeneratorExit:
                steps.close()
                raise
            except BaseException as error:  # noqa: BLE001
                step, value = steps.throw, error
