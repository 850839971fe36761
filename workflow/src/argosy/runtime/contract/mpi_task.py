"""What an agent and the MPI tasks of its node share: addresses and proofs, both made of the job's token."""

from __future__ import annotations

import hmac

CONNECTION = "PMI_FD"
"""Variable with the number of an open connection to the scheduler (PMI-2)."""

DESCRIPTION = "PALS_APINFO"
"""Variable with the path of a job's description (Cray), a file of the host that containers do not see."""


def address(token: str, node: int) -> str:
    """Return the socket at which a node's agent listens: an abstract name, which leaves no file."""
    return f"\0argosy-{_secret(token, f'address of node {node}')}"


def proof(token: str, node: int) -> str:
    """Return what tells a task from other programs: names of sockets can be seen by all users."""
    return _secret(token, f"task of node {node}")


def _secret(token: str, what: str) -> str:
    return hmac.new(token.encode(), what.encode(), "sha256").hexdigest()
