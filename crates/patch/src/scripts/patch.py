# What `lancet patch python:…` has the VM execute in a namespace of its own, in which `job` says what to do. It leaves its answer
# as `answer`: fields are separated by U+001F, records by U+001E, and the first field says how it went.
import ast
import os
import sys
import types

PATCHES = "__lancet_patches__"
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


def compiled(holder, name):
    """The file, with the function in a class of the holder's name where it is a method, and without its decorators."""
    try:
        tree = ast.parse(text, path)
    except (SyntaxError, ValueError) as error:
        raise Refused(f"{path}:{getattr(error, 'lineno', 0) or 0}: {getattr(error, 'msg', error)}") from None
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
        return compile(tree, path, "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        raise Refused(f"{path}:{getattr(error, 'lineno', 0) or 0}: {getattr(error, 'msg', error)}") from None


def place_of(function):
    return f"{function.__code__.co_filename}:{function.__code__.co_firstlineno}"


def apply():
    module, holder, name, old = find()
    code = compiled(holder, name)
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
    added = [key for key in space if key not in before and key not in skipped]
    patches = vars(sys).get(PATCHES, [])
    number = max((patch["id"] for patch in patches), default=0) + 1
    was, old_at = (old.__code__, old.__defaults__, old.__kwdefaults__), place_of(old)
    code, defaults, keywords = new.__code__, new.__defaults__, new.__kwdefaults__
    patch = {"id": number, "target": target, "path": path, "old": old_at, "function": old, "was": was, "code": code,
             "module": module, "added": {key: space[key] for key in added}}
    vars(module).update(patch["added"])
    setattr(sys, PATCHES, [*patches, patch])
    # No other thread runs between these: the lock is given away at calls and jumps only.
    old.__code__ = code
    old.__defaults__ = defaults
    old.__kwdefaults__ = keywords
    return ["done", number, target, path, old_at, 1 + len(added)]


def in_force(patch):
    return patch["function"].__code__ is patch["code"]


def undo():
    patches = vars(sys).get(PATCHES, [])
    patch = next((one for one in patches if one["id"] == number), None)
    if patch is None:
        raise Refused(f"there is no patch s{number}")
    function, (code, defaults, keywords) = patch["function"], patch["was"]
    if not in_force(patch):
        later = [one["id"] for one in patches if one["id"] > number and one["function"] is function]
        why = f", by patch s{later[-1]}: take that back first" if later else " by the program itself"
        raise Refused(f"the function was changed since{why}")
    function.__code__ = code
    function.__defaults__ = defaults
    function.__kwdefaults__ = keywords
    space = vars(patch["module"])
    for key, value in patch["added"].items():
        if space.get(key) is value:
            del space[key]
    rest = [one for one in patches if one is not patch]
    if rest:
        setattr(sys, PATCHES, rest)
    else:
        delattr(sys, PATCHES)
    return ["done", number, patch["target"], patch["path"], patch["old"], 0]


def look():
    _, holder, name, old = find()
    compiled(holder, name)
    return ["done", 0, target, path, place_of(old), 0]


def rows():
    return [["in force" if in_force(patch) else "covered", patch["id"], patch["target"], patch["path"], patch["old"],
             1 + len(patch["added"])] for patch in vars(sys).get(PATCHES, [])]


try:
    if what == "list":
        found = [["done"], *rows()]
    else:
        found = [{"apply": apply, "undo": undo, "check": look}[what]()]
    answer = "\u001e".join(map(say, found))
except Refused as error:
    answer = say(["refused", error])
except Exception as error:
    answer = say(["refused", f"{error} ({type(error).__name__})"])
