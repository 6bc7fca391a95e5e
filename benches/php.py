"""What `lancet mem` of a PHP costs, beside php-memprof; and what it costs requests, each of which begins with an empty heap."""

import http.client
import os
import shutil
import socket
import statistics
import time

import fetched
from mem import AGAIN, BARE, Watch, cost_of, watched_blocks
from session import FIXTURES, SCALE, STEP, Failed, Guest, Process, left, run
from syscalls import processor_time
from table import row, say, skip

ENOUGH = 3          # rounds
COST = 60           # seconds after which it stops once it has these
REQUESTS = 3000     # of each turn


class Php:
    """The machine's own, or with php-memprof."""

    folder = "php"

    def __init__(self, *options):
        self.command = [shutil.which("php"), *options]
        self.version = "PHP " + run([*self.command, "-r", "echo PHP_VERSION;"])


# name, what it is, what RIVAL is
CASES = [
    (BARE, None, None),
    ("watched by lancet", "watched", None),
    ("after lancet has left", "left", None),
    (AGAIN, None, None),
    ("php-memprof", "rival", "memprof"),
]


def target(_php, _work, name):
    return {"after lancet has left": ("≤", 1.02)}.get(name)


def one_case(php, work, kind, how, _reports):
    script = f"bench/{work}.php"
    if kind in ("watched", "left"):
        return watched_blocks(php, script, kind)
    if kind == "rival":
        if why := fetched.missing("memprof"):
            raise Failed(f"php-memprof: {why}")
        php = Php("-d", "extension=" + fetched.PROGRAMS["memprof"])
    with Guest(php, script, SCALE=SCALE, RIVAL=how or "none") as guest:
        return guest.figures()


def php_cost():
    say("php: CPU time of the work, in rounds")
    if not shutil.which("php"):
        skip("PHP", "all", "all", "php-cli is not installed")
        return
    cost_of([Php()], CASES, one_case, target, ENOUGH, COST)
    requests(Php())


class Server(Process):
    """PHP's own server, which answers one request after another in one process."""

    def __init__(self, php):
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        script = os.path.join(FIXTURES, php.folder, "bench/request.php")
        super().__init__([*php.command, "-S", f"127.0.0.1:{self.port}", script])
        limit = time.monotonic() + STEP
        while not self.answers():
            if time.monotonic() > limit or self.child.poll() is not None:
                self.__exit__()
                raise Failed("the server does not answer")

    def answers(self):
        try:
            self.ask()
        except ConnectionRefusedError:
            time.sleep(0.01)
            return False
        return True

    def ask(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=STEP)
        connection.request("GET", "/")
        answer = connection.getresponse()
        if (answer.status, answer.read()) != (200, b"hello 100\n"):
            raise Failed(f"WRONG: the server answers {answer.status}")
        connection.close()

    def each(self):
        """Microseconds of its processor time that a request takes."""
        asked, before = max(round(REQUESTS * SCALE), 100), processor_time(self.pid)
        for _ in range(asked):
            self.ask()
        return (processor_time(self.pid) - before) / asked / 1000


def requests(php):
    """Of one server while it is watched, and bare before and after that, in rounds."""
    case, figure = "a short request, php -S", "its CPU, watched to bare"
    bare, ratios, after = [], [], []
    try:
        for number in range(ENOUGH):
            if number and left() < 30:
                break
            with Server(php) as server:
                server.each()
                unwatched = server.each()
                with Watch(server.pid) as watch:
                    watched = server.each()
                    watch.leave()
                again = server.each()
            mean = statistics.mean([unwatched, again])
            bare.append(mean)
            ratios.append(watched / mean)
            after.append(again / unwatched)
    except (Failed, OSError, http.client.HTTPException) as failed:
        skip(php.version, case, figure, str(failed))
        return
    row(php.version, case, figure, ratios, "×", beside=f"{statistics.median(bare):.0f} µs bare")
    row(php.version, case, "after lancet has left, to before", after, "×")
