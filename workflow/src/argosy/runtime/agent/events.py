"""What the supervisor hears of, in the order in which it happens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Union

from .coordination.failure import Failure
from .hangs.inspection import Finding
from .transport.messages import Order


@dataclass(frozen=True)
class SignalEvent:
    """A signal reached the agent."""

    number: int


@dataclass(frozen=True)
class TroubleEvent:
    """Output could not be written."""

    cause: str


@dataclass(frozen=True)
class HeadLostEvent:
    """The head is given up; `seen` is the monotonic time at which that began."""

    failure: Failure
    seen: float


Event = Union[SignalEvent, TroubleEvent, HeadLostEvent, Order, Finding]
