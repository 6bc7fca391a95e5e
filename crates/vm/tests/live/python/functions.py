# Names and the C functions behind them, by CPython's own PyCFunction_GetFunction where it can say.
import _socket, _thread, array, collections, ctypes, datetime, functools, itertools, json, logging.handlers, math
import operator, os.path, re, struct, threading, time, types, xml.dom, zlib

api = ctypes.pythonapi
for name in ("PyCFunction_GetFunction", "PyCFunction_GetFlags", "PyType_GetSlot"):
    getattr(api, name).argtypes = [ctypes.py_object] + [ctypes.c_int] * (name == "PyType_GetSlot")
    getattr(api, name).restype = ctypes.c_int if name == "PyCFunction_GetFlags" else ctypes.c_void_p


def function(name, builtin):
    flags = api.PyCFunction_GetFlags(builtin) & ~0x70
    say("function", name, api.PyCFunction_GetFunction(builtin), flags)


for module in (time, math, _socket, zlib, itertools, operator, struct, _thread, os, sys, array, functools):
    for name, value in vars(module).items():
        if type(value) is types.BuiltinFunctionType:
            function(module.__name__ + "." + name, value)
for name in ("len", "print", "exec", "sorted", "__import__", "sum"):
    function(name, __builtins__.__dict__[name] if hasattr(__builtins__, "__dict__") else __builtins__[name])
function("builtins.len", len)
function("list.append", [].append)
function("builtins.dict.fromkeys", dict.fromkeys)
function("str.maketrans", str.maketrans)
function("os.path.os.getpid", os.getpid)
function("handlers.os.getpid", os.getpid)

# Methods: bound, they are builtins.
sock = _socket.socket()
for obj in ([], {}, "", b"", bytearray(), set(), frozenset(), (), 1, 1.5, sock, collections.deque(), collections.OrderedDict(),
            datetime.datetime(2000, 1, 1), re.compile("x"), zlib.compressobj(), threading.Lock(), array.array("i"), object()):
    kind = type(obj)
    for name in dir(kind):
        method = getattr(obj, name)
        if type(method) is types.BuiltinFunctionType and type(kind.__dict__.get(name)) is not type(method):
            where = kind.__module__ + "." + kind.__qualname__
            target = sys.modules.get(kind.__module__)
            if getattr(target, kind.__qualname__, None) is kind:
                function(where + "." + name, method)
function("socket.socket.send", sock.send)
if sys.version_info >= (3, 10):
    for name, slot in ("int.__add__", 7), ("list.__len__", 45), ("str.__repr__", 66), ("collections.deque.__iter__", 62):
        kind = eval(name.rpartition(".")[0])
        say("slot", name, api.PyType_GetSlot(kind, slot))


class Wraps:
    static = staticmethod(time.sleep)
    plain = staticmethod(len)
    length = [].__len__
    bound = json.JSONEncoder().encode


sys.modules["twice.deep"] = types.ModuleType("twice.deep")
sys.modules["other.deep"] = types.ModuleType("other.deep")
sys.modules["wraps"] = types.SimpleNamespace()
deep = sys.modules["only.ünique"] = types.ModuleType("only.ünique")
deep.Wraps = Wraps
many = sys.modules["many"] = types.ModuleType("many")
for i in range(100000 // 4):
    setattr(many, "name%d" % i, i)
many.last = time.sleep
for i in range(100):
    delattr(many, "name%d" % (i * 3))
function("ünique.Wraps.static", time.sleep)
function("only.ünique.Wraps.plain", len)
function("many.last", time.sleep)
try:
    sys.path.append("/usr/lib/python3/dist-packages")
    import MySQLdb
    method = MySQLdb._mysql.connection.query
    definition = ctypes.c_void_p.from_address(id(method) + 40).value
    say("function", "_mysql.connection.query", ctypes.c_void_p.from_address(definition + 8).value, 1)
    say("function", "MySQLdb._mysql.connection.query", ctypes.c_void_p.from_address(definition + 8).value, 1)
except ImportError:
    say("none", "MySQLdb")

say("error", "json.dumps", "the function is written in Python")
say("error", "json.JSONEncoder.encode", "the function is written in Python")
say("error", "wraps.Wraps.bound", "the module or class has nothing of this name")
say("error", "ünique.Wraps.bound", "the function is written in Python")
say("error", "time.nope", "the module or class has nothing of this name")
say("error", "socket.socket.nope", "the module or class has nothing of this name" if "socket" in sys.modules else "no module of this name is loaded")
say("error", "nosuch.sleep", "no module of this name is loaded")
say("error", "nosuch", "no module of this name is loaded")
say("error", "deep.x", "several loaded modules end in this name")
say("error", "math.pi", "the name is not that of a function")
say("error", "collections.deque", "the name is not that of a function")
say("error", "list.nope", "the module or class has nothing of this name")
say("error", "time", "the name is not that of a function")
say("error", "", "no module of this name is loaded")
say("error", "time.", "the module or class has nothing of this name")
say("error", ".sleep", "no module of this name is loaded")
ready()
