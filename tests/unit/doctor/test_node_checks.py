"""Checks of nodes: their network, and the place of the small training."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from node_looks import among, folder, look, looked, met

from argosy.doctor.examination import Examination
from argosy.doctor.findings import Finding, ok
from argosy.doctor.node_checks import ENGINES, check_nodes
from argosy.doctor.queue_checks import Place
from argosy.doctor.trial import Trial
from argosy.probe.choices import choose_interface
from argosy.probe.look_jobs import Looked
from argosy.probe.looks import NodeLook
from argosy.schedulers import find_batch_system
from argosy.site.models import Site

BOTH = ("hsn0", "mgmt0")


def site(interface: str) -> Site:
    hardware = {name: {"architecture": "x86_64"} for name in ("cpu", "gpu")}
    queues = {"main": {"hardware": ["cpu", "gpu"]}}
    return Site.model_validate(
        {"scheduler": "slurm", "interface": interface, "hardware": hardware, "queues": queues}
    )


def finding(
    looks: tuple[NodeLook, ...], interface: str = "hsn0", kinds: tuple[Looked, ...] = ()
) -> Finding:
    """What is said of the interface."""
    mine = Looked("main-cpu", looks)
    best = str(choose_interface([mine, *kinds]).value)
    place = Place(site(interface), "main", "cpu", Path("/nowhere"))
    found = check_nodes("slurm/x/site.yaml", place, mine, best)
    return next(each for each in found if each.check == "interface")


def test_all_ways_are_right() -> None:
    found = finding(tuple(among(number, 3, BOTH) for number in range(3)))
    assert found.verdict == "ok"
    assert found.evidence == (
        "n0, n1, n2 reach each other both ways over hsn0, 954 MiB/s; no other node was tried"
    )


@pytest.mark.parametrize(
    ("lost", "words"),
    [
        # A node that takes nothing, one that reaches nobody, both, and a single way.
        (
            {0: {"n3": "timed out"}, 1: {"n3": "timed out"}, 2: {"n3": "timed out"}},
            "no other node reaches n3",
        ),
        (
            {3: {"n0": "timed out", "n1": "timed out", "n2": "timed out"}},
            "n3 reaches no other node",
        ),
        ({2: {"n0": "timed out"}}, "n2 does not reach n0"),
        ({0: {"n2": "timed out"}}, "n0 does not reach n2"),
    ],
)
def test_a_node_that_is_shut_off_is_named(lost: dict[int, dict[str, str]], words: str) -> None:
    looks = tuple(among(number, 4, BOTH, **lost.get(number, {})) for number in range(4))
    found = finding(looks)
    assert found.verdict == "wrong"
    assert f"{words} (timed out)" in found.evidence
    assert "they do over mgmt0" in found.evidence
    assert found.remedy == "write mgmt0"
    # The other network is right.
    assert finding(looks, "mgmt0").verdict == "ok"


def test_the_remedy_is_one_for_all_kinds_and_prefers_a_fast_network() -> None:
    looks = tuple(
        among(number, 2, ("ib9", "mgmt0", "hsn0"), n0="no route", n1="no route")
        for number in range(2)
    )
    assert finding(looks, "ib9").remedy == "write hsn0"
    # Another kind of nodes has no hsn0.
    assert finding(looks, "ib9", (looked(met(mgmt0=1e8)),)).remedy == "write mgmt0"
    none = finding(looks, "ib9", (looked(met(eth0=1e8)),))
    assert "no single interface serves all kinds of nodes" in none.remedy
    assert finding(looks, "eth7").remedy == "write hsn0"


def test_a_node_that_did_not_come_is_not_said_twice() -> None:
    first = among(0, 2, BOTH).model_copy(update={"nodes": 2})
    mine = Looked("main-cpu", (first,), "n1 has no Python", is_fault=True)
    place = Place(site("hsn0"), "main", "cpu", Path("/nowhere"))
    found = [*check_nodes("slurm/x/site.yaml", place, mine, "hsn0")]
    assert next(each.check for each in found if each.verdict == "wrong") == "nodes cpu"
    assert next(each for each in found if each.check == "interface").verdict == "unknown"


@pytest.mark.parametrize(("is_native", "verdict"), [(False, "wrong"), (True, "warning")])
def test_a_study_without_images_needs_no_engine(is_native: bool, verdict: str) -> None:
    refuses = {ENGINES: {"status": 1, "said": "runc: missing"}}
    node = look(commands=refuses, pythons=[sys.executable], scratch=[folder("/tmp")])
    place = Place(site("hsn0"), "main", "cpu", Path("/nowhere"))
    mine = Looked("main-cpu", (node,))
    found = check_nodes("slurm/x/site.yaml", place, mine, "hsn0", is_native)
    [engine] = [each for each in found if each.check == "engine"]
    assert (engine.verdict, "runc: missing" in engine.evidence) == (verdict, True)


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
