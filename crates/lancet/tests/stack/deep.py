# Goes deep in every way C code calls Python code back, says what is on the stacks, and waits. What is said and the wait
# are on one line, so that it stays true.
import functools, json, re, sys, threading

sys.setrecursionlimit(5000)


def told(frame):
    frames = []
    while frame:
        code = frame.f_code
        frames.append([code.co_filename, frame.f_lineno, getattr(code, "co_qualname", code.co_name)])
        frame = frame.f_back
    return "stack\t%d\t%s" % (threading.get_native_id(), json.dumps(frames))


def first(n):
    print(told(sys._getframe()), flush=True), print("ready", flush=True), sys.stdin.readline()


def other(n):
    print(told(sys._getframe()), flush=True), said.set(), over.acquire()


class Attribute:
    def __init__(self, n, end):
        self.n, self.end = n, end

    def __getattr__(self, name):
        deep(self.n, self.end)
        return 0


class Made:
    def __init__(self, n, end):
        deep(n, end)


class Context:
    def __init__(self, n, end):
        self.n, self.end = n, end

    def __enter__(self):
        deep(self.n, self.end)

    def __exit__(self, *_):
        pass


def generator(n, end):
    yield from inner(n, end)


def inner(n, end):
    yield deep(n, end)


async def coroutine(n, end):
    return await awaited(n, end)


async def awaited(n, end):
    return deep(n, end)


def deep(n, end):
    if n == 0:
        return end(n)
    n -= 1
    kind = n % 12
    if kind == 0:
        return list(map(deep, [n], [end]))
    if kind == 1:
        return sorted([1], key=lambda _: deep(n, end))
    if kind == 2:
        return re.sub("x", lambda _: str(deep(n, end)), "x")
    if kind == 3:
        return functools.reduce(lambda a, b: deep(n, end), [1, 2])
    if kind == 4:
        return [x for x in generator(n, end)]
    if kind == 5:
        return Attribute(n, end).missing
    if kind == 6:
        return exec("deep(n, end)", globals(), {"n": n, "end": end})
    if kind == 7:
        return Made(n, end)
    if kind == 8:
        with Context(n, end):
            return 0
    if kind == 9:
        try:
            coroutine(n, end).send(None)
        except StopIteration:
            return 0
    if kind == 10:
        return max([deep(n, end) for _ in [1]], default=0)
    return next(generator(n, end))


said, over = threading.Event(), threading.Lock()
over.acquire()
thread = threading.Thread(target=deep, args=(30, other))
thread.start()
said.wait()
deep(int(sys.argv[1]), first)
over.release()
