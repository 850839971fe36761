"""Models made of measurements."""

import pytest

from argosy.report.topics.prediction.step import (
    Layer,
    Model,
    model_of_phases,
    slowed,
    split_by,
    split_layers,
)

SIZES = {"head": 100.0, "middle": 300.0, "stem": 0.0}


def test_a_split_by_parameters() -> None:
    assert split_layers(SIZES, 0.8) == (
        Layer("head", 100.0, pytest.approx(0.2)),
        Layer("middle", 300.0, pytest.approx(0.6)),
        Layer("stem", 0.0, 0.0),
    )


def test_a_split_by_weights() -> None:
    times = [layer.backward_s for layer in split_by(SIZES, 1.0, [1, 1, 2])]
    assert times == pytest.approx([0.25, 0.25, 0.5])


@pytest.mark.parametrize("weights", [[0, 0, 0], [1, -1, 2]])
def test_weights_that_split_nothing(weights: list[float]) -> None:
    with pytest.raises(ValueError, match="positive together"):
        split_by(SIZES, 1.0, weights)


def test_a_weight_for_each_layer() -> None:
    with pytest.raises(ValueError, match="zip"):
        split_by(SIZES, 1.0, [1, 2])


def test_a_model_of_measured_phases() -> None:
    phases = {"data": 0.1, "h2d": 0.02, "forward": 0.3, "backward": 0.4, "communication": 9.0}
    found = model_of_phases(split_layers(SIZES, 1.0), phases | {"update": 0.05, "other": 0.03}, 32)
    assert found.data_s == pytest.approx(0.15)
    assert found.backward_s == pytest.approx(0.4)
    assert found.own_s == pytest.approx(0.9)
    assert [layer.parameters_bytes for layer in found.layers] == [100.0, 300.0, 0.0]


def test_work_by_speed() -> None:
    model = Model(split_layers(SIZES, 0.8), forward_s=0.4, update_s=0.1, data_s=0.2, samples=32)
    assert slowed(model, 3).own_s == pytest.approx(3 * model.own_s)
