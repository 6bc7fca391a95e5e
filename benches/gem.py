"""The gem's middleware: CPU time of a request, traced and not.

Each round runs every case once, the next one begins with another; a figure is the ratio to the bare application of the same round.
Objects and calls are told to a block, as JSON would be made of them, so what a traced request costs is all in it.
"""

import json
import os
import subprocess

from session import FIXTURES, LANCET, SCALE, STEP, TOP, Failed, left, run
from table import row, say, skip

REQUESTS = max(300, int(3000 * SCALE))
ROUNDS = 5 if SCALE >= 1 else 1

# The options of Lancet::Rack, and what the issue allows.
CASES = {
    "middleware, nothing sampled": ({"sample": 0}, ("≤", 1.02)),
    "1 % of requests traced": ({"sample": 0.01}, ("≤", 1.02)),
    "every request traced": ({"sample": 1}, ("≤", 1.30)),
    "every request traced, with its calls": ({"sample": 1, "calls": True}, None),
}


def one(options):
    """Microseconds of CPU time a request."""
    env = {**os.environ, "LANCET_BIN": LANCET, "REQUESTS": str(REQUESTS), "RACK_ENV": "production"}
    if options is not None:
        env["MIDDLEWARE"] = json.dumps(options)
    words = ["ruby", "-I", os.path.join(TOP, "gem/lib"), os.path.join(FIXTURES, "ruby/bench/traced.rb")]
    done = subprocess.run(words, env=env, capture_output=True, text=True, timeout=STEP, check=False)
    if done.returncode:
        raise Failed((done.stderr.strip().splitlines() or ["it failed"])[-1])
    return float(done.stdout.split()[-1])


def gem():
    say("gem: requests of a Sinatra application, with the middleware and without")
    figure, case = "CPU time a request, to the bare application", "Sinatra, one thread"
    if subprocess.run(["ruby", "-e", 'require "sinatra/base"'], capture_output=True, check=False).returncode:
        return skip("own Ruby", case, figure, "ruby-sinatra is not installed")
    bare, ratios = [], {name: [] for name in CASES}
    names = [None, *CASES]
    try:
        version = run(["ruby", "-e", "print RUBY_VERSION"])
        for number in range(ROUNDS):
            if left() < STEP:
                break
            turn = number % len(names)
            took = {name: one(CASES[name][0] if name else None) for name in names[turn:] + names[:turn]}
            bare.append(took[None])
            for name in CASES:
                ratios[name].append(took[name] / took[None])
        if not bare:
            raise Failed("out of time")
        for name, (_, target) in CASES.items():
            row(version, name, figure, ratios[name], "×", target=target, beside=f"{min(bare):,.0f} µs a request bare")
    except (Failed, subprocess.TimeoutExpired) as failed:
        skip("own Ruby", case, figure, str(failed))
