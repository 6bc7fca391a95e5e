"""greenlet: switch there and back, at no depth and below 100 C-level frames. Prints "name ns"."""
import time
from functools import reduce

from greenlet import getcurrent, greenlet


def echo(value):
    back = getcurrent().parent
    while True:
        value = back.switch(value)


def below(depth, value):
    """Each level goes through C: reduce() calls back into Python."""
    if depth == 0:
        return echo(value)
    return reduce(lambda _, __: below(depth - 1, value), (0, 0))


def measure(name, depth, rounds):
    other = greenlet(lambda value: below(depth, value))
    other.switch(0)
    start = time.thread_time_ns()
    for number in range(rounds):
        other.switch(number)
    print(name, (time.thread_time_ns() - start) / (2 * rounds))


for _ in range(7):
    measure("greenlet", 0, 100_000)
    measure("greenlet-100-frames", 100, 20_000)
