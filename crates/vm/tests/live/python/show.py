# Objects and what repr says of them.
import collections, ctypes, datetime, decimal, enum, re, threading, types

kept = []


def show(value, text=None):
    kept.append(value)
    say("object", id(value), repr(value) if text is None else text)


def opaque(value, name):
    show(value, "<%s at %#x>" % (name, id(value)))


for value in (None, True, False, 0, 1, -1, 255, 256, 2**30 - 1, 2**30, -2**30, 2**60, 2**63, -2**64, 10**9, 10**18, 10**27 + 7,
              3**200, -7**300, 2**1199, 10**360):
    show(value)
show(2**3000, "<int 2**3030 or less>")
show(-2**3000, "<int -2**3030 or less>")
for value in (0.0, -0.0, 1.0, -1.5, 0.1, 1e15, 1e16, 123456789012345678.0, 1e-4, 1e-5, 9.999e-5, 1e100, 1.5e300, 5e-324, 1.7976931348623157e308,
              float("inf"), float("-inf"), float("nan"), 1/3, 2.5e-7, 1e22):
    show(value)
for value in ("", "abc", "it's", 'say "hi"', "both ' and \"", "tab\tnl\ncr\r\\", "\0\x01\x1f\x7f", "é", "\x80\x9f\xa0\xad\xff", "Ā", "日本語",
              "𝄞 music", "\ud800 lone", "\u2028\u200b\ufeff", "\U000e0001", "mixed é 日 𝄞", "a" * 199, "é" * 200, "日" * 150):
    show(value)
show("a" * 1000, repr("a" * 200) + "…")
show("日" * 201, repr("日" * 200) + "…")
for value in (b"", b"abc", b"it's", b'"', b"\0\xff\n\\", b"SELECT 'x'", bytes(range(256))[:200], bytearray()):
    show(value)
# CPython puts a backslash before this quote although it chose the other kind.
show(bytearray(b"x'y"), "bytearray(b\"x'y\")")
cut = bytearray(b"hello world")
del cut[:6]
show(cut)
show(b"z" * 201, repr(b"z" * 200) + "…")
for value in ((), (1,), (1, "two", 3.0), [], [None, [1, [2]]][:1], [1, (2, [])], {}, {"a": 1}, {1: [2], "b": {"c": None}}, [[]], ([],)):
    show(value)
deleted = {i: str(i) for i in range(40)}
for i in range(30):
    del deleted[i]
show(deleted)
mixed = {"a": 1, "b": 2}
mixed[3] = 4
show(mixed)
wide = {"k%d" % i: i for i in range(300)}
show(wide, "{" + ", ".join("'k%d': %d" % (i, i) for i in range(16)) + ", …}")
show(list(range(17)), "[" + ", ".join(map(str, range(16))) + ", …]")
show(list(range(16)))
show([[[[1]]]], "[[[…]]]")
show([({"x": 1},)], "[({…},)]")
circle = []
circle.append(circle)
show(circle, "[[[…]]]")


class Plain:
    pass


class Text(str):
    __slots__ = ()
    def __repr__(self): raise SystemExit


class Number(int):
    pass


class Color(enum.IntEnum):
    RED = 7


Point = collections.namedtuple("Point", "x y")


class Über:
    class Inner:
        pass


class Holder:
    def __init__(self):
        self.one = 1
        self.two = "2"


opaque(Plain(), "__main__.Plain")
opaque(Über.Inner(), "__main__.Über.Inner")
opaque(object(), "object")
opaque(re.compile("x"), "re.Pattern")
opaque(threading.Lock(), type(threading.Lock()).__module__ + "." + type(threading.Lock()).__qualname__)
opaque(datetime.date(2000, 1, 1), "datetime.date")
opaque(decimal.Decimal(1), "decimal.Decimal")
opaque(len, "builtin_function_or_method")
opaque(show, "function")
opaque(sys, "module")
opaque(iter([]), "list_iterator")
opaque({1}, "set")
opaque(range(3), "range")
opaque(types.SimpleNamespace(), "types.SimpleNamespace")
opaque(ValueError("x"), "ValueError")
opaque(collections.deque(), "collections.deque")
show(Text("sub"), "'sub'")
show(Text("日本"), "'日本'")
show(Number(5), "5")
show(Color.RED, "7")
show(Point(1, 2), "(1, 2)")
show(collections.OrderedDict(a=1), "{'a': 1}")
show(collections.Counter("a"), "{'a': 1}")
for kind in (int, Plain, Über.Inner, collections.deque, datetime.date, ValueError, Color, Text):
    show(kind, "<class '%s'>" % ((kind.__module__ + "." if kind.__module__ != "builtins" else "") + kind.__qualname__))
holders = [Holder() for _ in range(3)]
show(vars(holders[0]), "{'one': 1, 'two': '2'}")
del holders[1].one
show(vars(holders[1]), "{'two': '2'}")
holders[2].three = 3
show(vars(holders[2]), "{'one': 1, 'two': '2', 'three': 3}")


def call(convention, registers, text):
    say("call", convention, ",".join(map(str, registers)), text)


def array(*values):
    kept.append(values)
    made = (ctypes.c_void_p * max(1, len(values)))(*[id(value) for value in values])
    kept.append(made)
    return ctypes.addressof(made)


def address(value):
    kept.append(value)
    return id(value)


arguments = ("SELECT 1", 2, None)
plain = address(arguments)
call("Tuple", (0, plain, 0, 0, 0), "'SELECT 1', 2, None")
call("Tuple", (0, address(()), 0, 0, 0), "")
call("TupleKeywords", (0, plain, 0, 0, 0), "'SELECT 1', 2, None")
call("TupleKeywords", (0, plain, address({"timeout": 1.5, "x": [1]}), 0, 0), "'SELECT 1', 2, None, timeout=1.5, x=[1]")
call("TupleKeywords", (0, address(()), address({"timeout": 1.5}), 0, 0), "timeout=1.5")
call("One", (0, plain, 0, 0, 0), "('SELECT 1', 2, None)")
call("None", (0, 0, 0, 0, 0), "")
call("Fast", (0, array(*arguments), 3, 0, 0), "'SELECT 1', 2, None")
call("Fast", (0, array(*arguments), 2 | 1 << 63, 0, 0), "'SELECT 1', 2")
call("FastKeywords", (0, array(*arguments), 3, 0, 0), "'SELECT 1', 2, None")
call("FastKeywords", (0, array(*arguments), 1, address(("a", "b")), 0), "'SELECT 1', a=2, b=None")
call("FastKeywords", (0, array(*arguments), 0, address(("a",)), 0), "a='SELECT 1'")
call("Method", (0, 0, array(*arguments), 2, address(("b",))), "'SELECT 1', 2, b=None")
call("Fast", (0, array(*range(20)), 20, 0, 0), ", ".join(map(str, range(16))) + ", …")
ready()
