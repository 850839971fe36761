"""A run whose image is not in the store is refused before its job is submitted or started."""

from pathlib import Path

import pytest
from slurm_answers import answering, queue

from argosy.run_folder.job_file import read_jobs
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
