"""Every scheduler: how it is found by name, and how it refuses a run without its image."""

import sys
from pathlib import Path

import pytest
from slurm_answers import answering, queue

from argosy.run_folder.job_file import read_jobs
from argosy.schedulers import BatchSystem, find_batch_system, local, slurm
from argosy.schedulers.base import State
from argosy.schedulers.local.scheduler import LocalScheduler
from argosy.schedulers.missing_images import check_images, missing_image
from argosy.schedulers.slurm.preflight import check_scripts
from argosy.schedulers.slurm.scheduler import SlurmScheduler
from argosy_common.errors import ArgosyError
from argosy_images.store.store import Store

DIGEST = f"sha256:{'0123456789abcdef' * 4}"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "a store's")


def run_with(project: Path, store: Store, stage: str = "") -> Path:
    """A planned run, by what its script says of its image."""
    folder = project / "results/here/digits/nodes1-ranks1-repeat1"
    folder.mkdir(parents=True)
    quoted = str(store.path).replace("'", "'\"'\"'")
    (folder / "job.sbatch").write_text(
        f"#!/bin/bash\nexport ARGOSY_STORE='{quoted}'\nnode_command=(\n"
        f"    --digest {DIGEST}\n    {stage}\n)\n"
    )
    (project / "containers/torch").mkdir(parents=True)
    lock = project / "resources/images/torch/image.lock"
    lock.parent.mkdir(parents=True)
    lock.write_text(f'{{"digest": "{DIGEST}"}}')
    return folder


def freeze(store: Store) -> None:
    store.root(DIGEST).mkdir(parents=True)
    store.description(DIGEST).write_text("{}")


def test_an_image_that_is_there_is_no_problem(tmp_path: Path, store: Store) -> None:
    run = run_with(tmp_path, store)
    freeze(store)
    assert missing_image(run) is None
    check_images([run, run])


def test_what_is_missing_is_said_with_what_to_do(tmp_path: Path, store: Store) -> None:
    run = run_with(tmp_path, store)
    problem = missing_image(run)
    assert problem is not None
    assert problem.startswith("resources/images/torch/image.lock: digits/nodes1-ranks1-repeat1 ")
    assert f"not in the store {store.path}" in problem
    assert problem.endswith("build it again: argosy image build torch")
    (tmp_path / "containers/torch").rmdir()
    assert str(missing_image(run)).endswith("argosy image import SOURCE torch")


def test_nodes_that_unpack_the_image_need_it_packed(tmp_path: Path, store: Store) -> None:
    run = run_with(tmp_path, store, "--stage node --stage-folder /tmp --stage-room 1")
    freeze(store)
    assert str(missing_image(run)).endswith("pack it: argosy image pack torch")
    store.archive(DIGEST).parent.mkdir()
    store.archive(DIGEST).touch()
    store.root(DIGEST).rmdir()
    assert missing_image(run) is None


def test_nothing_is_asked_of_slurm_for_a_missing_image(tmp_path: Path, store: Store) -> None:
    run = run_with(tmp_path, store)
    with pytest.raises(ArgosyError, match="argosy image build torch"):
        check_scripts([run / "job.sbatch"], print)


def test_no_scheduler_starts_the_run(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = run_with(tmp_path, store)
    tools = tmp_path / "bin"
    # An empty queue: no Slurm is needed to see that nothing is submitted.
    answering(tools, "squeue", queue())
    monkeypatch.setenv("PATH", str(tools), prepend=":")
    for scheduler in (LocalScheduler(), SlurmScheduler(poll_s=0)):
        scheduler.submit([run])
        status = scheduler.poll()[run]
        assert status.state is State.REFUSED
        assert "argosy image build torch" in status.reason
        assert scheduler.poll() == {}
    assert read_jobs(run) == []


BROUGHT: list[BatchSystem] = [local, slurm]
SPOOL = Path(__file__).parents[2] / "schedulers"


def test_each_folder_is_found_by_its_name() -> None:
    assert [find_batch_system(name) for name in ("local", "slurm")] == BROUGHT


def test_another_one_is_a_package_beside_argosy(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(
        ArgosyError, match="there is no `spool`; there are local, slurm, and packages"
    ):
        find_batch_system("spool")
    monkeypatch.syspath_prepend(str(SPOOL))
    found = find_batch_system("spool")
    assert found.NAME == "the spool"
    wanted = {
        *BatchSystem.__annotations__,
        *(n for n in vars(BatchSystem) if not n.startswith("_")),
    }
    assert wanted <= set(vars(found))
    monkeypatch.delitem(sys.modules, "argosy_scheduler_spool")


def test_it_has_sixty_lines() -> None:
    files = [path for path in (SPOOL / "argosy_scheduler_spool").iterdir() if path.is_file()]
    lines = [line for path in files for line in path.read_text().splitlines() if line.strip()]
    assert len(lines) <= 60


@pytest.mark.parametrize("name", ["base", "job_request", "slurm.queue", "../x", "", "os"])
def test_what_is_no_scheduler(name: str) -> None:
    """A module beside them is none, and neither is any other module of Python's."""
    with pytest.raises(ArgosyError, match="there is no"):
        find_batch_system(name)
