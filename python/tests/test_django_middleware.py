"""The middleware of Django, sync and async, as MIDDLEWARE and LANCET name it. Needs Django and no database."""

import asyncio
import io
import os
import unittest
import unittest.mock

import django
from asgiref.sync import ThreadSensitiveContext
from asgiref.sync import sync_to_async as _sync_to_async
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpResponse
from django.test.utils import override_settings
from django.urls import path

import lancet.django
from test_middleware import broken_traces
from test_trace import pipe_with, sums

SECRET = "a secret of the application"
# A thread for the synchronous code of each request; before, all requests have one.
HAS_THREADS = django.VERSION >= (4, 0)

settings.configure(ALLOWED_HOSTS=["*"], ROOT_URLCONF=__name__, SECRET_KEY="a key of this test alone")
django.setup()

from django.core.asgi import get_asgi_application  # noqa: E402
from django.core.wsgi import get_wsgi_application  # noqa: E402

writer = None


def work(request, number):
    """Writes so many times."""
    del request
    for _ in range(number):
        os.write(writer, b"1" * number)
    return HttpResponse("served")


async def awaits(request, number):
    """The same in steps."""
    del request
    for _ in range(number):
        os.write(writer, b"1" * number)
        await asyncio.sleep(0)
    return HttpResponse("served")


def fails(request):
    """Raises."""
    del request
    os.write(writer, b"1")
    raise KeyError("mine")


urlpatterns = [path("work/<int:number>", work), path("awaits/<int:number>", awaits), path("fails", fails)]


def below(get_response):
    """Middleware that is only synchronous."""

    def answer(request):
        os.write(writer, b"12345")
        return get_response(request)

    return answer


class Requests(unittest.TestCase):
    """Of both kinds."""

    def setUp(self):
        global writer
        _, writer = pipe_with(self)
        self.told = []

    def with_settings(self, *more, **options):
        """The settings of an application with this middleware, and others below."""
        options = {"sample": 1, "log": None, "told": self.told.append, **options}
        chosen = override_settings(MIDDLEWARE=["lancet.django.Middleware", *more], LANCET=options)
        chosen.enable()
        self.addCleanup(chosen.disable)

    def wsgi(self, target, header=None, application=None):
        """Status and headers of a request."""
        path, _, query = target.partition("?")
        environ = {"REQUEST_METHOD": "GET", "PATH_INFO": path, "QUERY_STRING": query, "SERVER_NAME": "test", "SERVER_PORT": "80", "wsgi.input": io.BytesIO()}
        if header:
            environ["HTTP_X_LANCET_TRACE"] = header
        answer = []
        body = (application or get_wsgi_application())(environ, lambda status, headers, *_: answer.extend([status, dict(headers)]))
        body.close()
        return answer

    async def asgi(self, target, header=None, application=None):
        """The same of the other interface."""
        path, _, query = target.partition("?")
        headers = [(b"x-lancet-trace", header.encode())] if header else []
        scope = {"type": "http", "method": "GET", "path": path, "query_string": query.encode(), "headers": headers}
        sent, over = [], asyncio.Event()

        async def receive():
            if not sent and not getattr(receive, "told", False):
                receive.told = True
                return {"type": "http.request"}
            # The client stays.
            await over.wait()
            return {"type": "http.disconnect"}

        async def send(message):
            sent.append(message)

        await (application or get_asgi_application())(scope, receive, send)
        return [sent[0]["status"], {name.decode().lower(): value.decode() for name, value in sent[0]["headers"]}]

    def assert_writes(self, trace, calls, moved):
        """So many, of so many bytes, and beside them only those of one byte by which threads wake their event loop: a few."""
        found = trace.calls["write"]
        self.assertEqual(found.calls - calls, found.bytes - moved, trace)
        self.assertIn(found.calls - calls, range(6), trace)

    def test_every_request(self):
        self.with_settings(f"{__name__}.below")
        self.assertEqual(self.wsgi("/work/3?secret=1")[0], "200 OK")
        (trace,) = self.told
        self.assertEqual(trace.request, {"method": "GET", "path": "/work/3"})
        self.assertEqual((sums(trace)["write"], trace.lost), ((4, 14), []))

    def test_one_that_raises(self):
        self.with_settings()
        application = get_wsgi_application()
        with self.assertLogs("django.request"):
            self.assertEqual(self.wsgi("/fails", application=application)[0], "500 Internal Server Error")
        self.assertEqual([sums(trace)["write"] for trace in self.told], [(1, 1)])

    def test_one_that_is_asked_for(self):
        self.with_settings(sample=0, threshold=60, secret=SECRET)
        value = lancet.django.signature(SECRET, "GET", "/work/2?page=2")
        found = [self.wsgi(target, value)[1] for target in ("/work/2", "/work/2?page=3", "/work/2?page=2", "/work/2?page=2")]
        self.assertEqual(["x-lancet-trace" in headers for headers in found], [False, False, True, False])
        self.assertIn("write 2 in", found[2]["x-lancet-trace"])
        self.assertEqual(len(self.told), 1)

    def test_steps_and_the_synchronous_code_of_each(self):
        self.with_settings()

        async def all_at_once():
            application = get_asgi_application()
            paths = [f"/{way}/{number}" for number in range(1, 11) for way in ("work", "awaits")]
            await asyncio.gather(*(self.asgi(path, application=application) for path in paths))

        asyncio.run(all_at_once())
        self.assertEqual(len(self.told), 20)
        for trace in self.told:
            _, way, number = trace.request["path"].split("/")
            number = int(number)
            self.assertEqual(trace.lost, [] if HAS_THREADS else [lancet.django.SHARED])
            if way == "awaits" or HAS_THREADS:
                self.assert_writes(trace, number, number**2)

    def test_one_that_is_asked_for_of_the_other_interface(self):
        self.with_settings(sample=0, secret=SECRET)
        value = lancet.django.signature(SECRET, "GET", "/awaits/2?page=2")
        found = [asyncio.run(self.asgi(target, value))[1] for target in ("/awaits/2", "/awaits/2?page=2", "/awaits/2?page=2")]
        self.assertEqual(["x-lancet-trace" in headers for headers in found], [False, True, False])
        self.assertRegex(found[1]["x-lancet-trace"], r"write \d in")
        self.assert_writes(self.told[0], 2, 4)

    def test_below_middleware_that_is_only_synchronous(self):
        self.with_settings(f"{__name__}.below")
        self.assertEqual(asyncio.run(self.asgi("/work/3"))[0], 200)
        (trace,) = self.told
        self.assertEqual(trace.lost, [])
        self.assert_writes(trace, 4, 14)

    def test_an_asynchronous_view_below_middleware_that_is_only_synchronous(self):
        self.with_settings(f"{__name__}.below")
        self.assertEqual(asyncio.run(self.asgi("/awaits/3"))[0], 200)
        self.assertEqual(self.wsgi("/awaits/3")[0], "200 OK")
        self.assertEqual([trace.lost for trace in self.told], [[lancet.django.ELSEWHERE], []])

    def test_a_request_that_is_given_up(self):
        self.with_settings()

        async def given_up():
            started = asyncio.Event()

            async def view(request):
                await _sync_to_async(os.write)(writer, b"12345")
                started.set()
                await asyncio.Event().wait()

            middleware = lancet.django.Middleware(view)
            request = asyncio.ensure_future(self.in_a_context(middleware(ASGIRequest({"type": "http", "method": "GET", "path": "/"}, io.BytesIO()))))
            await started.wait()
            request.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await request

        asyncio.run(given_up())
        (trace,) = self.told
        self.assertEqual(trace.lost, [lancet.django.GIVEN_UP if HAS_THREADS else lancet.django.SHARED])

    async def in_a_context(self, answer):
        """As Django's handler, with a thread of its own for synchronous code."""
        if not HAS_THREADS:
            return await answer
        async with ThreadSensitiveContext():
            return await answer

    def test_a_query_that_is_sent_as_it_is(self):
        self.with_settings(sample=0, secret=SECRET)
        target = "/work/1?q=\u00e4"
        environ = target.encode().decode("latin-1")
        self.assertIn("x-lancet-trace", self.wsgi(environ, lancet.django.signature(SECRET, "GET", target))[1])

    def test_a_thread_that_cannot_be_had(self):
        self.with_settings()

        def none(*_, **__):
            raise RuntimeError("no thread")

        # Not where Django itself has it.
        with unittest.mock.patch.object(lancet.django._sync, "sync_to_async", none):
            self.assertEqual(asyncio.run(self.asgi("/awaits/2"))[0], 200)
        lost = "what its synchronous code has done is not counted: no thread" if HAS_THREADS else lancet.django.SHARED
        self.assertEqual([trace.lost for trace in self.told], [[lost]])

    def test_whatever_fails_of_a_trace_the_request_is_served(self):
        for what in broken_traces():
            for asked in (False, True):
                with self.subTest(what, asked=asked):
                    self.with_settings(calls=False, secret=SECRET)
                    value = [lancet.django.signature(SECRET, "GET", target) if asked else None for target in ("/work/1", "/work/1", "/awaits/1")]
                    self.assertEqual(self.wsgi("/work/1", value[0])[0], "200 OK")
                    self.assertEqual(asyncio.run(self.asgi("/work/1", value[1]))[0], 200)
                    self.assertEqual(asyncio.run(self.asgi("/awaits/1", value[2]))[0], 200)

    def test_the_page(self):
        sign = lambda: lancet.django.signature(SECRET, "GET", "/lancet")  # noqa: E731
        self.with_settings(page=True, secret=SECRET, calls=False)
        for ask in (self.wsgi, lambda *words: asyncio.run(self.asgi(*words))):
            application = (get_wsgi_application if ask == self.wsgi else get_asgi_application)()
            value = sign()
            found = [ask("/lancet", header, application) for header in (None, value, value)]
            self.assertEqual([str(status)[:3] for status, _ in found], ["404", "200", "404"])
            headers = {name.lower(): value for name, value in found[1][1].items()}
            self.assertIn("default-src 'none'", headers["content-security-policy"])
        with override_settings(DEBUG=True):
            # In development whoever asks is shown it, and each request is traced.
            application = get_wsgi_application()
            self.wsgi("/work/3", None, application)
            self.assertEqual(self.wsgi("/lancet", None, application)[0], "200 OK")
        self.assertEqual([trace.route for trace in self.told if "work" in trace.request["path"]], ["GET /work/<int:number>"])

    def test_settings_that_are_none(self):
        for options in ({"sampel": 1}, {"page": True}, {"sample": 2}, {"secret": ""}, {"secret": b"x"}, {"calls": [b"mysql"]}, {"threshold": float("nan")}, {"told": 3}):
            self.with_settings(**options)
            with self.assertRaisesRegex(ImproperlyConfigured, "^the setting LANCET: "):
                get_wsgi_application()


if __name__ == "__main__":
    unittest.main()
