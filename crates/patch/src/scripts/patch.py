# What `lancet patch python:…` has the VM execute in a namespace of its own, in which `job` says what to do. It leaves its answer
# as `answer`: fields are separated by U+001F, records by U+001E, and the first field says how it went.
import ast
import os
import sys
import types

PATCHES = "__lancet_patches__"
ORIGINAL = "lancet_original"
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
    return module, holder, name, function_in(vars(holder)[name], name)


def compiled(holder, name, original):
    """The file, with the function in a class of the holder's name where it is a method, and without its decorators; and whether it
    calls the old function, by the name `original` from now on."""
    try:
        tree = ast.parse(text, path)
    except (SyntaxError, ValueError) as error:
        raise Refused(f"{path}:{getattr(error, 'lineno', 0) or 0}: {getattr(error, 'msg', error)}") from None
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id == ORIGINAL]
    for node in calls:
        node.id = original
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
        return compile(tree, path, "exec", dont_inherit=True), bool(calls)
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
    return 1 + sum(not name.startswith(ORIGINAL) for name in patch["added"])


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
    if patch["added"] and may_run(patch):
        return False
    space = vars(patch["module"])
    for key, value in patch["added"].items():
        if space.get(key) is value:
            del space[key]
    keep([one for one in all_patches() if one is not patch])
    return True


def apply():
    module, holder, name, old = find()
    patches = all_patches()
    number = max((patch["id"] for patch in patches), default=0) + 1
    original = f"{ORIGINAL}_s{number}"
    code, wraps = compiled(holder, name, original)
    space = dict(vars(module))
    before = dict(space)
    try:
        exec(code, space)
        made = space[holder.__name__].__dict__[name] if isinstance(holder, type) else space[name]
        new = function_in(made, name)
    except Refused:
        raise
    except Exception as error:
        lines, trace = [], error.__traceback__
        while trace is not None:
            if trace.tb_frame.f_code.co_filename == path:
                lines.append(trace.tb_lineno)
            trace = trace.tb_next
        at = f"{path}:{lines[-1]}: " if lines else ""
        raise Refused(f"{at}{error} ({type(error).__name__})") from None
    if new.__code__.co_freevars != old.__code__.co_freevars:
        uses = lambda function: ", ".join(function.__code__.co_freevars).replace("__class__", "super()") or "none"
        raise Refused(f"it uses other variables of its surroundings: {uses(new)}, and the old one {uses(old)}")
    skipped = {holder.__name__ if isinstance(holder, type) else name, "__builtins__"}
    left = {key for patch in patches if patch["ends"] and patch["module"] is module for key in patch["added"]}
    added = [key for key in space if key not in skipped and (key not in before or key in left and space[key] is not before[key])]
    if wraps:
        kept = types.FunctionType(old.__code__, vars(module), name, old.__defaults__, old.__closure__)
        kept.__kwdefaults__ = old.__kwdefaults__
        space[original] = kept
        added.append(original)
    was, old_at = (old.__code__, old.__defaults__, old.__kwdefaults__), place_of(old)
    code, defaults, keywords = new.__code__, new.__defaults__, new.__kwdefaults__
    patch = {"id": number, "target": target, "path": path, "old": old_at, "function": old, "was": was, "code": code,
             "module": module, "added": {key: space[key] for key in added}, "ends": False}
    vars(module).update(patch["added"])
    keep([*patches, patch])
    # No other thread runs between these: the lock is given away at calls and jumps only.
    old.__code__ = code
    old.__defaults__ = defaults
    old.__kwdefaults__ = keywords
    return ["done", number, target, path, old_at, definitions(patch)]


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
    patch["ends"] = True
    state = "done" if forget(patch) else "ends"
    return [state, number, patch["target"], patch["path"], patch["old"], 0]


def look():
    _, holder, name, old = find()
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
    answer = say(["refused", f"{error} ({type(error).__name__})"])
