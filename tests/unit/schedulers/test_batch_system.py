"""Each scheduler's folder has what is asked of it, and one that is not there is named."""

import sys
from pathlib import Path

import pytest

from argosy.schedulers import BatchSystem, find_batch_system, local, slurm
from argosy_common.errors import ArgosyError

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
