"""What `lancet mem` of a PHP costs, beside php-memprof."""

import shutil

import fetched
from mem import AGAIN, BARE, cost_of, watched_blocks
from session import SCALE, Failed, Guest, run
from table import say, skip

ENOUGH = 3          # rounds
COST = 60           # seconds after which it stops once it has these


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
