"""The commands of `lancet` that watch this process, and what they have seen as Python objects."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any, cast, overload

from . import _companion
from ._error import Error, Lost

# What a command tells beside what it has seen: of the process, of what was found in sentences, and of what was lost.
BESIDE = ("process", "end", "losses", "verdict")
# What a table of counts adds up.
SUMS = ("total", "sum")
# Exit codes of one that has done its work. 3: a limit was exceeded that was asked for; 4: something is missing.
DONE = (0, 3, 4)

OF_PARENT = "this process was forked within the block: what the block has done is its parent's to tell"


def words(options: Mapping[str, Any]) -> list[str]:
    """Options of a function as those of a command line: `min_time="1ms"`, `follow_forks=True`, `c=True`."""
    found: list[str] = []
    for name, value in options.items():
        flag = "-" + name if len(name) == 1 else "--" + name.replace("_", "-")
        for one in cast("list[Any]", value) if isinstance(value, (list, tuple)) else [value]:
            if one is True:
                found.append(flag)
            elif one is not False and one is not None:
                found += [flag, str(one)]
    return found


class Watch:
    """A context manager: what the code within does. Afterwards a sequence of dicts with the names of the command's JSON."""

    def __init__(self, command: str, words: list[str], only: str | None = None) -> None:
        self._request: dict[str, Any] = {"command": command, "words": words}
        # The one kind of records that is told, where a command tells others too.
        self._only = only
        self._companion: _companion.Companion | None = None
        self._watch: int | None = None
        #: What was seen, when the block has ended.
        self.records: list[dict[str, Any]] = []
        #: What the command has said: how many functions are hooked, what was lost.
        self.said: list[str] = []
        #: What may be missing among the records, a sentence each.
        self.lost: list[str] = []
        #: Whether nothing of what was asked for was ever in the process, so that there was nothing to see.
        self.nowhere = False

    def __enter__(self) -> Watch:
        self._companion, begun, _ = _companion.begin(do="watch", **self._request)
        self._watch = begun["watch"]
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None) -> None:
        watch, self._watch = self._watch, None
        if self._companion is None:
            return
        if self._companion.is_forked():
            self.lost = [OF_PARENT]
            return
        try:
            ended, records = self._companion.ask(do="finish", watch=watch)
            self._see(records, ended)
        except Error:
            if kind is None:
                raise
            # What the program raises is not replaced.

    def _see(self, records: list[dict[str, Any]], ended: dict[str, Any]) -> None:
        self.said = ended["said"]
        if ended["exit"] not in DONE:
            command = self._request["command"]
            raise Lost(": ".join([f"lancet {command} was ended before its block, and what it had seen is not all", *self.said]))
        losses = [record for record in records if record["record"] == "losses"]
        self.lost, self.nowhere = _missing(losses, ended)
        self.records = [record for record in _without_ours(records) if self._only in (None, record["record"])]

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.records)

    def __len__(self) -> int:
        return len(self.records)

    @overload
    def __getitem__(self, index: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, index: slice) -> list[dict[str, Any]]: ...
    def __getitem__(self, index: int | slice) -> dict[str, Any] | list[dict[str, Any]]:
        return self.records[index]


def run(command: str, words: list[str]) -> list[dict[str, Any]]:
    """The records of a command that ends by itself."""
    _, ended, records = _companion.begin(do="run", command=command, words=words)
    if ended["exit"] not in DONE:
        raise Error("; ".join(ended["said"]) or f"lancet {command} was ended before it had done its work")
    return records


def ended(command: str, words: list[str]) -> dict[str, Any]:
    """How a command has ended that writes its result into a file: its exit code and what it has said."""
    result: dict[str, Any] = _companion.begin(do="run", command=command, words=words)[1]
    return result


def _missing(losses: list[dict[str, Any]], ended: dict[str, Any]) -> tuple[list[str], bool]:
    """What a command says that it has lost; whether nothing of what was asked for was ever there."""
    told = [loss for record in losses for loss in record["losses"]]
    known = [loss for loss in told if loss["what"] != "hooks" or loss["pid"] is not None]
    lost: list[str] = [loss["text"] for loss in known]
    more = sum(record["more"] for record in losses)
    if more:
        lost.append(f"{more} more losses")
    if ended["lost"]:
        lost.append(f"{ended['lost']} records found no room")
    if not losses and ended["exit"] == 4:
        lost += ended["said"]
    return lost, len(known) < len(told)


def _without_ours(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Records of the program's acts, and not of what this package does to ask; sums are those of the rest."""
    acts = [record for record in records if record["record"] not in BESIDE]
    ours, shown = [act for act in acts if _is_ours(act)], [act for act in acts if not _is_ours(act)]
    for sums in shown:
        if sums["record"] in SUMS:
            for name, number in sums.items():
                if isinstance(number, int):
                    sums[name] = number - sum(row.get(name, 0) for row in ours)
    return shown


def _is_ours(record: dict[str, Any]) -> bool:
    places = [place["path"] for place in (record.get("place"), record.get("library")) if place]
    return any(path and path.startswith(_companion.HERE + "/") for path in places)
