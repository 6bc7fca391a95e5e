"""The middleware for WSGI in a real server: Django on gunicorn, with workers that fork and with threads, and MySQLdb on a real MariaDB, whose socket is in LANCET_DATABASE.
Needs gunicorn, Django and MySQLdb."""

import concurrent.futures
import http.client
import json
import os
import pathlib
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

import MySQLdb

HERE = pathlib.Path(__file__).parent
DATABASE = os.environ["LANCET_DATABASE"]
# Nothing takes longer unless something hangs.
LIMIT = 120
# Requests of which at least one is not interrupted.
ALONE = 30
# How far apart two looks at the same stretch may be.
NEAR = 0.01
# The same of a query, around which Django works itself for some tenths of a millisecond.
NEAR_WITH_DJANGO = 0.03


class Server(unittest.TestCase):
    """What the program, the database and the account say of the same requests."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.traces = pathlib.Path(folder.name, "traces")
        self.log = pathlib.Path(folder.name, "log")
        self.port = None

    def serve(self, *words):
        """Starts gunicorn with these options."""
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        words = [sys.executable, "-m", "gunicorn", "served_django:traced", "--chdir", str(HERE), "-b", f"127.0.0.1:{self.port}", "--log-level", "warning", "--timeout", str(LIMIT), *words]
        env = {**os.environ, "TRACES": str(self.traces), "DATABASE": DATABASE}
        with self.log.open("wb") as log:
            server = subprocess.Popen(words, env=env, stdout=log, stderr=log)
        self.addCleanup(self.stop, server)
        until = time.monotonic() + LIMIT
        while not self.listens():
            self.assertIsNone(server.poll(), self.log.read_text())
            self.assertLess(time.monotonic(), until)
            time.sleep(0.05)

    def listens(self):
        """Whether it can be asked."""
        try:
            socket.create_connection(("127.0.0.1", self.port)).close()
        except OSError:
            return False
        return True

    def stop(self, server):
        """Ends it, as an administrator does."""
        server.send_signal(signal.SIGTERM)
        self.assertEqual(server.wait(LIMIT), 0, self.log.read_text())

    def get(self, path):
        """The answer to one request."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=LIMIT)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            self.assertEqual(answer.status, 200, self.log.read_text())
            return answer.read()
        finally:
            connection.close()

    def at_once(self, paths):
        """The answers to these, five at the same time."""
        with concurrent.futures.ThreadPoolExecutor(5) as clients:
            return list(clients.map(self.get, paths))

    def told(self, file, after, count):
        """So many lines of JSON after the first ones, when they are there: a request is told after it was answered."""
        until = time.monotonic() + LIMIT
        while len(lines := file.read_text().splitlines()) < after + count:
            self.assertLess(time.monotonic(), until, lines)
            time.sleep(0.01)
        self.assertEqual(len(lines), after + count)
        return [json.loads(line) for line in lines[after:]]

    def selects(self):
        """How many the database has counted."""
        base = MySQLdb.connect(unix_socket=DATABASE, user="root")
        try:
            cursor = base.cursor()
            cursor.execute("SHOW GLOBAL STATUS LIKE 'Com_select'")
            return int(cursor.fetchone()[1])
        finally:
            base.close()

    def warm(self, enough):
        """Connects each thread and hooks each process: what is asked for that is not asked again."""
        asked, answers = 0, []
        until = time.monotonic() + LIMIT
        while not enough(answers):
            self.assertLess(time.monotonic(), until)
            answers += self.at_once(["/work/3"] * 10)
            asked += 10
        self.told(self.traces, 0, asked)
        return asked

    def hold(self, warm):
        """Requests at the same time, and one alone."""
        measured = pathlib.Path(f"{self.traces}.measured")
        paths = [f"/work/{number % 8 + 1}" for number in range(40)]
        random.shuffle(paths)
        before = self.selects()
        self.at_once(paths)
        made = self.selects() - before
        accounts, seen = self.told(self.traces, warm, 40), self.told(measured, warm, 40)
        self.assertEqual(sorted(one["request"]["path"] for one in accounts), sorted(paths))
        for one in accounts:
            queries = int(one["request"]["path"].rpartition("/")[2])
            self.assertEqual((one["tracers"]["mysql"]["calls"], one["lost"]), (queries, []))
            self.assertGreaterEqual(one["tracers"]["mysql"]["time"], queries * 0.03)
            self.assertGreaterEqual(one["time"], one["tracers"]["mysql"]["time"])
        self.assertEqual(sum(one["tracers"]["mysql"]["calls"] for one in accounts), made)
        self.assertLessEqual(sum(one["tracers"]["mysql"]["time"] for one in accounts), sum(one["asking"] for one in seen))
        more, asking = [], []
        for number in range(ALONE):
            before = self.selects()
            self.get("/work/9")
            self.assertEqual(self.selects() - before, 9)
            account, seen = (self.told(file, warm + 40 + number, 1)[0] for file in (self.traces, measured))
            self.assertEqual(account["tracers"]["mysql"]["calls"], 9)
            more.append(account["time"] / seen["time"] - 1)
            asking.append(seen["asking"] / account["tracers"]["mysql"]["time"] - 1)
            if min(more) <= NEAR and min(asking) <= NEAR_WITH_DJANGO:
                break
        # The kernel may give the processor to others between two looks at the clock, and then the outer one is longer.
        for apart, most in ((more, NEAR), (asking, NEAR_WITH_DJANGO)):
            self.assertGreaterEqual(min(apart), 0)
            self.assertLessEqual(min(apart), most, (more, asking))

    def test_threads(self):
        self.serve("-k", "gthread", "--threads", "5")
        # Five at the same time have each thread work, if not the first time.
        self.hold(self.warm(lambda answers: len(answers) >= 40))

    def test_workers_that_fork(self):
        self.serve("-k", "sync", "-w", "2")
        self.hold(self.warm(lambda answers: len(set(answers)) == 2 and len(answers) >= 20))

    def test_workers_that_fork_after_the_application_was_loaded(self):
        self.serve("-k", "sync", "-w", "2", "--preload")
        self.hold(self.warm(lambda answers: len(set(answers)) == 2 and len(answers) >= 20))


if __name__ == "__main__":
    unittest.main()
