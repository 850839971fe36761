"""Messages between the agents of a job: reports to the head, and its orders."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any, Callable, Mapping, TypeVar

from ..coordination.failure import Failure, Finished
from ..hangs.places import Place

_Message = TypeVar("_Message")


@dataclass(frozen=True)
class Report:
    """The state of a node.

    `ended`: no rank runs or will start. `cancelled`: a signal ended the agent's ranks. `signalled`: a
    signal left the ranks time to save. `informed`: the node has the outcome and is done with the head.
    `warned`: the job will end soon. `interrupted`: a rank ended early for that, to be continued. `quiet`:
    seconds since the last sign of life of a rank. `pace`: median duration of the ranks' steps in seconds.
    `looked`: number of the last inspection, which found `places`. `stall`, `missing`: ranks that Horovod
    misses, as text and by number. `finished`: ranks that ended with exit code 0. `unmeasured`: failure of
    this node's measurements, which counts if all ranks end well.
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
        return _encode(self)

    @classmethod
    def decode(cls, data: bytes) -> Report:
        """Parse an encoded report. Raises ValueError."""
        return _decode(
            cls,
            data,
            failures=lambda said: tuple(Failure(**each) for each in said),
            places=lambda said: tuple(Place(**each) for each in said),
            missing=tuple,
            finished=lambda said: tuple(Finished(**each) for each in said),
            unmeasured=_failure,
        )


@dataclass(frozen=True)
class Outcome:
    """The final state of the job, the same for all nodes."""

    state: str
    failure: Failure | None = None


@dataclass(frozen=True)
class Order:
    """The head's orders for a node.

    `start`: start the ranks, since all nodes are present. `warn`: ask the ranks to save a checkpoint and
    end. `stop`: end the ranks. `failure`: the cause known so far. `outcome`: the job is over. `look`:
    inspect the ranks, once per number. `ports`: ports reserved for the program, by field.
    """

    start: bool = False
    stop: bool = False
    failure: Failure | None = None
    outcome: Outcome | None = None
    warn: bool = False
    look: int = 0
    ports: Mapping[str, int] = field(default_factory=dict)

    def encode(self) -> bytes:
        return _encode(self)

    @classmethod
    def decode(cls, data: bytes) -> Order:
        """Parse an encoded order. Raises ValueError."""
        return _decode(cls, data, failure=_failure, outcome=_outcome)


def _encode(message: Report | Order) -> bytes:
    return json.dumps(asdict(message)).encode()


def _failure(said: Mapping[str, Any] | None) -> Failure | None:
    return Failure(**said) if said else None


def _outcome(said: Mapping[str, Any] | None) -> Outcome | None:
    return Outcome(said["state"], _failure(said["failure"])) if said else None


def _decode(kind: Callable[..., _Message], data: bytes, **parts: Callable[[Any], Any]) -> _Message:
    """Parse a message; `parts` parse the fields that are no plain values. Raises ValueError."""
    try:
        content = json.loads(data)
        return kind(**{**content, **{name: part(content[name]) for name, part in parts.items()}})
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not a message: {error!r}") from None
