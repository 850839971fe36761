"""What an agent and the tasks of MPI on its node know of each other, by the job's token."""

from __future__ import annotations

import hmac


def address(token: str, node: int) -> str:
    """Return the socket at which a node's agent listens: an abstract name, which leaves no file."""
    return f"\0argosy-{_secret(token, f'address of node {node}')}"


def proof(token: str, node: int) -> str:
    """Return what tells a task from other programs: names of sockets can be seen by all users."""
    return _secret(token, f"task of node {node}")


def _secret(token: str, what: str) -> str:
    return hmac.new(token.encode(), what.encode(), "sha256").hexdigest()
