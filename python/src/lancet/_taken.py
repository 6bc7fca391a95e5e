"""Signatures that some process of this user's has taken on this machine, as empty files of a folder that nobody else can reach: of several workers of a server one
takes a signature. The gem for Ruby has the same folder. Where there can be none, each process remembers its own alone; where it is another's, no
signature is good."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import stat
import sys

# Files of signatures that have no time left are removed now and then: at every so many.
TIDIED_EVERY = 256

_count = itertools.count()
_told: list[str] = []


class _NotOurs(OSError):
    """The folder is not this user's alone: the name is one that anybody could take first."""


def take(signature: str, until_then: int, now: float) -> bool:
    """Takes a signature that is good until a second of the clock; False if another process has done so."""
    try:
        folder = _folder()
        if folder is None:
            return True
        os.close(os.open(_name(folder, signature, until_then), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
    except OSError:
        # Another process has taken it, or nobody could know that this one does.
        return False
    if next(_count) % TIDIED_EVERY == 0:
        _tidy(folder, now)
    return True


def give_back(signature: str, until_then: int) -> None:
    """It may be taken once more."""
    with contextlib.suppress(OSError):
        folder = _folder()
        if folder is not None:
            os.unlink(_name(folder, signature, until_then))


def _name(folder: str, signature: str, until_then: int) -> str:
    return os.path.join(folder, f"{until_then}-{signature}")


def _folder() -> str | None:
    """The folder; None if there can be none."""
    path = os.path.join(os.environ.get("TMPDIR") or "/tmp", f"lancet-signed-{os.geteuid()}")
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        pass
    except OSError as error:
        if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOENT, errno.ENOTDIR):
            return None
        raise
    seen = os.lstat(path)
    is_ours = stat.S_ISDIR(seen.st_mode) and seen.st_uid == os.geteuid() and not seen.st_mode & 0o077
    if is_ours:
        return path
    if not _told:
        _told.append(path)
        print(f"lancet: {path} is not this user's alone: no signed request is traced; remove it, or set TMPDIR", file=sys.stderr)
    raise _NotOurs


def _tidy(folder: str, now: float) -> None:
    # What is gone was removed by another process; what cannot be removed stays.
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            until_then = name.partition("-")[0]
            if until_then.isdecimal() and int(until_then) < now:
                with contextlib.suppress(OSError):
                    os.unlink(os.path.join(folder, name))
