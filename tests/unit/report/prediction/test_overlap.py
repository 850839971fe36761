"""Steps whose times can be found by hand, and by a simulator that goes tick by tick."""

import math
import random

import pytest
from one_step import Allreduce, Span, Step, simulate
from step_by_step import backward_and_send

from argosy.report.topics.prediction.step import Horovod, Layer, Model

FREE = Allreduce(0.0, 0.0)
# A second of latency, and a second for 10 bytes.
SLOW = Allreduce(1.0, 0.1)
AT_ONCE = Horovod(cycle_s=0.0, fusion_threshold_bytes=0)


def model(*layers: tuple[float, float]) -> Model:
    """Layers of (bytes, seconds), after 2 s of data and 3 s of forward pass, before 1 s update."""
    named = tuple(Layer(f"layer{n}", size, time_s) for n, (size, time_s) in enumerate(layers))
    return Model(named, forward_s=3.0, update_s=1.0, data_s=2.0, samples=8)


def messages(step: Step) -> int:
    """Count the allreduces of a step."""
    return sum(span.name == "allreduce" for span in step.timeline)


THREE = model((10, 1.0), (20, 2.0), (30, 4.0))


def test_each_gradient_for_itself_as_soon_as_it_is_ready() -> None:
    # Ready after 1, 3, 7 s of the backward pass; messages take 2, 3, 4 s: 1-3, 3-6, 7-11.
    step = simulate(THREE, SLOW, AT_ONCE)
    assert (step.step_s, step.exposed_s, messages(step)) == (17.0, 4.0, 3)
    assert step.timeline == (
        Span("data", 0.0, 2.0),
        Span("forward", 2.0, 5.0),
        Span("backward", 5.0, 12.0),
        Span("allreduce", 6.0, 8.0, ("layer0",)),
        Span("allreduce", 8.0, 11.0, ("layer1",)),
        Span("allreduce", 12.0, 16.0, ("layer2",)),
        Span("update", 16.0, 17.0),
    )


def test_cycles_gather_what_is_fused() -> None:
    # The first gradient goes at 1 s (2 s, to 3 s), the others at 7 s (6 s, to 13 s).
    step = simulate(THREE, SLOW, Horovod(6.0, 1000))
    assert (messages(step), step.exposed_s) == (2, 6.0)
    assert [span.layers for span in step.timeline if span.layers] == [
        ("layer0",),
        ("layer1", "layer2"),
    ]


def test_every_cycle_begins_with_a_negotiation() -> None:
    # Each asks for 3 s, and sends: from 1 to 6 s, from 6 to 12 s, and from 12 to 19 s.
    step = simulate(THREE, Allreduce(1.0, 0.1, negotiation_s=3.0), Horovod(1.0, 1000))
    assert (messages(step), step.exposed_s) == (3, 12.0)
    assert [span.begin_s - 5 for span in step.timeline if span.layers] == [4.0, 9.0, 15.0]


def test_no_fusion_within_a_cycle() -> None:
    # One at 1 s; at 7 s two, one after the other, to 10 s and 14 s.
    step = simulate(THREE, SLOW, Horovod(6.0, 0))
    assert (messages(step), step.exposed_s) == (3, 7.0)


def test_a_cycle_that_takes_longer_than_its_time_is_followed_at_once() -> None:
    # From 1 to 5 s, then at once, and not at 4 or 7 s: to 8 s, and to 12 s.
    longer = model((30, 1.0), (20, 2.0), (30, 4.0))
    assert simulate(longer, SLOW, Horovod(3.0, 1000)).exposed_s == 5.0


@pytest.mark.parametrize(("threshold", "sent"), [(0, 3), (49, 3), (50, 2), (math.inf, 2)])
def test_the_threshold_is_the_most_that_is_fused(threshold: float, sent: int) -> None:
    assert messages(simulate(THREE, SLOW, Horovod(7.0, threshold))) == sent


def test_without_overlap_the_step_is_a_sum() -> None:
    # All is ready at the end of the backward pass and goes in one message.
    late = model((10, 7.0), (20, 0.0), (30, 0.0))
    assert simulate(late, SLOW, Horovod(0.0, 60)).step_s == THREE.own_s + SLOW.seconds(60)
    alone = simulate(late, SLOW, AT_ONCE)
    assert alone.step_s == THREE.own_s + SLOW.seconds(60) + 2 * SLOW.latency_s


def test_a_perfect_network_leaves_the_wait_for_the_last_cycle() -> None:
    assert simulate(THREE, FREE, AT_ONCE).exposed_s == 0.0
    # At 1, 6 and 11 s; at 1, 4 and 7 s.
    assert simulate(THREE, FREE, Horovod(5.0, 0)).exposed_s == 4.0
    assert simulate(THREE, FREE, Horovod(3.0, 0)).exposed_s == 0.0


def test_one_layer() -> None:
    step = simulate(model((10, 2.0)), SLOW, AT_ONCE)
    assert (step.step_s, messages(step)) == (3 + 2 + 2 + 2 + 1, 1)


def test_layers_without_parameters_send_nothing() -> None:
    step = simulate(model((10, 1.0), (0, 5.0)), SLOW, AT_ONCE)
    assert (messages(step), step.exposed_s) == (1, 0.0)
    assert simulate(model((0, 1.0)), SLOW, AT_ONCE).exposed_s == 0.0


def test_a_gradient_that_is_ready_with_the_cycle_is_in_it() -> None:
    # 0.1 + 0.2 + 0.3 is a little more than 0.1 + 0.5.
    step = simulate(model((1, 0.1), (1, 0.2), (1, 0.3)), FREE, Horovod(0.5, 10))
    assert messages(step) == 2
    assert step.exposed_s == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("seed", range(60))
def test_tick_by_tick(seed: int) -> None:
    chance = random.Random(seed)
    tick_s = 1e-4
    layers = [(chance.randint(1, 50), chance.randint(0, 40)) for _ in range(chance.randint(1, 30))]
    latency, of_byte = chance.randint(0, 30), chance.randint(0, 3)
    cycle, threshold = chance.randint(1, 60), chance.choice([0, 40, 120, 10**6])
    negotiation = chance.choice([0, 0, chance.randint(1, 60)])
    ticks = backward_and_send(
        layers, lambda size: latency + of_byte * round(size), cycle, threshold, negotiation
    )
    simulated = simulate(
        model(*((size, time * tick_s) for size, time in layers)),
        Allreduce(latency * tick_s, of_byte * tick_s, negotiation * tick_s),
        Horovod(cycle * tick_s, threshold),
    )
    assert simulated.step_s == pytest.approx(2 + 3 + ticks * tick_s + 1, abs=tick_s / 10)
