"""Python's warnings of unusual patterns never reach a user's terminal."""

import subprocess
import sys
from typing import Any

import pytest
from agent_job import jobs

ODD = "[[a-z] [0-9--a] [x&&y] [x||y] [x~~y] ([0-9.]+)"


@pytest.mark.parametrize(
    "code",
    [
        "from argosy.study.throughput import Throughput; Throughput.model_validate({ODD!r})",
        "from argosy.study.throughput import _one_group; _one_group({ODD!r})",
        "from argosy_images.builder.inputs import PathSpec; PathSpec.from_lines('gitignore', ['[[a-z]*'])",
        "from argosy.bundle.contents import PathSpec; PathSpec.from_lines('gitignore', ['[[a-z]*'])",
    ],
)
def test_commands_print_no_warning(code: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", code.format(ODD=ODD)], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_agent_prints_no_warning(tmp_path: Any) -> None:
    with jobs(tmp_path) as make:
        job = make(
            "print('a 0 x x x 7 loss')", nodes=1, throughput=ODD, metrics={"loss": f"{ODD} loss"}
        ).start()
        assert job.wait() == [0], job.outputs()
    assert "Possible" not in job.outputs() and "Warning" not in job.outputs()
