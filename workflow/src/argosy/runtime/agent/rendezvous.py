"""The key-value store over which Horovod's ranks find each other.

Protocol: GET, PUT and DELETE of /scope/key, as in horovod/runner/http/http_server.py (0.28.1).
"""

from __future__ import annotations

import threading

# A rank's addresses take some hundred bytes; these bounds only keep a fault from eating the memory.
MAX_VALUE = 1 << 20
_MAX_TOTAL = 256 << 20
_MAX_PATH = 1024


class Rendezvous:
    """Values by scope and key. Safe to call from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._scopes: dict[str, dict[str, bytes]] = {}
        self._finished: dict[str, set[str]] = {}
        self._total = 0

    def get(self, path: str) -> bytes | None:
        """The value at /scope/key, None when there is none. Raises ValueError for a bad path."""
        scope, key = _split(path)
        with self._lock:
            return self._scopes.get(scope, {}).get(key)

    def put(self, path: str, value: bytes) -> None:
        """Set a value. Raises ValueError for a bad path, MemoryError when the store is full."""
        scope, key = _split(path)
        with self._lock:
            values = self._scopes.setdefault(scope, {})
            total = self._total + len(value) - len(values.get(key, b""))
            if len(value) > MAX_VALUE or total > _MAX_TOTAL:
                raise MemoryError
            values[key] = value
            self._total = total

    def delete(self, path: str) -> None:
        """Note that the rank named by the key is connected. Raises ValueError for a bad path.

        Slower ranks may still ask for its value, so the scope goes when all of its ranks have
        said so: a second `hvd.init()` must not find the addresses of the first.
        """
        scope, key = _split(path)
        with self._lock:
            values = self._scopes.get(scope, {})
            finished = self._finished.setdefault(scope, set())
            finished.add(key)
            if finished.issuperset(each for each in values if each.isdigit()):
                self._total -= sum(map(len, values.values()))
                self._scopes.pop(scope, None)
                self._finished.pop(scope)


def _split(path: str) -> tuple[str, str]:
    empty, _, rest = path.partition("/")
    scope, _, key = rest.partition("/")
    if empty or not scope or not key or len(path) > _MAX_PATH:
        raise ValueError(f"not /scope/key: {path[:80]}")
    return scope, key
