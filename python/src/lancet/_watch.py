"""The commands of `lancet` that watch this process, and what they have seen as Python objects."""

from . import _companion
from ._error import Error

# Those of the process's acts that a watch is about.
EVENTS = ("call", "syscall", "row", "total", "signal", "fork")


def words(options):
    """Options of a function as those of a command line: `min_time="1ms"`, `follow_forks=True`, `c=True`."""
    found = []
    for name, value in options.items():
        flag = "-" + name if len(name) == 1 else "--" + name.replace("_", "-")
        for one in value if isinstance(value, (list, tuple)) else [value]:
            if one is True:
                found.append(flag)
            elif one is not False and one is not None:
                found += [flag, str(one)]
    return found


class Watch:
    """A context manager: what the code within does. Afterwards a sequence of dicts with the names of the command's JSON."""

    def __init__(self, command, words):
        self._request = {"command": command, "words": words}
        self._companion = self._watch = None
        #: What was seen, when the block has ended.
        self.records = []
        #: What the command has said: how many functions are hooked, what was lost.
        self.said = []

    def __enter__(self):
        self._companion, begun, _ = _companion.begin(do="watch", **self._request)
        self._watch = begun["watch"]
        return self

    def __exit__(self, kind, value, traceback):
        watch, self._watch = self._watch, None
        try:
            ended, records = self._companion.ask(do="finish", watch=watch)
        except _companion.Lost:
            if kind is None:
                raise
            # What the program raises is not replaced.
            return
        self.said = ended["said"]
        self.records = [record for record in records if _is_shown(record)]

    def __iter__(self):
        return iter(self.records)

    def __len__(self):
        return len(self.records)

    def __getitem__(self, index):
        return self.records[index]


def run(command, words):
    """The records of a command that ends by itself."""
    _, ended, records = _companion.begin(do="run", command=command, words=words)
    # 3: a limit was exceeded that was asked for; 4: it is done, and something is missing.
    if ended["exit"] not in (0, 3, 4):
        raise Error("; ".join(ended["said"]) or f"lancet {command} was ended before it had done its work")
    return records


def ended(command, words):
    """How a command has ended that writes its result into a file: its exit code and what it has said."""
    return _companion.begin(do="run", command=command, words=words)[1]


def _is_shown(record):
    """Not what this package does to ask."""
    if record["record"] not in EVENTS:
        return False
    lines = [line for line in (record.get("line"), record.get("library")) if isinstance(line, dict)]
    return not any(line["path"].startswith(_companion.HERE + "/") for line in lines)
