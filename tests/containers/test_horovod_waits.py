"""Idle ranks of Argosy's Horovod use no processor time."""

import json
from pathlib import Path

import pytest
from image_programs import run_python

from argosy_images.engines.models import Bind
from argosy_images.store.store import Store

pytestmark = pytest.mark.container

# The longest sleep of a rank (containers/horovod/waits.py); waiting for its end takes half on average.
REST_S = 0.1

START = """
import sys
sys.path.insert(0, "/opt/horovod")
import self_test
self_test.__file__ = "/job/horovod_waits.py"
sys.exit(self_test.start_ranks("torch"))
"""

Figures = dict[str, float]


@pytest.fixture(scope="module")
def figures(project_store: Store, torch_digest: str) -> Figures:
    """Return the measurements of rank 0 of two."""
    programs = Bind(Path(__file__).parent / "programs", "/job")
    root = project_store.root(torch_digest)
    outcome, said = run_python(project_store, root, ["-c", START], programs)
    assert outcome.status == 0, said
    found: Figures = json.loads(said.splitlines()[-1])
    return found


def test_a_rank_that_rests_seldom_wakes(figures: Figures) -> None:
    """Released Horovod and its sending and receiving threads wake every millisecond."""
    assert figures["switches_resting"] < 200


def test_a_rank_that_waits_for_another_sleeps(figures: Figures) -> None:
    """Released Horovod polls without a pause."""
    assert figures["cpu_s_waiting"] < 0.5


@pytest.mark.parametrize("name", ["after_rests_s", "last_at_barrier_s", "own_set_s", "joined_s"])
def test_no_exchange_waits_for_a_rest_to_end(figures: Figures, name: str) -> None:
    assert 0 < figures[name] < REST_S / 4


def test_the_end_of_a_training_waits_for_no_rest_to_end(figures: Figures) -> None:
    """When a rank is told to end, four fifths of its sleep remain."""
    assert 0 < figures["ended_s"] < REST_S / 2
