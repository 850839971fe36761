"""A training is tried where nothing is wrong; where that is nowhere, it is said."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from argosy.doctor.examination import Examination
from argosy.doctor.findings import Finding, ok
from argosy.doctor.queue_checks import Place
from argosy.doctor.trial import Trial
from argosy.schedulers import find_batch_system
from argosy.site.models import Site

SITE = Site.model_validate(
    {
        "scheduler": "slurm",
        "hardware": {name: {"architecture": "x86_64"} for name in ("cpu", "gpu")},
        "queues": {"main": {"hardware": ["cpu", "gpu"]}},
    }
)


def tried(monkeypatch: pytest.MonkeyPatch, right: list[tuple[int, str]]) -> list[Finding]:
    def findings(self: Trial) -> Iterator[Finding]:
        yield ok("Horovod", f"{self.nodes} nodes of {self.place.hardware}")

    monkeypatch.setattr(Trial, "findings", findings)
    site = Examination(Path(), "kestrel", 90, lambda _: None, trains=True)
    places = [(nodes, Place(SITE, "main", name, Path("/nowhere"))) for nodes, name in right]
    return [*site._train(find_batch_system("slurm"), places, 90)]


def test_it_is_tried_on_two_nodes_if_any(monkeypatch: pytest.MonkeyPatch) -> None:
    assert tried(monkeypatch, [(1, "cpu"), (2, "gpu")])[0].evidence == "2 nodes of gpu"
    assert tried(monkeypatch, [(1, "cpu")])[0].evidence == "1 nodes of cpu"


def test_where_all_nodes_have_a_fault_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    [found] = tried(monkeypatch, [])
    assert (found.check, found.verdict) == ("Horovod", "unknown")
    assert "not tried" in found.evidence
