"""Reads "name ns" lines; prints medians, spread and the ratio to our own row, as Markdown."""
import statistics
import sys
from collections import defaultdict

rows = defaultdict(list)
for line in sys.stdin:
    name, ns = line.split()
    rows[name].append(float(ns))

# Name in the input, what it is, and the row of ours that it stands beside.
SWITCHES = [
    ("switch", "lancet-switch, Rust", None),
    ("switch-fp", "lancet-switch, Rust, control words", None),
    ("corosensei", "corosensei 0.3.4", "switch"),
    ("switch-many", "lancet-switch, Rust, 1,000 coroutines in turn", None),
    ("corosensei-many", "corosensei, 1,000 coroutines in turn", "switch-many"),
    ("c-static", "lancet-switch, C, static library", None),
    ("c-static-many", "lancet-switch, C, 1,000 fibers in turn", None),
    ("c-shared", "lancet-switch, C, shared library", None),
    ("c-static-fp", "lancet-switch, C, control words", None),
    ("boost", "Boost.Context 1.74 fcontext (saves control words)", "c-static-fp"),
    ("minicoro", "minicoro, no value", "c-static"),
    ("minicoro-carrying", "minicoro, push and pop of a value", "c-static"),
    ("setjmp/longjmp", "`_setjmp`/`_longjmp`, glibc", "c-static"),
    ("swapcontext", "`swapcontext`, glibc", "c-static"),
    ("rt_sigprocmask", "of that, one `rt_sigprocmask`", "c-static"),
    ("ruby-fiber", "Ruby's Fiber", "c-static"),
    ("greenlet", "greenlet", "c-static"),
    ("greenlet-100-frames", "greenlet, 100 C-level frames deeper", "c-static"),
]
MAKING = [
    ("create", "made, run and ended, stack from the pool", None),
    ("fresh-stack", "a stack never used before: its part of a slab, and its guard", None),
    ("fresh-touch", "the first touch of that stack: a page of zeros from the kernel", None),
    ("create-fresh", "made on such a stack, resumed once and left suspended", None),
    ("create-reused", "made, run and ended, the same stack again", None),
    ("create-corosensei-reused", "corosensei, the same stack again", "create-reused"),
    ("create-corosensei-vec", "corosensei, stack from a Vec that keeps it", "create"),
    ("create-corosensei", "corosensei: made, run and ended (a mapping and a guard for each)", "create"),
]


def table(title, wanted):
    print(f"| {title} | ns, median | least to most | beside ours |\n|---|---|---|---|")
    for name, what, ours in wanted:
        if name not in rows:
            print(f"| {what} | not to be had here | | |")
            continue
        values = rows[name]
        median = statistics.median(values)
        ratio = f"{median / statistics.median(rows[ours]):.2f}×" if ours else ""
        print(f"| {what} | {median:.2f} | {min(values):.2f}–{max(values):.2f} | {ratio} |")
    print()


table("one switch", SWITCHES)
table("one coroutine", MAKING)
