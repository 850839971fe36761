"""A step of training, tick by tick: slow, simple, and without a part of what it checks."""

from collections.abc import Callable, Sequence


def backward_and_send(
    layers: Sequence[tuple[float, int]],
    allreduce_ticks: Callable[[float], int],
    cycle: int,
    threshold: float,
    negotiation: int = 0,
) -> int:
    """Ticks from the begin of the backward pass until all is computed and sent.

    `layers` are (bytes, ticks) in the order of back-propagation.
    """
    waiting: list[float] = []
    planned: list[float] = []
    sent = computed = tick = next_cycle = 0
    left, busy_until = layers[0][1], 0
    while True:
        while computed < len(layers) and left == 0:
            waiting.append(layers[computed][0])
            computed += 1
            left = layers[computed][1] if computed < len(layers) else 0
        if computed == sent == len(layers) and not planned and tick >= busy_until:
            return tick
        if tick >= busy_until and not planned and tick >= next_cycle and waiting:
            next_cycle = tick + cycle
            sent += len(waiting)
            planned, waiting = in_buffers(waiting, threshold), []
            busy_until = tick + negotiation
        while tick >= busy_until and planned:
            busy_until = tick + allreduce_ticks(planned.pop(0))
        if computed == sent == len(layers) and not planned and tick >= busy_until:
            return tick
        tick, left = tick + 1, left - 1


def in_buffers(sizes: Sequence[float], threshold: float) -> list[float]:
    """Bytes of each message, when tensors are put into the buffer one after another."""
    buffers: list[float] = []
    for size in sizes:
        if buffers and buffers[-1] + size <= threshold:
            buffers[-1] += size
        else:
            buffers.append(size)
    return buffers
