# `stack` says the frames from its caller outward, as Python sees them, and waits inside.
import asyncio, ctypes, functools, threading, time

WAIT = ready


def told(who, frame):
    while frame:
        say(who, frame.f_code.co_filename, frame.f_lineno, name_of(frame.f_code))
        frame = frame.f_back


def stack(*_):
    told(threading.get_ident(), sys._getframe(1))
    WAIT()
    return 1


def nested(depth):
    if depth:
        return nested(
            depth - 1
        )
    def inner():
        return (lambda a, b: (
            a,
            stack(b),
        ))(1, 2)
    return inner()


def comprehension():
    return [stack(x) for x in range(1)], {stack(x): 1 for x in range(1)}, list(stack(x) for x in (
        1,
    ))


def generator(n):
    if n:
        yield from generator(n - 1)
    else:
        yield (
            stack()
        )


def decorator(function):
    @functools.wraps(function)
    def wrapper(*args):
        return function(
            *args)
    return wrapper


@decorator
@decorator
def decorated(*args,
              default=None):
    return stack()


class Thing:
    attribute = stack() if False else None

    def __init__(self, child=None):
        self.child = child
        stack()

    def __getattr__(self, name):
        return stack(name)

    @property
    def prop(self):
        return stack()

    def __lt__(self, other):
        stack()
        return False

    def __enter__(self):
        return self

    def __exit__(self, *why):
        stack()
        return True


async def coroutine(n):
    if n:
        return await coroutine(n - 1)
    await asyncio.sleep(0)
    async with Manager() as m:
        async for x in numbers():
            stack(x)


class Manager:
    async def __aenter__(self):
        stack()

    async def __aexit__(self, *why):
        pass


async def numbers():
    yield 1


def raising():
    try:
        raise ValueError
    except ValueError:
        stack()
    finally:
        try:
            stack()
        finally:
            pass


def matching():
    for i in range(2):
        while True:
            if i == 1: stack(); break
            break
    with Thing.__new__(Thing) as t:
        raise KeyError


def long_lines():
    x = (1 +
         2 +


         sum(stack() for _ in
             range(1)))
    exec("\n" * 300 + "def far():\n    x = 1" + "\n" * 200 + "    stack()\n\n\nfar()", globals())
    return eval("stack(\n\n1)", globals())


def wide():
    # More than 255 bytes of instructions between two lines, and many columns.
    a = 1; stack(a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a)
    stack(
        a
    )


def callback():
    # Through C: sorted, map, reduce, a ctypes callback.
    sorted([Thing.__new__(Thing), Thing.__new__(Thing)], key=lambda t: t)
    list(map(stack, [1]))
    functools.reduce(lambda a, b: stack(a), [1, 2])
    kind = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_int)
    kind(lambda n: stack(n))(3)


def later():
    for place in (lambda: nested(0), lambda: nested(20), comprehension, lambda: list(generator(3)), lambda: decorated(1),
                  Thing, lambda: Thing.__new__(Thing).missing, lambda: Thing.__new__(Thing).prop,
                  lambda: asyncio.run(coroutine(3)), raising, matching, long_lines, wide, callback,
                  lambda: nested(400)):
        place()


class Überklasse:
    def überall(self):
        stack()


later()
Überklasse().überall()
sys.setrecursionlimit(100000)
nested(3000 if sys.version_info >= (3, 11) else 800)

# Threads that sleep in C without the GIL, each at a line of its own, beside one that computes.
begun = threading.Barrier(6)
stop = False
lock = threading.Lock()
lock.acquire()


def sleeps(how):
    def inside():
        told(threading.get_ident(), sys._getframe(0).f_back)
        begun.wait()
        # The frame of `how` itself is not in what was told.
        how()
    inside()


def computes():
    told(threading.get_ident(), sys._getframe(0).f_back)
    begun.wait()
    while not stop:
        sum(i * i for i in range(100))


ways = [
    lambda: lock.acquire(),
    lambda: time.sleep(1000),
    lambda: threading.Event().wait(),
    lambda: os.read(os.pipe()[0], 1),
]
for way in ways:
    threading.Thread(target=sleeps, args=(way,), daemon=True).start()
threading.Thread(target=computes, daemon=True).start()
begun.wait()
stack()
stop = True
say("END")
ready()
