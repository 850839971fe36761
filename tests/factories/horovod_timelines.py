"""Timelines as Horovod writes them, with times that a test can foresee."""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from study_files import RunFiles

Event = Mapping[str, Any]


def written(events: Iterable[Event]) -> str:
    """The events as Horovod writes them: all on a line, and the end right after the last."""
    return "[\n" + ",".join(json.dumps(event) for event in events) + "]"


def begin(name: str, at_us: float, tensor: int = 1) -> Event:
    return {"ph": "B", "name": name, "ts": at_us, "pid": tensor}


def end(at_us: float, tensor: int = 1) -> Event:
    return {"ph": "E", "ts": at_us, "pid": tensor}


def exchange(at_us: float, tensor: int = 1, operation: str = "ALLREDUCE") -> Iterator[Event]:
    """A tensor waits 10 ms for the slowest rank, is copied in 1 ms, reduced in 4 ms and copied in 1 ms."""
    yield begin(f"NEGOTIATE_{operation}", at_us, tensor)
    yield {"ph": "X", "name": "0", "ts": at_us + 10_000, "pid": tensor, "dur": 0}
    yield end(at_us + 10_000, tensor)
    yield begin(operation, at_us + 11_000, tensor)
    for name, since_us, until_us in (
        ("MEMCPY_IN_FUSION_BUFFER", 11_000, 12_000),
        (f"GLOO_{operation}", 12_000, 16_000),
        ("MEMCPY_OUT_FUSION_BUFFER", 16_000, 17_000),
    ):
        yield begin(name, at_us + since_us, tensor)
        yield end(at_us + until_us, tensor)
    yield end(at_us + 17_000, tensor)


def fused(at_us: float, tensors: int) -> list[Event]:
    """As many tensors in one buffer, at the same time, in the order of time."""
    events = [event for tensor in range(1, tensors + 1) for event in exchange(at_us, tensor)]
    return sorted(events, key=lambda event: event["ts"])


def add_timeline(run: RunFiles, events: Iterable[Event], attempt: str = "100.0") -> None:
    """Put a timeline into the records of a run."""
    (run.records(attempt) / "timeline.json").write_text(written(events))
