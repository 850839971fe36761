"""The images' self-test detects faults."""

from pathlib import Path

import pytest
from image_programs import contained

from argosy_images.engines.models import Bind, Container
from argosy_images.store.store import Store

pytestmark = pytest.mark.container
PATH = {"PATH": "/opt/venv/bin:/usr/bin:/bin"}

# A Horovod whose optimizer does not average, as with Keras 3.
FORGETFUL = """
import runpy, sys
import horovod.torch as hvd
hvd.DistributedOptimizer = lambda optimizer, **_: optimizer
sys.argv = ["/opt/horovod/self_test.py", "torch"]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
# A Horovod with slightly wrong sums.
INEXACT = FORGETFUL.replace(
    "hvd.DistributedOptimizer = lambda optimizer, **_: optimizer",
    "right = hvd.allreduce; hvd.allreduce = lambda values, **more: right(values, **more) + 1",
)


def run(store: Store, digest: str, folder: Path, program: str) -> tuple[int | None, str]:
    """Run the self-test's ranks with a program that first breaks something."""
    (folder / "broken.py").write_text(program)
    start = (
        "import sys; sys.path.insert(0, '/opt/horovod'); import self_test; "
        "self_test.__file__ = '/job/broken.py'; sys.exit(self_test.start_ranks('torch'))"
    )
    inside = Container(
        store.root(digest),
        ["python3", "-c", start],
        binds=[Bind(folder, "/job", writable=True)],
        environment=PATH,
    )
    outcome, said = contained(store, inside)
    return outcome.status, said


def test_a_working_horovod_passes(project_store: Store, torch_digest: str, tmp_path: Path) -> None:
    right = FORGETFUL.replace("hvd.DistributedOptimizer = lambda optimizer, **_: optimizer", "")
    status, said = run(project_store, torch_digest, tmp_path, right)
    assert status == 0, said
    assert "self-test: 2 ranks, exact sums, identical weights" in said


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("program", "found"),
    [(FORGETFUL, "the ranks' weights differ after training"), (INEXACT, "the sum of")],
)
def test_a_broken_horovod_does_not(
    project_store: Store, torch_digest: str, tmp_path: Path, program: str, found: str
) -> None:
    status, said = run(project_store, torch_digest, tmp_path, program)
    assert status != 0
    assert found in said
