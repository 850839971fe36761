"""Measures when each gradient of a PyTorch model is ready, to predict the cost of communication.

::

    steps = argosy_steps.Recorder()
    layers = argosy_layers.LayerTimes(steps, model.named_parameters())
    ...
    with step.phase("backward"), layers.backward():
        loss.backward()

Each rank skips `SKIPPED` backward passes, measures the next `WATCHED`, and records the medians with
`Recorder.layers`. On a GPU, each gradient of a measured pass synchronizes the device, which slows the pass.

Outside Argosy nothing is measured.
"""

from __future__ import annotations

import statistics
import time
from contextlib import contextmanager
from typing import Any, Iterable, Iterator

import argosy_steps

SKIPPED = 5
WATCHED = 5


class LayerTimes:
    """Measures the gradients of `parameters`, pairs of name and parameter."""

    def __init__(self, steps: argosy_steps.Recorder, parameters: Iterable[tuple[str, Any]]) -> None:
        self._steps = steps
        self._parameters = {n: one for n, one in parameters if one.requires_grad}
        self._ready: dict[str, list[float]] = {name: [] for name in self._parameters}
        self._passes = 0 if steps.records else SKIPPED + WATCHED
        self._since = 0.0

    @contextmanager
    def backward(self) -> Iterator[None]:
        """Time a backward pass, in a `with` statement."""
        self._passes += 1
        if not SKIPPED < self._passes <= SKIPPED + WATCHED:
            yield
            return
        hooks = [
            parameter.register_post_accumulate_grad_hook(self._noting(name))
            for name, parameter in self._parameters.items()
        ]
        self._since = time.monotonic()
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()
        if self._passes == SKIPPED + WATCHED:
            self._record()

    def _noting(self, name: str) -> Any:
        def note(parameter: Any) -> None:
            if parameter.is_cuda:
                import torch

                torch.cuda.synchronize(parameter.device)
            self._ready[name].append(time.monotonic() - self._since)

        return note

    def _record(self) -> None:
        ready = {name: statistics.median(times) for name, times in self._ready.items() if times}
        self._steps.layers(
            (name, _bytes(self._parameters[name]), ready[name])
            for name in sorted(ready, key=lambda name: ready[name])
        )


def _bytes(parameter: Any) -> int:
    return int(parameter.numel() * parameter.element_size())
