"""What `lancet mem --native` costs: a block that is taken and given back."""

import os
import statistics

from calls import compiled
from mem import Watch
from patch import Asked
from session import FIXTURES, SCALE, Failed
from table import row, say, skip

ROUNDS = 5 if SCALE >= 1 else 2
# What the program is told, what that is, and the most that it may cost (issue 34).
WAYS = [
    ("pair", "malloc and free at once", 30),
    ("new", "operator new and delete at once", 30),
    ("array", "operator new[] and delete[] at once", 30),
    ("held", "65,536 blocks live", None),
]


def native():
    say(f"native: {ROUNDS} rounds")
    try:
        program = compiled("blocks", os.path.join(FIXTURES, "c/bench/blocks.cpp"), "-lstdc++")
        for way, what, most in WAYS:
            one(program, way, what, most)
    except (Failed, OSError) as error:
        skip("C", "mem --native", "all", f"FAILED: {error}")


def one(program, way, what, most):
    bare, watched, after = [], [], []
    with Asked(program) as guest:
        for _ in range(ROUNDS):
            bare.append(float(guest.ask(way)))
            with Watch(guest.pid, "--native") as watch:
                watched.append(float(guest.ask(way)))
                watch.leave()
            after.append(float(guest.ask(way)))
    more = [cost - alone for alone, cost in zip(bare, watched)]
    row("C", f"mem --native, {what}", "a block, more than without", more, " ns", target=most and ("≤", most),
        beside=f"{statistics.median(bare):.1f} ns bare, {statistics.median(watched):.1f} watched, {statistics.median(after):.1f} after")
