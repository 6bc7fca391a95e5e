# What `lancet patch python:…` has the VM execute in a namespace of its own, in which `job` says what to do. It leaves its answer
# as `answer`: fields are separated by U+001F, records by U+001E, and the first field says how it went.
import _signal
import ast
import os
import sys
import types

PATCHES = "__lancet_patches__"
ORIGINAL = "lancet_original"
# Values that are the same wherever they are equal.
PLAIN = (bool, int, float, complex, str, bytes, type(None))
# CO_GENERATOR, CO_COROUTINE, CO_ASYNC_GENERATOR (Include/cpython/code.h): its calls may stand still where no thread runs them.
SUSPENDS = 0x20 | 0x80 | 0x200
what, target, path, text, number = job


class Refused(Exception):
    pass


def say(words):
    return "\u001f".join(" ".join(str(word).replace("\u001e", " ").replace("\u001f", " ").split()) for word in words)


def module_of(words):
    """The module that the target begins with, and how many words name it."""
    for count in range(len(words) - 1, 0, -1):
        module = sys.modules.get(".".join(words[:count]))
        if isinstance(module, types.ModuleType):
            return module, count
    main = sys.modules.get("__main__")
    file = getattr(main, "__file__", None) or ""
    if len(words) > 1 and os.path.splitext(os.path.basename(file))[0] == words[0]:
        return main, 1
    raise Refused(f"no module of this name is loaded: {'.'.join(words[:-1]) or words[0]} (write module.function or module.Class.method)")


def function_in(value, name):
    """The function behind what wraps it."""
    seen = 0
    while not isinstance(value, types.FunctionType) and seen < 32:
        seen += 1
        if isinstance(value, (staticmethod, classmethod)):
            value = value.__func__
        elif isinstance(value, property) and value.fget is not None:
            value = value.fget
        elif hasattr(value, "__wrapped__"):
            value = value.__wrapped__
        elif isinstance(value, (types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType)):
            raise Refused(f"{name} is written in C: name its C function instead (lancet patch FUNCTION=FILE.so:NEW)")
        else:
            raise Refused(f"{name} is no function but a {type(value).__name__}")
    # The innermost, of decorated functions.
    while isinstance(value, types.FunctionType) and seen < 32:
        inner = value.__dict__.get("__wrapped__")
        if not isinstance(inner, types.FunctionType):
            return value
        value, seen = inner, seen + 1
    raise Refused(f"{name} is wrapped too often")


def find():
    """The class or module that has the function, its name, and the function."""
    words = target.split(".")
    module, count = module_of(words)
    holder, name = module, words[-1]
    for word in words[count:-1]:
        holder = vars(holder).get(word)
        if not isinstance(holder, type):
            raise Refused(f"{word} is no class of {module.__name__}")
    if name not in vars(holder):
        base = next((base for base in getattr(holder, "__mro__", ())[1:] if name in vars(base)), None)
        if base is None:
            raise Refused(f"{'.'.join(words[:-1])} has no {name}")
        raise Refused(f"{name} is inherited: name {base.__module__}.{base.__qualname__}.{name}")
    function = function_in(vars(holder)[name], name)
    if function.__globals__ is not vars(module):
        raise Refused(elsewhere(module, holder, name, function))
    return holder, name, function


def elsewhere(module, holder, name, function):
    """Why a function is not replaced that has other globals than the module through which it was named: what the file defines would not
    be found by it, or would be found by others."""
    home = sys.modules.get(function.__module__ or "")
    if not isinstance(home, types.ModuleType) or function.__globals__ is not vars(home):
        return f"{name} has globals of its own, which are no module's ({place_of(function)})"
    path = function.__qualname__ if "<" not in function.__qualname__ else name
    owner = home.__name__ if home.__name__ != "__main__" else os.path.splitext(os.path.basename(home.__file__ or "__main__"))[0]
    return f"{name} is not {module.__name__}'s own, it is imported: name {owner}.{path}, which replaces it everywhere"


def compiled(holder, name, original):
    """The file, with the function in a class of the holder's name where it is a method, and without its decorators; whether it
    calls the old function, by the name `original` from now on; and the global names that its functions assign."""
    try:
        tree = ast.parse(text, path)
    except (SyntaxError, ValueError) as error:
        raise Refused(f"{path}:{getattr(error, 'lineno', 0) or 0}: {getattr(error, 'msg', error)}") from None
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id == ORIGINAL]
    for node in calls:
        node.id = original
    own = {one for node in ast.walk(tree) if isinstance(node, ast.Global) for one in node.names}
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    at = [place for place, node in enumerate(tree.body) if isinstance(node, kinds) and node.name == name]
    if not at:
        raise Refused(f"{path} does not define it: it has no `def {name}` at its outermost level")
    node = tree.body[at[-1]]
    node.decorator_list = []
    if isinstance(holder, type):
        body = ast.ClassDef(name=holder.__name__, bases=[], keywords=[], body=[node], decorator_list=[])
        body.type_params = []
        tree.body[at[-1]] = ast.copy_location(body, node)
        ast.fix_missing_locations(tree)
    try:
        return compile(tree, path, "exec", dont_inherit=True), bool(calls), own
    except (SyntaxError, ValueError) as error:
        raise Refused(f"{path}:{getattr(error, 'lineno', 0) or 0}: {getattr(error, 'msg', error)}") from None


def place_of(function):
    return f"{function.__code__.co_filename}:{function.__code__.co_firstlineno}"


def all_patches():
    return vars(sys).get(PATCHES, [])


def keep(patches):
    if patches:
        setattr(sys, PATCHES, patches)
    elif PATCHES in vars(sys):
        delattr(sys, PATCHES)


def definitions(patch):
    """How many the file has: the function, and what it adds; the old function is none of them."""
    names = patch["names"].items()
    return 1 + sum(not (name.startswith(ORIGINAL) or is_same(*change)) for name, change in names)


def held(space, key):
    """The value of a name as a list of one, and an empty list if it is not there."""
    return [space[key]] if key in space else []


def is_same(a, b):
    return len(a) == len(b) and all(one is other for one, other in zip(a, b))


class Names(dict):
    """The names that a file defines as it is executed, in the globals of the function that it replaces, with a journal by which they are
    put back: what each was, and what it is now. The function's own name is not defined there: `made` is what the file has made of it.
    What the program keeps in a name of the module is not changed: such a file is refused, unless both are functions."""

    def __init__(self, space, captured):
        super().__init__()
        self.space, self.captured, self.made, self.journal, self.refused = space, captured, None, {}, None

    def __setitem__(self, key, value):
        if key == self.captured:
            self.made = value
        elif key.startswith("__") and key.endswith("__"):
            # The file's own, as its text on itself.
            super().__setitem__(key, value)
        elif self.may_set(key, value):
            # First the journal: an exception may come between any two steps.
            self.journal.setdefault(key, [held(self.space, key), None])[1] = [value]
            self.space[key] = value

    def __delitem__(self, key):
        if key not in self.journal:
            self.refuse(key)
        self.journal[key][1] = []
        del self.space[key]

    def may_set(self, key, value):
        if key in self.journal or key not in self.space:
            return True
        now = self.space[key]
        if now is value or type(now) is type(value) in PLAIN and now == value:
            return False
        if not (isinstance(now, types.FunctionType) and isinstance(value, types.FunctionType)):
            self.refuse(key)
        return True

    def refuse(self, key):
        self.refused = f"it sets {key}, which the program has there already: give it another name"
        raise Refused(self.refused)


def put_back(space, journal, own=()):
    """Puts back names, unless something else has changed them since. Those in `own` are changed by the file's functions as they run."""
    for key, (was, value) in reversed(list(journal.items())):
        now = held(space, key)
        if not is_same(now, value) and (was or key not in own):
            continue
        if was:
            space[key] = was[0]
        elif now:
            del space[key]


def is_meant_for_program(error):
    """Whether an exception was raised by a handler of a signal that came meanwhile, so that it is the program's."""
    if isinstance(error, KeyboardInterrupt):
        return True
    handlers = set()
    for number in range(1, 65):
        try:
            handler = _signal.getsignal(number)
        except ValueError:
            continue
        handlers.add(getattr(getattr(handler, "__func__", handler), "__code__", None))
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code in handlers:
            return True
        trace = trace.tb_next
    return False


def may_run(patch):
    """Whether a call of what the file defines may not have ended."""
    if patch["code"].co_flags & SUSPENDS or "greenlet" in sys.modules:
        return True
    for frame in sys._current_frames().values():
        while frame is not None:
            if frame.f_code.co_filename == patch["path"]:
                return True
            frame = frame.f_back
    return False


def forget(patch):
    """Takes out the names that the file has added, and the patch itself, unless a call may still need them."""
    added = {key: change for key, change in patch["names"].items() if not change[0]}
    if added and may_run(patch):
        return False
    put_back(patch["space"], added, patch["own"])
    rest = [one for one in all_patches() if one is not patch]
    for later in rest:
        # It has found a name of this patch there, and must not put it back.
        for key, change in later["names"].items():
            mine = patch["names"].get(key)
            if later["space"] is patch["space"] and mine is not None and is_same(change[0], mine[1]):
                change[0] = mine[0]
    keep(rest)
    return True


def executed(code, names):
    """Executes the file, and returns what it has made of the function's name."""
    try:
        exec(code, names.space, names)
        if names.refused:
            raise Refused(names.refused)
    except Refused:
        raise
    except BaseException as error:
        if is_meant_for_program(error):
            raise
        lines, trace = [], error.__traceback__
        while trace is not None:
            if trace.tb_frame.f_code.co_filename == path:
                lines.append(trace.tb_lineno)
            trace = trace.tb_next
        at = f"{path}:{lines[-1]}: " if lines else ""
        raise Refused(f"{at}{error} ({type(error).__name__})") from None
    return names.made


def apply():
    holder, name, old = find()
    patches = all_patches()
    number = max((patch["id"] for patch in patches), default=0) + 1
    original = f"{ORIGINAL}_s{number}"
    code, wraps, own = compiled(holder, name, original)
    is_method = isinstance(holder, type)
    names = Names(old.__globals__, holder.__name__ if is_method else name)
    try:
        if wraps:
            kept = types.FunctionType(old.__code__, names.space, name, old.__defaults__, old.__closure__)
            kept.__kwdefaults__ = old.__kwdefaults__
            names[original] = kept
        before = {key: held(names.space, key) for key in own}
        made = executed(code, names)
        for key, was in before.items():
            names.journal.setdefault(key, [was, held(names.space, key)])
        new = function_in(vars(made)[name] if is_method else made, name)
        if new.__code__.co_freevars != old.__code__.co_freevars:
            uses = lambda function: ", ".join(function.__code__.co_freevars).replace("__class__", "super()") or "none"
            raise Refused(f"it uses other variables of its surroundings: {uses(new)}, and the old one {uses(old)}")
        patch = {"id": number, "target": target, "path": path, "old": place_of(old), "function": old,
                 "was": (old.__code__, old.__defaults__, old.__kwdefaults__), "code": new.__code__,
                 "space": names.space, "names": names.journal, "own": own, "ends": False}
        defaults, keywords = new.__defaults__, new.__kwdefaults__
        keep([*patches, patch])
    except BaseException:
        put_back(names.space, names.journal, own)
        raise
    # No other thread runs between these: the lock is given away at calls and jumps only.
    old.__code__ = patch["code"]
    old.__defaults__ = defaults
    old.__kwdefaults__ = keywords
    return ["done", number, target, path, patch["old"], definitions(patch)]


def in_force(patch):
    return patch["function"].__code__ is patch["code"]


def undo():
    patches = all_patches()
    patch = next((one for one in patches if one["id"] == number), None)
    if patch is None:
        raise Refused(f"there is no patch s{number}")
    if patch["ends"]:
        raise Refused("it is taken back already, and calls of it still run")
    function, (code, defaults, keywords) = patch["function"], patch["was"]
    if not in_force(patch):
        later = [one["id"] for one in patches if one["id"] > number and one["function"] is function and not one["ends"]]
        why = f", by patch s{later[-1]}: take that back first" if later else " by the program itself"
        raise Refused(f"the function was changed since{why}")
    function.__code__ = code
    function.__defaults__ = defaults
    function.__kwdefaults__ = keywords
    replaced = {key: change for key, change in patch["names"].items() if change[0]}
    put_back(patch["space"], replaced)
    patch["ends"] = True
    state = "done" if forget(patch) else "ends"
    return [state, number, patch["target"], patch["path"], patch["old"], 0]


def look():
    holder, name, old = find()
    compiled(holder, name, ORIGINAL)
    return ["done", 0, target, path, place_of(old), 0]


def rows():
    states = [("ends" if patch["ends"] else "in force" if in_force(patch) else "covered", patch) for patch in all_patches()]
    return [[state, patch["id"], patch["target"], patch["path"], patch["old"], definitions(patch)] for state, patch in states]


try:
    for one in all_patches():
        if one["ends"]:
            forget(one)
    if what == "list":
        found = [["done"], *rows()]
    else:
        found = [{"apply": apply, "undo": undo, "check": look}[what]()]
    answer = "\u001e".join(map(say, found))
except Refused as error:
    answer = say(["refused", error])
except Exception as error:
    if is_meant_for_program(error):
        raise
    answer = say(["refused", f"{error} ({type(error).__name__})"])
