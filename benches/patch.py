"""What `lancet patch` costs: a call through a patch, a switch of contexts with the remedy, how long many threads stand."""

import json
import os
import statistics
import subprocess

from calls import compiled
from session import FIXTURES, LANCET, PLACE, SCALE, Failed, Process
from table import row, say, skip

ROUNDS = 5 if SCALE >= 1 else 2
THREADS = 783

# A body of its own, so that what is measured is the way there.
DIRECT = """
extern long factor;
__attribute__((noipa)) long total(long a, long b) { return factor * a + b; }
"""
SLEEPERS = """
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
long factor = 3;
__attribute__((noipa)) long total(long a, long b) { return factor * a + b; }
static pthread_barrier_t all;
static void *sleeps(void *unused) { (void)unused; pthread_barrier_wait(&all); for (;;) pause(); }
static void *calls(void *unused) { (void)unused; pthread_barrier_wait(&all); for (long i = 0;; i++) total(i, 1); }
int main(void)
{
    pthread_t thread;
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 65536);
    pthread_barrier_init(&all, NULL, %d);
    for (int i = 1; i < %d; i++)
        pthread_create(&thread, &small, i == 1 ? calls : sleeps, NULL);
    pthread_barrier_wait(&all);
    puts("ready");
    fflush(stdout);
    getchar();
    return (int)total(0, 0);
}
""" % (THREADS, THREADS)


def source(name, text):
    path = os.path.join(PLACE, name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


class Asked(Process):
    """A program that answers each line of its input with a line."""

    def __init__(self, *program):
        super().__init__(program, stdin=subprocess.PIPE)
        self.lines.until("^ready$")

    def ask(self, what):
        self.child.stdin.write(what.encode() + b"\n")
        self.child.stdin.flush()
        return self.lines.next()


def patch(pid, *arguments):
    """Milliseconds for which the process stood still."""
    done = subprocess.run([LANCET, "patch", "--json", "-p", str(pid), *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise Failed(f"it ended with {done.returncode}: {done.stderr.strip()[:200]}")
    records = [json.loads(line) for line in done.stdout.splitlines()]
    return next(record["stopped_ns"] for record in records if record["record"] == "stop") / 1e6


def patches():
    say(f"patch: {ROUNDS} rounds")
    library = compiled("direct.so", source("direct.c", DIRECT), "-shared", "-fPIC", "-nostartfiles")
    for case in (a_call, a_switch, stands):
        try:
            case(library)
        except (Failed, OSError) as error:
            skip("C", "patch", case.__doc__, f"FAILED: {error}")


def a_call(library):
    """one call"""
    program = compiled("patched", os.path.join(FIXTURES, "c/patched.c"), "-pthread", "-rdynamic")
    bare, through = [], []
    with Asked(program) as guest:
        for _ in range(ROUNDS):
            bare.append(float(guest.ask("cost")))
            patch(guest.pid, f"total={library}:total")
            through.append(float(guest.ask("cost")))
            patch(guest.pid, "--undo")
    more = [after - before for before, after in zip(bare, through)]
    row("C", "one call", "through a patch, more than a direct one", more, " ns", target=("≤", 2),
        beside=f"direct {statistics.median(bare):.2f} ns, through a patch {statistics.median(through):.2f}")


# What the guest does between two switches, and what is asked of a switch with `strict`.
SWITCHES = {"program": ("computes, prints, has a signal mask", ("≤", 12)), "switches": ("a loop of nothing else", None)}


def a_switch(_):
    """one switch"""
    program = compiled("contexts", os.path.join(FIXTURES, "c/contexts.c"), "-pthread", "-lm")
    modes = ("strict", "exact", "lite")
    times = {(mode, what): [] for mode in ("bare", *modes, "undone") for what in SWITCHES}

    def asked(mode):
        for what in SWITCHES:
            times[mode, what].append(float(guest.ask(what)))

    with Asked(program) as guest:
        for _ in range(ROUNDS):
            asked("bare")
            for mode in modes:
                patch(guest.pid, "--wait", "10s", "--remedy", f"ucontext={mode}")
                asked(mode)
                patch(guest.pid, "--undo")
            asked("undone")
    for what, (does, target) in SWITCHES.items():
        bare, undone = (statistics.median(times[mode, what]) for mode in ("bare", "undone"))
        for mode in modes:
            row("C", f"swapcontext, {does}", f"with remedy ucontext={mode}", times[mode, what], " ns",
                target=target if mode == "strict" else None, beside=f"{bare:.0f} ns bare, {undone:.0f} undone")


def stands(library):
    """stood still"""
    program = compiled("sleepers", source("sleepers.c", SLEEPERS), "-pthread", "-rdynamic")
    applied, undone = [], []
    with Asked(program) as guest:
        for _ in range(2 * ROUNDS):
            applied.append(patch(guest.pid, "--wait", "10s", f"total={library}:total"))
            undone.append(patch(guest.pid, "--undo"))
    for what, times in (("apply", applied), ("undo", undone)):
        row("C", f"{THREADS} threads, one in the function", f"{what}: stood still", times, " ms", 1, target=("≤", 50), judge=max)
