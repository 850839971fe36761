"""Connections that have not proved yet whose they are: they are the first to go when there are too many."""

from __future__ import annotations

from .connection import Connection


class Newcomers:
    """Those of one server, by their address and in the order of their arrival. For one thread."""

    def __init__(self) -> None:
        self._by_address: dict[str, dict[Connection, None]] = {}

    def __contains__(self, connection: Connection) -> bool:
        return connection in self._by_address.get(connection.peer[0], ())

    def add(self, connection: Connection) -> None:
        """Note one more newcomer."""
        self._by_address.setdefault(connection.peer[0], {})[connection] = None

    def remove(self, connection: Connection) -> None:
        """Forget a newcomer that has proved whose it is, or is closed."""
        there = self._by_address[connection.peer[0]]
        del there[connection]
        if not there:
            del self._by_address[connection.peer[0]]

    def first_to_go(self) -> Connection | None:
        """Return the oldest of the address that has the most, so that one cannot crowd out others."""
        if not self._by_address:
            return None
        most = max(self._by_address.values(), key=len)
        return next(iter(most))
