"""Placement of jobs, and reasons against it."""

import pytest
from sites import site

from argosy.site.models import Site
from argosy.site.placement import Placement, Request, place
from argosy_common.errors import ArgosyError

HOUR = 3600


def ask(
    *, nodes: int = 1, cpus: int = 1, gpus: int = 0, memory: int = 1024, hours: float = 1
) -> Request:
    return Request(nodes, 1, cpus, gpus, memory, int(hours * HOUR))


def where(placement: Placement) -> tuple[str | None, str | None]:
    return placement.hardware_name, placement.queue_name


def refused(facts: Site, request: Request, **wanted: str | None) -> ArgosyError:
    with pytest.raises(ArgosyError) as problem:
        place(facts, request, **{"hardware": None, "queue": None, **wanted})
    assert "\n" not in str(problem.value)
    return problem.value


def refusal(facts: Site, request: Request, **wanted: str | None) -> str:
    return refused(facts, request, **wanted).problem


def remedy(facts: Site, request: Request, **wanted: str | None) -> str:
    return refused(facts, request, **wanted).hint


def queue_of(text: str) -> Site:
    return site(f"queues: {{main: {{hardware: [cpu, gpu], {text}}}}}")


def test_ranks_decide_the_hardware_and_size_and_time_the_queue() -> None:
    facts = site()
    assert where(place(facts, ask(), None, None)) == ("cpu", "short")
    assert where(place(facts, ask(gpus=4), None, None)) == ("gpu", "short")
    assert where(place(facts, ask(nodes=3), None, None)) == ("cpu", "long")
    assert where(place(facts, ask(hours=2), None, None)) == ("cpu", "long")


def test_idle_gpus_are_better_than_no_node() -> None:
    assert where(place(site(), ask(memory=150 * 1024), None, None)) == ("gpu", "short")


def test_what_is_named_is_taken() -> None:
    assert where(place(site(), ask(), "gpu", "long")) == ("gpu", "long")
    facts = site("queues: {a: {hardware: [cpu]}, b: {hardware: [gpu]}}")
    assert where(place(facts, ask(), None, "b")) == ("gpu", "b")


def test_what_is_named_and_not_there_is_refused() -> None:
    assert refusal(site(), ask(), hardware="mig") == "hardware: the site has no mig"
    assert remedy(site(), ask(), hardware="mig") == "there are cpu, gpu"
    assert refusal(site(), ask(), queue="x") == "queue: the site has no x"
    assert remedy(site(), ask(), queue="x") == "there are short, long"
    facts = site("queues: {a: {hardware: [cpu]}}")
    assert refusal(facts, ask(), hardware="gpu", queue="a").endswith("gpu: not in the queue a")
    assert refusal(facts, ask(gpus=1)).endswith("on gpu: none has this hardware")


def test_a_node_that_is_too_small_says_what_it_lacks() -> None:
    beginning = "no hardware of the site fits the ranks of one node: "
    assert refusal(site(), ask(gpus=8)) == (
        f"{beginning}cpu: 0 GPUs per node, 8 needed; gpu: 4 GPUs per node, 8 needed"
    )
    assert refusal(site(), ask(cpus=65), hardware="cpu") == (
        f"{beginning}cpu: 64 cores per node, 65 needed"
    )
    assert refusal(site(), ask(memory=1024**2), hardware="cpu") == (
        f"{beginning}cpu: 102400 MiB per node, 1048576 needed"
    )


def test_too_many_nodes_and_too_long_are_said_for_each_queue() -> None:
    assert refusal(site(), ask(nodes=17)) == (
        "no queue accepts 17 nodes for 1h on cpu: short: at most 2 nodes; long: at most 16 nodes"
    )
    assert refusal(site(), ask(nodes=5, hours=12)) == (
        "no queue accepts 5 nodes for 12h on cpu: short: at most 2 nodes; "
        "long: at most 6h with 5 nodes"
    )
    assert refusal(site(), ask(hours=2), queue="short").endswith("short: at most 1h with 1 node")


def test_without_a_known_limit_slurm_decides() -> None:
    assert place(queue_of("limits: []"), ask(nodes=9999, hours=9999), None, None)
    assert place(queue_of("limits: [{nodes: 2}]"), ask(nodes=2, hours=9999), None, None)
    assert place(queue_of("limits: [{time: 2h}]"), ask(nodes=9999, hours=2), None, None)
    unknown = site("hardware: {cpu: {architecture: x86_64}, gpu: {architecture: x86_64}}")
    assert where(place(unknown, ask(cpus=9999, memory=10**9), None, None)) == ("cpu", "short")


def test_a_limit_by_size_ends_with_one_for_all_others() -> None:
    facts = queue_of("limits: [{nodes: 91, time: 2h}, {nodes: 183, time: 6h}, {time: 12h}]")
    for nodes, hours in ((91, 2), (92, 6), (183, 6), (184, 12), (9000, 12)):
        assert place(facts, ask(nodes=nodes, hours=hours), None, None)
        assert f"main: at most {hours}h" in refusal(facts, ask(nodes=nodes, hours=hours + 1))


def test_some_queues_are_never_chosen_by_themselves() -> None:
    facts = queue_of("only_by_name: true")
    assert refusal(facts, ask()).endswith("main: only for runs that name it")
    assert where(place(facts, ask(), None, "main")) == ("cpu", "main")


def test_a_refusal_has_a_remedy() -> None:
    by_name = queue_of("only_by_name: true, limits: [{nodes: 2, time: 1h}]")
    assert remedy(by_name, ask()).startswith("write `queue: main` into config.yaml")
    # Naming the queue would not help here.
    assert remedy(by_name, ask(nodes=3)).startswith("change scale.nodes of the experiment")
    assert remedy(by_name, ask(hours=2)).startswith("change resources.time of the experiment")
    assert "resources.gpus_per_rank" in remedy(queue_of("gpus_only: true"), ask())
    nowhere = site("queues: {a: {hardware: [cpu]}}")
    assert "queues.*.hardware" in remedy(nowhere, ask(gpus=1))


def test_a_queue_for_gpus_takes_nothing_else() -> None:
    facts = queue_of("gpus_only: true")
    assert refusal(facts, ask(), hardware="gpu").endswith("main: refuses jobs without GPUs")
    assert place(facts, ask(gpus=1), None, None)


def test_a_queue_may_want_whole_nodes_from_some_size_on() -> None:
    facts = queue_of("whole_nodes_from: 2")
    assert place(facts, ask(gpus=1), None, None)
    assert place(facts, ask(nodes=2, gpus=4), None, None)
    assert refusal(facts, ask(nodes=2, gpus=3)).endswith(
        "main: jobs of 2 nodes or more must use all 4 GPUs of each, not 3"
    )


def test_on_this_machine_there_is_nothing_to_choose() -> None:
    facts = Site(scheduler="local", interface="lo")
    assert where(place(facts, ask(), None, None)) == (None, None)
