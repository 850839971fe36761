"""The socket between an agent and the scheduler's MPI tasks on its node, protected by the job's token."""

from __future__ import annotations

import hmac

CONNECTION = "PMI_FD"
"""Variable with the number of an open connection to the scheduler (PMI-2)."""

DESCRIPTION = "PALS_APINFO"
"""Variable with the path of a job's description (Cray), a file of the host that containers do not see."""


def address(token: str, node: int) -> str:
    """Return the name of an agent's socket: an abstract name, which leaves no file."""
    return f"\0argosy-{_secret(token, f'address of node {node}')}"


def proof(token: str, node: int) -> str:
    """Return a task's proof that it knows the token: other users can see the socket's name."""
    return _secret(token, f"task of node {node}")


def _secret(token: str, what: str) -> str:
    return hmac.new(token.encode(), what.encode(), "sha256").hexdigest()
