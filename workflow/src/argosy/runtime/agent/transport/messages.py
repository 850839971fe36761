"""What the agents of a job say to each other: reports to the head, orders back."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any, Mapping

from ..coordination.failure import Failure, Finished
from ..hangs.places import Place


@dataclass(frozen=True)
class Report:
    """How a node is.

    `ended`: no rank runs any more, and none will; `cancelled`: the agent was told to end by a
    signal; `signalled`: it got one that leaves its ranks time to save; `informed`: the node knows the
    outcome of the job and needs the head no longer;
    `warned`: it was told that the job will be ended soon; `interrupted`: a rank of it ended early
    for that, to be continued. `quiet`: seconds since a rank of it gave a sign of life; `pace`: the
    median of their steps in seconds; `looked`: the number of the last look at them, which found
    `places`; `stall` and `missing`: whom Horovod misses, in words and by number; `finished`: ranks that
    ended with exit code 0 while others may go on; `unmeasured`: what is wrong with what this node's ranks
    printed, which counts if all ranks end well.
    """

    node: int
    ended: bool = False
    cancelled: bool = False
    informed: bool = False
    failures: tuple[Failure, ...] = ()
    warned: bool = False
    interrupted: bool = False
    quiet: float = 0.0
    pace: float | None = None
    looked: int = 0
    places: tuple[Place, ...] = ()
    stall: str = ""
    missing: tuple[int, ...] = ()
    finished: tuple[Finished, ...] = ()
    signalled: bool = False
    unmeasured: Failure | None = None

    def encode(self) -> bytes:
        """Return the report as JSON."""
        return _encode(self)

    @classmethod
    def decode(cls, data: bytes) -> Report:
        """Return the reverse of `encode`. Raises ValueError."""
        try:
            content = json.loads(data)
            content.update(
                failures=tuple(map(Failure.from_message, content["failures"])),
                places=tuple(Place(**each) for each in content["places"]),
                missing=tuple(content["missing"]),
                finished=tuple(Finished(**each) for each in content["finished"]),
                unmeasured=_failure(content["unmeasured"]),
            )
            return cls(**content)
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"not a report: {error!r}") from None


@dataclass(frozen=True)
class Outcome:
    """How the job ended: one state for all of its nodes."""

    state: str
    failure: Failure | None = None


@dataclass(frozen=True)
class Order:
    """What the head wants of a node.

    `start`: all nodes are there, so start the ranks; `warn`: tell them that it is time to save a
    checkpoint and end; `stop`: end them; `failure`: the cause as
    known so far; `outcome`: the job is over; `look`: say where the ranks are, once for each number;
    `ports`: those that the head has reserved for the program, by their fields.
    """

    start: bool = False
    stop: bool = False
    failure: Failure | None = None
    outcome: Outcome | None = None
    warn: bool = False
    look: int = 0
    ports: Mapping[str, int] = field(default_factory=dict)

    def encode(self) -> bytes:
        """Return the order as JSON."""
        return _encode(self)

    @classmethod
    def decode(cls, data: bytes) -> Order:
        """Return the reverse of `encode`. Raises ValueError."""
        try:
            content = json.loads(data)
            if outcome := content["outcome"]:
                outcome = Outcome(outcome["state"], _failure(outcome["failure"]))
            return cls(**{**content, "failure": _failure(content["failure"]), "outcome": outcome})
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"not an order: {error!r}") from None


def _encode(message: Report | Order) -> bytes:
    return json.dumps(asdict(message)).encode()


def _failure(said: Mapping[str, Any] | None) -> Failure | None:
    return Failure.from_message(said) if said else None
