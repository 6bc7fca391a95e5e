"""The gem's middleware: CPU time of a request, traced and not, and the time of the first trace.

Two applications: one whose requests are short and make an object every 0.3 µs, which is the most that tracing can cost, and a page of
a shop of more than a millisecond. Each round runs every case once, the next one begins with another; a figure is the ratio to the bare application of the same
round. What a trace is told as is part of its cost, so it is a case of its own: a line in the log, a line of JSON, or Hashes for a block.
"""

import json
import os
import subprocess

from session import FIXTURES, LANCET, SCALE, STEP, TOP, Failed, left, run
from table import row, say, skip

# Milliseconds from nothing to a process whose calls are traced: the companion is started, and functions are hooked.
FIRST = """
require "sinatra/base"
require "lancet"
began = Process.clock_gettime(Process::CLOCK_MONOTONIC)
Lancet.trace(calls: Lancet::Counters::SHOWN) { nil }
puts (Process.clock_gettime(Process::CLOCK_MONOTONIC) - began) * 1e3
"""

REQUESTS = max(300, int(3000 * SCALE))
ROUNDS = 5 if SCALE >= 1 else 1

# The options of Lancet::Rack, and what the issue allows.
CASES = {
    "middleware, nothing sampled": ({"sample": 0}, ("≤", 1.02)),
    "1 % of requests traced": ({"sample": 0.01, "hashes": True}, ("≤", 1.02)),
    "every request traced, those that are slow told": ({"sample": 1, "threshold": 60, "logged": True}, ("≤", 1.30)),
    "every request traced, a line in the log": ({"sample": 1, "logged": True}, ("≤", 1.30)),
    "every request traced, a line of JSON": ({"sample": 1, "file": os.devnull}, ("≤", 1.30)),
    "every request traced, to a block": ({"sample": 1, "hashes": True}, ("≤", 1.30)),
    "every request traced, for the page, with its calls": ({"page": True}, ("≤", 1.30)),
    "every request traced, to a block, with its calls": ({"sample": 1, "calls": True, "hashes": True}, None),
}
APPLICATIONS = {"short requests": None, "a page of a shop": "shop"}


def one(options, application):
    """Microseconds of CPU time a request, and how many objects it makes."""
    env = {**os.environ, "LANCET_BIN": LANCET, "REQUESTS": str(REQUESTS), "RACK_ENV": "production"}
    if application:
        env.update(APPLICATION=application, REQUESTS=str(REQUESTS // 5))
    if options is not None:
        env["MIDDLEWARE"] = json.dumps(options)
    words = ["ruby", "-I", os.path.join(TOP, "gem/lib"), os.path.join(FIXTURES, "ruby/bench/traced.rb")]
    done = subprocess.run(words, env=env, capture_output=True, text=True, timeout=STEP, check=False)
    if done.returncode:
        raise Failed((done.stderr.strip().splitlines() or ["it failed"])[-1])
    took, objects = done.stdout.split()
    return float(took), int(objects)


def of_application(version, name, application):
    """The rows of one application."""
    figure = f"CPU time a request, to the bare application, {name}"
    bare, ratios = [], {case: [] for case in CASES}
    cases = [None, *CASES]
    for number in range(ROUNDS):
        if left() < STEP:
            break
        turn = number % len(cases)
        took = {case: one(CASES[case][0] if case else None, application) for case in cases[turn:] + cases[:turn]}
        bare.append(took[None])
        for case in CASES:
            ratios[case].append(took[case][0] / took[None][0])
    if not bare:
        raise Failed("out of time")
    micros, objects = min(bare)
    for case, (_, target) in CASES.items():
        row(version, case, figure, ratios[case], "×", target=target, beside=f"{micros:,.0f} µs and {objects:,} objects a request bare")


def first(version):
    """The row of the first trace."""
    words = ["ruby", "-I", os.path.join(TOP, "gem/lib"), "-e", FIRST]
    took = []
    for _ in range(ROUNDS):
        done = subprocess.run(words, env={**os.environ, "LANCET_BIN": LANCET}, capture_output=True, text=True, timeout=STEP, check=False)
        if done.returncode:
            raise Failed((done.stderr.strip().splitlines() or ["it failed"])[-1])
        took.append(float(done.stdout))
    row(version, "first trace of a process, for the page", "time by the clock", took, " ms", digits=0, target=("≤", 150))


def gem():
    say("gem: requests of a Sinatra application, with the middleware and without")
    figure, case = "CPU time a request, to the bare application", "Sinatra, one thread"
    if subprocess.run(["ruby", "-e", 'require "sinatra/base"'], capture_output=True, check=False).returncode:
        return skip("own Ruby", case, figure, "ruby-sinatra is not installed")
    try:
        version = run(["ruby", "-e", "print RUBY_VERSION"])
        first(version)
        for name, application in APPLICATIONS.items():
            of_application(version, name, application)
    except (Failed, subprocess.TimeoutExpired) as failed:
        skip("own Ruby", case, figure, str(failed))
