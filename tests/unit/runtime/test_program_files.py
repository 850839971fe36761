"""Which files a run's program is made of: what changes in them is noticed, and nothing else."""

import json
import os
from collections.abc import Iterable
from pathlib import Path

import pytest

from argosy.runtime import program_files
from argosy.runtime.program_files import changed, program_digests

FILES = {
    "train.py": "import os\nfrom models import resnet\n\nimport losses, optimisers as o\n'train.yaml'\n",
    "losses.py": "    import deep\n",
    "optimisers.py": "",
    "deep.py": "",
    "unrelated.py": "import train\n",
    "train.yaml": "rate: 1\n",
    "other.yaml": "rate: 2\n",
    "data.bin": "1234",
    "models/__init__.py": "",
    "models/resnet.py": "import unrelated_of_above\nfrom . import layers\n",
    "models/layers.py": "",
    "models/weights.bin": "",
    "models/__pycache__/resnet.py": "",
    "models/.layers.py.swp.py": "",
    "unrelated_of_above.py": "",
    "run.sh": 'python3 "$(dirname "$0")/unrelated.py" /workloads/train.yaml\n',
    "nested/deep/train.py": "import losses\nimport near\n",
    "nested/deep/near.py": "",
    "nested/losses.py": "",
}


@pytest.fixture
def workloads(tmp_path: Path) -> Path:
    folder = tmp_path / "a project; with $(odd) 'name'" / "containers/workloads"
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def found(workloads: Path, *words: str) -> set[str]:
    digests = program_digests(words, str(workloads))
    assert list(digests) == sorted(digests)
    return {name.removeprefix("/workloads/") for name in digests}


TRAINING = {
    "train.py",
    "losses.py",
    "optimisers.py",
    "deep.py",
    "train.yaml",
    "models/__init__.py",
    "models/resnet.py",
    "models/layers.py",
    "unrelated_of_above.py",
}


@pytest.mark.parametrize(
    ("words", "files"),
    [
        (["python3", "/workloads/train.py", "--rate=1"], TRAINING),
        (["bash", "/workloads/run.sh"], {"run.sh", "unrelated.py", *TRAINING}),
        # What lies above a program's folder is not where it imports from.
        (["/workloads/nested/deep/train.py"], {"nested/deep/train.py", "nested/deep/near.py"}),
        (["train", "--config=/workloads/other.yaml"], {"other.yaml"}),
        # Whatever it is, and wherever the program itself lies.
        (["train", "/workloads/data.bin"], {"data.bin"}),
        (["sh", "-c", "python3 /workloads/deep.py; true"], {"deep.py"}),
        (["/opt/mine:/workloads/nested"], {each for each in FILES if each.startswith("nested/")}),
        (["/workloads/missing.py"], set()),
        (["/workloads-of-another/train.py"], set()),
        (["/another/workloads/train.py"], set()),
        (["see containers/workloads/train.py"], set()),
        (["/workloads/../../secret"], set()),
        (["python3", "-c", "print(1)"], set()),
    ],
)
def test_what_a_command_names_and_what_that_needs(
    workloads: Path, words: Iterable[str], files: set[str]
) -> None:
    (workloads.parents[1] / "secret").write_text("")
    assert found(workloads, *words) == files


def test_a_folder_is_its_programs_and_settings(workloads: Path) -> None:
    everything = {
        each for each in FILES if (".bin" not in each and "/__" not in each) or "init" in each
    }
    assert found(workloads, "cd /workloads && ./run") == everything - {"models/.layers.py.swp.py"}


def test_the_path_of_the_host_is_the_same_program(workloads: Path) -> None:
    inside = program_digests(["/workloads/train.py"], str(workloads))
    assert program_digests([f"{workloads}/train.py"], str(workloads)) == inside


def test_content_alone_is_compared(workloads: Path) -> None:
    before = program_digests(["/workloads/train.py"], str(workloads))
    os.utime(workloads / "losses.py", (1, 1))
    (workloads / "unrelated.py").write_text("# Another.\n")
    (workloads / "new.py").write_text("")
    now = program_digests(["/workloads/train.py"], str(workloads))
    assert changed(before, now) == []
    (workloads / "losses.py").write_text("import deep, new\n")
    (workloads / "optimisers.py").unlink()
    now = program_digests(["/workloads/train.py"], str(workloads))
    assert "/workloads/new.py" in now
    assert changed(before, now) == ["/workloads/losses.py", "/workloads/optimisers.py"]


def test_what_a_program_writes_beside_itself_is_no_change_of_it(workloads: Path) -> None:
    (workloads / "train.py").write_text("open('history.json', 'w')  # /workloads is read-only\n")
    before = program_digests(["/workloads/train.py"], str(workloads))
    assert [*before] == ["/workloads/train.py"]
    (workloads / "history.json").write_text("{}")
    assert program_digests(["/workloads/train.py"], str(workloads)) == before
    # A file that the command names is meant, whatever it is.
    named = program_digests(
        ["/workloads/train.py", "--out=/workloads/history.json"], str(workloads)
    )
    assert "/workloads/history.json" in named and changed(before, named) == []


def test_links_are_followed_and_nothing_is_waited_for(workloads: Path, tmp_path: Path) -> None:
    program = tmp_path / "elsewhere.py"
    program.write_text("one = 1\n")
    (workloads / "linked.py").symlink_to(program)
    os.mkfifo(workloads / "pipe.py")
    (workloads / "loop").symlink_to(workloads)
    before = program_digests(["/workloads/linked.py", "/workloads/pipe.py"], str(workloads))
    assert [*before] == ["/workloads/linked.py"]
    program.write_text("one = 2\n")
    now = program_digests(["/workloads/linked.py"], str(workloads))
    assert changed(before, now) == ["/workloads/linked.py"]
    assert "loop/train.py" not in found(workloads, "/workloads")


def test_names_that_are_no_text_are_shown_as_far_as_they_are(workloads: Path) -> None:
    for name in (b"half-\xff.py", b"code-\x1b[2J\n.py"):
        Path(os.fsdecode(os.fsencode(workloads / "models") + b"/" + name)).write_text("")
    names = program_digests(["/workloads/models"], str(workloads))
    assert {"/workloads/models/half-?.py", "/workloads/models/code-?[2J?.py"} < {*names}
    assert json.dumps(names, ensure_ascii=False).encode()


def test_of_a_long_file_the_size_is_noted(workloads: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program_files, "MOST_BYTES", 3)
    assert program_digests(["/workloads/data.bin"], str(workloads)) == {
        "/workloads/data.bin": "4 bytes"
    }


def test_two_programs_that_import_each_other_have_an_end(workloads: Path) -> None:
    (workloads / "deep.py").write_text("import losses\n")
    assert found(workloads, "/workloads/deep.py") == {"deep.py", "losses.py"}
