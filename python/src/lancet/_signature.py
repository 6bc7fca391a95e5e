"""The signed header with which a request asks for its trace: who knows the secret makes it, for one request."""

from __future__ import annotations

import hashlib
import hmac
import os
import time

from . import _taken

# Signatures that are remembered as used. Only who knows the secret makes one that is.
MOST_USED = 4096


def signature(secret: str, method: str, target: str, seconds: float = 60, now: float | None = None) -> str:
    """The value of the header `X-Lancet-Trace` that has one request traced, once and within so many seconds. `target` is its path and, behind a `?`, its query:
    the path as the application sees it, decoded, and the query as it is sent."""
    until = int((time.time() if now is None else now) + seconds)
    path, _, query = target.partition("?")
    nonce = os.urandom(8).hex()
    return f"{until}:{nonce}:{_sign(secret, f'{until}:{nonce}', (method, path, query))}"


class Used:
    """Signatures that were used and have time left; each is good once, for all processes of this user's on this machine (see _taken)."""

    def __init__(self) -> None:
        self._until: dict[str, list[int]] = {}

    def is_first(self, secret: str, value: str, request: tuple[str, str, str]) -> bool:
        """Whether such a value is one for this request (method, path, query), now, and was not used before. It is used from now on."""
        stamp, _, given = value.rpartition(":")
        until, _, nonce = stamp.partition(":")
        if not (until.isascii() and until.isdigit() and len(until) <= 12 and nonce) or int(until) < time.time():
            return False
        wanted = _sign(secret, stamp, request)
        if not hmac.compare_digest(wanted.encode(), given.encode("utf-8", "replace")):
            return False
        return self._take(wanted, int(until))

    def give_back(self, value: str) -> None:
        """Takes back that such a value was used: nothing was traced by it, so it is good once more."""
        signed = value.rpartition(":")[2]
        until = self._until.pop(signed, None)
        if until is not None:
            _taken.give_back(signed, until[0])

    def _take(self, signed: str, until: int) -> bool:
        # No lock, which a thread of a parent's may have had at a fork: each of these steps is one that the interpreter's own lock makes whole.
        if len(self._until) >= MOST_USED:
            now = time.time()
            for one, last in list(self._until.items()):
                if last[0] < now:
                    self._until.pop(one, None)
            if len(self._until) >= MOST_USED:
                # None is forgotten that could be used again.
                return False
        mine = [until]
        return self._until.setdefault(signed, mine) is mine and _taken.take(signed, until, time.time())


used = Used()


def _sign(secret: str, stamp: str, request: tuple[str, str, str]) -> str:
    method, path, query = (part.encode("utf-8", "surrogateescape") for part in request)
    # With the length of the path, so that what stands behind a `?` that is its own is not taken for the query.
    text = b"%s %s %d %s?%s" % (stamp.encode(), method, len(path), path, query)
    return hmac.new(secret.encode(), text, hashlib.sha256).hexdigest()
