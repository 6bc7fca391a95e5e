# The script of `versions/probe`, which knows the marked lines.
import os
import sys
import time


class Probe:
    pass


kept = [Probe() for _ in range(1000)]
made = []


def inner(round):
    made.append("made in round %d" % round)  # makes
    os.getppid()  # calls
    time.sleep(0.01)  # waits


def outer(round):
    inner(round)  # outer


def burn(until):
    x = 0
    while time.monotonic() < until:
        x += 1
    return x


round = 0
while True:
    round += 1
    if sys.argv[1] == "burn":
        burn(time.monotonic() + 0.05)  # starts
    else:
        outer(round)  # main
    print(round, flush=True)
