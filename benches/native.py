"""What `lancet mem --native` costs: a block that is taken and given back."""

import os
import statistics
import sys

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
# Takes a block of 600 bytes and gives it back, in a loop; answers like fixtures/c/bench/blocks.cpp.
SCRIPT = """
import sys, time
print('ready', flush=True)
for line in sys.stdin:
    if line == '\\n': break
    least = 1e9
    for turn in range(5):
        begun = time.process_time()
        for i in range(500_000):
            bytearray(600)
        least = min(least, (time.process_time() - begun) / 500_000 * 1e9)
    print(least, flush=True)
"""


def native():
    say(f"native: {ROUNDS} rounds")
    try:
        program = compiled("blocks", os.path.join(FIXTURES, "c/bench/blocks.cpp"), "-lstdc++")
        for way, what, most in WAYS:
            one("C", [program], (way, what, most))
        for options in [], ["--lines"]:
            what = " ".join(["a block of a Python", *options])
            one("Python", [sys.executable, "-c", SCRIPT], ("bytearray", what, None), options)
    except (Failed, OSError) as error:
        skip("C", "mem --native", "all", f"FAILED: {error}")


def one(language, program, how, options=()):
    way, what, most = how
    bare, watched, after = [], [], []
    with Asked(*program) as guest:
        for _ in range(ROUNDS):
            bare.append(float(guest.ask(way)))
            with Watch(guest.pid, "--native", *options) as watch:
                watched.append(float(guest.ask(way)))
                watch.leave()
            after.append(float(guest.ask(way)))
    more = [cost - alone for alone, cost in zip(bare, watched)]
    row(language, f"mem --native, {what}", "a block, more than without", more, " ns", target=most and ("≤", most),
        beside=f"{statistics.median(bare):.1f} ns bare, {statistics.median(watched):.1f} watched, {statistics.median(after):.1f} after")
