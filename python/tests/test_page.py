"""The page of requests: what its data says, and who is shown it. Needs nothing but Python."""

import asyncio
import json
import os
import re
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import unittest.mock

import lancet
import lancet.asgi
import lancet.wsgi
from lancet import _page

SECRET = "a secret of the application"
FILE = os.path.abspath(__file__)
# What signatures were taken is remembered for all processes of a user's.
_place = tempfile.TemporaryDirectory()
os.environ["TMPDIR"] = _place.name


def data_of(page):
    """The data of a page."""
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page.decode(), re.DOTALL).group(1))


def rows(request, *groups):
    """What the calls of these groups were about, those that this file makes."""
    return [row for row in request["details"]["rows"] if row["group"] in groups and row["path"] == FILE]


class Wsgi(unittest.TestCase):
    """The page of a WSGI application."""

    def get(self, application, path="/cart", **more):
        """Asks as a server does: status, headers, body."""
        answer = []
        environ = {"REQUEST_METHOD": "GET", "SCRIPT_NAME": "", "PATH_INFO": path, **more}
        body = application(environ, lambda *start: answer.extend(start[:2]))
        parts = list(body)
        if hasattr(body, "close"):
            body.close()
        return answer[0], dict(answer[1]), b"".join(parts)

    def page(self, work=lambda _: None, **options):
        def app(environ, start_response):
            work(environ)
            start_response("200 OK", [("content-type", "text/plain")])
            return [b"served"]

        return lancet.wsgi.Page(app, root=os.path.dirname(FILE), **options)

    def request(self, work):
        """The data of one request, of which the application does this."""
        page = self.page(work)
        self.assertEqual(self.get(page, "/orders/17")[2], b"served")
        status, headers, body = self.get(page, "/lancet")
        self.assertEqual((status, headers["cache-control"]), ("200 OK", "no-store"))
        self.assertIn("default-src 'none'", headers["content-security-policy"])
        return data_of(body)["requests"][0]

    def test_the_last_requests(self):
        page = self.page(calls=False)
        self.assertEqual(data_of(self.get(page, "/lancet")[2])["requests"], [])
        for number in range(60):
            self.get(page, f"/pages/{number}")
        data = data_of(self.get(page, "/lancet")[2])
        self.assertEqual([one["title"] for one in data["requests"]], [f"GET /pages/{59 - number}" for number in range(50)])
        last = data["requests"][0]
        self.assertEqual((last["route"], last["before"]["count"], last["details"], last["objects"]), ("GET /pages/:id", 59, None, None))
        self.assertEqual([(one["route"], one["count"]) for one in data["routes"]], [("GET /pages/:id", 60)])

    def test_where_the_time_of_a_request_went(self):
        reader, writer = os.pipe()
        self.addCleanup(os.close, reader)
        self.addCleanup(os.close, writer)

        def work(_):
            time.sleep(0.05)
            threading.Timer(0.05, os.write, (writer, b"1")).start()
            os.read(reader, 1)

        one = self.request(work)
        self.assertEqual(one["lost"], [])
        line = work.__code__.co_firstlineno
        # Before 3.11 Python sleeps by `select`.
        slept = [row for row in rows(one, "sleep", "poll") if row["line"] == line + 1]
        self.assertEqual([row["calls"] for row in slept], [1])
        self.assertGreaterEqual(slept[0]["outer_ns"], 49_000_000)
        waited = [row for row in rows(one, "read") if row["line"] == line + 3]
        self.assertTrue(waited[0]["about"].startswith("pipe"), waited)
        self.assertGreaterEqual(waited[0]["outer_ns"], 30_000_000)
        self.assertLessEqual(sum(row["outer_ns"] for row in one["details"]["rows"]) / 1e9, one["wall"])
        self.assertLess(one["cpu"], one["wall"] - 0.08)

    def test_statements_by_shape_and_line(self):
        def work(_):
            database = sqlite3.connect(":memory:")
            database.execute("CREATE TABLE users (id INTEGER, name TEXT)")
            for number in range(7):
                database.execute(f"SELECT name FROM users WHERE id = {number}").fetchall()
            database.close()

        one = self.request(work)
        self.assertEqual(one["lost"], [])
        found = [(row["about"], row["line"], row["calls"]) for row in rows(one, "sqlite") if row["calls"]]
        self.assertIn(("SELECT name FROM users WHERE id = ?", work.__code__.co_firstlineno + 4, 7), found)

    def test_what_a_request_brings_is_not_written_as_html(self):
        page = self.page(calls=False)
        self.get(page, "/</script><b>\xff")
        body = self.get(page, "/lancet")[2]
        self.assertNotIn(b"/</script><b>", body)
        self.assertEqual(data_of(body)["requests"][0]["title"], "GET /</script><b>\N{REPLACEMENT CHARACTER}")

    def test_a_page_for_those_who_sign(self):
        page = self.page(signed=True, secret=SECRET, calls=False)

        def is_shown(value, query=""):
            return b'id="data"' in self.get(page, "/lancet", QUERY_STRING=query, HTTP_X_LANCET_TRACE=value)[2]

        value = lancet.wsgi.signature(SECRET, "GET", "/lancet")
        for other in ("", "1:2", lancet.wsgi.signature(SECRET, "GET", "/cart")):
            self.assertFalse(is_shown(other), other)
        # It is of one query, and good once.
        self.assertEqual([is_shown(value, "all=1"), is_shown(value), is_shown(value)], [False, True, False])
        self.get(page, "/cart")
        self.get(page, "/orders", HTTP_X_LANCET_TRACE=lancet.wsgi.signature(SECRET, "GET", "/orders"))
        body = self.get(page, "/lancet", HTTP_X_LANCET_TRACE=lancet.wsgi.signature(SECRET, "GET", "/lancet"))[2]
        self.assertEqual([one["title"] for one in data_of(body)["requests"]], ["GET /orders"])
        with self.assertRaises(ValueError):
            self.page(signed=True)

    def test_why_it_is_empty(self):
        code = """
import lancet.wsgi
page = lancet.wsgi.Page(lambda environ, start: [b""])
for path in ("/", "/lancet"):
    body = b"".join(page({"REQUEST_METHOD": "GET", "PATH_INFO": path}, lambda *_: None))
print(body.decode())
"""
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "LANCET_BIN": "/no/lancet"}
        done = subprocess.run([sys.executable, "-c", code], env=env, stdout=subprocess.PIPE, timeout=60, check=True)
        self.assertIn(b"<p>there is no program /no/lancet", done.stdout)

    def test_routes_are_bounded(self):
        recent = _page.Recent()
        with unittest.mock.patch.object(_page, "ROUTES", 3):
            for number in range(5):
                recent.add(lancet.Trace(False, {"method": "GET", "path": f"/{'abcde'[number]}"}))
        self.assertEqual([one["route"] for one in recent.data(None, "/srv")["routes"]], ["GET /c", "GET /d", "GET /e"])


class Asgi(unittest.TestCase):
    """The page of an ASGI application."""

    async def get(self, application, path, headers=()):
        sent = []

        async def send(message):
            sent.append(message)

        scope = {"type": "http", "method": "GET", "path": path, "query_string": b"", "headers": list(headers)}
        await application(scope, None, send)
        return sent[0]["status"], b"".join(message.get("body", b"") for message in sent)

    @staticmethod
    async def app(scope, receive, send):
        scope["route"] = unittest.mock.Mock(path="/orders/{id}")
        await asyncio.sleep(0.05)
        time.sleep(0.02)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"served"})

    def test_where_the_time_of_a_request_went(self):
        async def both():
            page = lancet.asgi.Page(self.app)
            await self.get(page, "/orders/17")
            return await self.get(page, "/lancet")

        status, body = asyncio.run(both())
        one = data_of(body)["requests"][0]
        self.assertEqual((status, one["lost"], one["route"]), (200, [], "GET /orders/{id}"))
        # Others may run while it awaits.
        self.assertLessEqual(one["details"]["within_ns"] / 1e9, one["wall"] - 0.045)
        self.assertGreaterEqual(sum(row["outer_ns"] for row in rows(one, "sleep", "poll")), 19_000_000)

    def test_a_page_for_those_who_sign(self):
        page = lancet.asgi.Page(self.app, signed=True, secret=SECRET, calls=False)
        value = [(b"x-lancet-trace", lancet.asgi.signature(SECRET, "GET", "/lancet").encode())]
        found = [asyncio.run(self.get(page, "/lancet", headers))[1] for headers in ((), value, value)]
        self.assertEqual([b'id="data"' in body for body in found], [False, True, False])


if __name__ == "__main__":
    unittest.main()
