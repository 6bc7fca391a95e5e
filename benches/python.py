"""What `lancet mem` of a Python costs, beside tracemalloc and memray."""

import os

import fetched
from mem import AGAIN, BARE, cost_of, watched_blocks
from session import PLACE, SCALE, Failed, Guest, run
from table import say

SYSTEM = "/usr/bin/python3"
ENOUGH = 3          # rounds
COST = 100          # seconds after which it stops once it has these


class Python:
    """The machine's own. memray is in an environment of its own, which is the same Python."""

    folder = "python"

    def __init__(self, command):
        self.command = [command]
        self.version = run([command, "-c", "import sys; print('Python ' + sys.version.split()[0])"])


# name, what it is, options of lancet or what RIVAL is
CASES = [
    (BARE, None, None),
    ("watched by lancet", "watched", []),
    ("after lancet has left", "left", []),
    (AGAIN, None, None),
    ("memray, blocks of malloc", "rival", "memray"),
    ("memray, trace_python_allocators", "rival", "memray_python"),
    ("tracemalloc", "rival", "tracemalloc"),
]


def target(_python, work, name):
    """Watched: ≤ 1.30 for the worst case (issue 34, and the project's table of targets), ≤ 1.20 for a realistic one (issue 34)."""
    if name == "watched by lancet":
        return "≤", 1.30 if work == "w1" else 1.20
    return {"after lancet has left": ("≤", 1.02)}.get(name)


def one_case(python, work, kind, how, _reports):
    script = f"bench/{work}.py"
    if kind in (None, "rival"):
        if kind and how.startswith("memray"):
            if why := fetched.missing("memray"):
                raise Failed(f"memray: {why}")
            python = Python(fetched.PROGRAMS["memray"])
        with Guest(python, script, SCALE=SCALE, RIVAL=how or "none", FILE=os.path.join(PLACE, "memray")) as guest:
            return guest.figures()
    return watched_blocks(python, script, kind)


def python_cost():
    say("python: CPU time of the work, in rounds")
    cost_of([Python(SYSTEM)], CASES, one_case, target, ENOUGH, COST)
