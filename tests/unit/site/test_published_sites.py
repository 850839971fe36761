"""Placement of jobs on the shipped sites, by their public documentation."""

from pathlib import Path

import pytest

from argosy.schedulers.job_request import JobRequest
from argosy.schedulers.slurm.options import script_options
from argosy.site.models import Site, read_site
from argosy.site.placement import Request, place
from argosy_common.errors import ArgosyError

HOURS = 3600
SITES = Path(__file__).parents[3] / "slurm"


def site(name: str, **changes: object) -> Site:
    return read_site(SITES / name).model_copy(update=changes)


def request(nodes: int = 2, hours: float = 1, cpus: int = 8, gpus: int = 0) -> Request:
    return Request(nodes, 1, cpus, gpus, 1024, round(hours * HOURS))


WITHOUT_INTERFACE = (
    *("adastra", "delta", "deucalion", "karolina", "leonardo", "marenostrum5", "narval", "roihu"),
    *("snellius", "sofia", "vista"),
)


@pytest.mark.parametrize("name", WITHOUT_INTERFACE)
def test_a_site_without_a_known_interface_says_so_and_how_to_find_it(name: str) -> None:
    facts = site(name, account="mine")
    placement = place(facts, request(), None, None)
    with pytest.raises(ArgosyError, match=r"interface: unknown; .*`srun .*--nodes=2 .*ip -o addr`"):
        script_options(JobRequest(facts, placement, request(), Path("/project/results/x/y/z")))


@pytest.mark.parametrize(
    ("name", "job", "queue", "found"),
    [
        ("lumi", request(512, gpus=1), None, "standard-g"),
        ("lumi", request(512), None, "standard"),
        ("lumi", request(4, hours=70), None, "small"),
        ("archer2", request(1024), None, "standard"),
        ("archer2", request(1025), None, "largescale"),
        ("archer2", request(64, hours=30), None, "long"),
        ("archer2", request(2, gpus=1), None, "gpu-exc"),
        ("archer2", request(1, gpus=1), "gpu-shd", "gpu-shd"),
        ("frontier", request(2, hours=2, gpus=1), "debug", "debug"),
        ("delta", request(1, gpus=8), "gpuH200x8", "gpuH200x8"),
    ],
)
def test_a_job_gets_its_queue(name: str, job: Request, queue: str | None, found: str) -> None:
    assert place(site(name), job, None, queue).queue_name == found


@pytest.mark.parametrize(
    ("name", "job", "queue", "words"),
    [
        ("lumi", request(513), "standard", "at most 512 nodes"),
        ("lumi", request(1025, gpus=1), "standard-g", "at most 1024 nodes"),
        ("lumi", request(5), "small", "at most 4 nodes"),
        ("lumi", request(33, gpus=1), "dev-g", "at most 32 nodes"),
        ("lumi", request(5, hours=0.5), "debug", "at most 4 nodes"),
        ("lumi", request(cpus=129), None, "cpu: 128 cores per node, 129 needed"),
        ("archer2", request(33, hours=0.3), "short", "at most 32 nodes"),
        ("archer2", request(65, hours=30), "long", "at most 64 nodes"),
        ("archer2", request(3, gpus=1), None, "gpu-exc: at most 2 nodes"),
        ("frontier", request(hours=3, gpus=1), "debug", "at most 2h"),
        ("delta", request(2, gpus=8), "gpuH200x8", "at most 1 node"),
    ],
)
def test_what_a_queue_does_not_take_is_refused(
    name: str, job: Request, queue: str | None, words: str
) -> None:
    with pytest.raises(ArgosyError, match=words):
        place(site(name), job, None, queue)


def test_large_memory_at_archer2_is_hardware_of_its_own() -> None:
    facts = site("archer2", account="mine")
    placement = place(facts, request(200), "highmem", None)
    job = JobRequest(facts, placement, request(200), Path("/project/results/x/y/z"))
    options = script_options(job)
    assert (options["partition"], options["qos"]) == ("highmem", "highmem")
