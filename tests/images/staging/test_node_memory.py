"""The memory that a job's control groups leave, for both versions of control groups."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from argosy_common.errors import ArgosyError
from argosy_images.staging import unpack
from argosy_images.staging.folder import NodeFolder

MIB = 1 << 20


def machine(root: Path, groups: str, files: Mapping[str, str]) -> Path:
    """Make a folder with the relevant files of /proc and /sys."""
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(groups)
    (root / "proc/meminfo").write_text("MemTotal:  2048 kB\nMemAvailable:    1024 kB\n")
    for name, text in files.items():
        path = root / "sys/fs/cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_the_narrowest_group_around_the_job_counts(tmp_path: Path) -> None:
    files = {
        "memory.stat": "",
        "slurm/job/memory.max": f"{100 * MIB}\n",
        "slurm/job/memory.current": f"{40 * MIB}\n",
        "slurm/job/memory.stat": f"anon 5\ninactive_file {10 * MIB}\n",
        "slurm/job/step/memory.max": "max\n",
        "slurm/job/step/memory.current": "0\n",
    }
    root = machine(tmp_path, "0::/slurm/job/step\n", files)
    assert unpack.job_limit(root) == 70 * MIB
    assert unpack.available(root) == MIB


def test_version_one_is_read_as_well(tmp_path: Path) -> None:
    files = {
        "memory/job/memory.limit_in_bytes": f"{64 * MIB}",
        "memory/job/memory.usage_in_bytes": f"{MIB}",
        "memory/job/memory.stat": "cache 1\ntotal_inactive_file 0\n",
        "memory/memory.limit_in_bytes": "9223372036854771712",
        "memory/memory.usage_in_bytes": "5",
        "memory/memory.stat": "",
    }
    groups = "5:cpu,cpuacct:/job\n4:memory:/job\n0::/elsewhere\n"
    assert unpack.job_limit(machine(tmp_path, groups, files)) == 63 * MIB


@pytest.mark.parametrize("groups", ["", "0::/\n", "4:memory:/job\n"])
def test_without_a_limit_there_is_none(tmp_path: Path, groups: str) -> None:
    assert unpack.job_limit(machine(tmp_path, groups, {})) is None


def test_this_machine_can_be_read() -> None:
    assert unpack.available(Path("/")) > MIB
    unpack.job_limit(Path("/"))


def test_too_large_an_image_is_told_with_its_sizes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = NodeFolder.below(tmp_path)
    unpack.make_room_in_memory(folder, MIB)
    monkeypatch.setattr(unpack, "job_limit", lambda root: 5 * MIB)
    with pytest.raises(
        ArgosyError, match=r"needs 6 MiB, but .* has 5 MiB left of the job's memory;"
    ):
        unpack.make_room_in_memory(folder, 6 * MIB)
