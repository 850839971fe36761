"""Files of a run's program: changes in them are detected, and no others."""

import json
import os
import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from argosy.runtime import program_files
from argosy.runtime.program_files import Program, changed

FILES = {
    "train.py": "import os\nfrom models import resnet\n\nimport losses, optimisers as o\n"
    "open('train.yaml')\n",
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


def program_digests(
    words: Iterable[str], workloads: str, runtime: str = "container", **variables: str
) -> dict[str, str]:
    """Return the digests of a run's program."""
    return Program(words, variables, workloads, is_native=runtime == "native").digests()


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
        # A program does not import from parent folders.
        (["/workloads/nested/deep/train.py"], {"nested/deep/train.py", "nested/deep/near.py"}),
        (["train", "--config=/workloads/other.yaml"], {"other.yaml"}),
        # Any named file counts, wherever the program is.
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
    # A file that the command names counts, whatever its type.
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


DATA = 3000
IMPORTING = {
    # An installed package takes precedence over a folder without __init__.py.
    "walk.py": "import torch\nfrom torch.utils import data\nfrom torch import nn, own\n",
    "torch/digits.py": "",
    "torch/own.py": "",
    "data/labels.yaml": "",
    "data/code.py": "",
    # Only the files of a package that an import loads.
    "inner.py": "import pack.deep.leaf\nimport time, json.decoder\n",
    "pack/__init__.py": "",
    "pack/other.py": "",
    "pack/deep/__init__.py": "from .. import sibling\n",
    "pack/deep/leaf.py": "import unrelated\nfrom ...above import x\n",
    "pack/deep/unused.py": "",
    "pack/sibling.py": "from .deep import *\n",
    "unrelated.py": "",
    "above.py": "",
    "time.py": "",
    "json.py": "",
    # A module takes precedence over a folder of its name, a package over both.
    "module.py": "import both\nfrom both import part\n",
    "both.py": "",
    "both/part.py": "",
    "star.py": "from listed import *\n",
    "listed/__init__.py": "__all__ = ['one', 'value']\nvalue = 1\n",
    "listed/one.py": "",
    "listed/two.py": "",
    # Names that the program computes.
    "dynamic.py": "import importlib\nimportlib.import_module('listed.two')\n__import__('both')\n",
    "registry.py": "from importlib import import_module as load\nimport importlib\n"
    "importlib.import_module(f'models.{name}')\n",
    "models/__init__.py": "",
    "models/resnet.py": "",
    "models/vit.py": "",
    "plugins.py": "import loaded\n",
    "loaded/__init__.py": "import importlib\n"
    "[importlib.import_module('.' + n, __name__) for n in x]\n",
    "loaded/first.py": "",
    "typed.py": "from typing import TYPE_CHECKING\n"
    "if TYPE_CHECKING:\n    import both\nelse:\n    import above\n",
    "said.py": '"""As both.py and torch/digits.py."""\n# See above.py, import both\nx = \'import both\'\n',
    "newer.py": "import both\nfrom listed import (\n    one,\n)\nmatch x:\n    case 1 if ~~: pass\n",
    # Folders that a program adds to Python's path.
    "tools/run.py": "import sys, os\n"
    "sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'lib'))\n"
    "import helper\n",
    "tools/up.py": "import sys, pathlib\n"
    "sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))\nimport above\n",
    "tools/named.py": "import sys\nsys.path += ['/workloads/lib']\nimport helper\n",
    "lib/helper.py": "",
    "lib/spare.py": "",
    "app/__main__.py": "import near\n",
    "app/near.py": "",
    "start.sh": 'cd "$(dirname "$0")"\npython3 -m pack.sibling\n',
    "linking/link.py": "",
}


@pytest.fixture
def importing(tmp_path: Path) -> Path:
    folder = tmp_path / "project/containers/workloads"
    for name, text in IMPORTING.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    (folder / "linking/link.py").unlink()
    (folder / "linking/link.py").symlink_to("../tools/up.py")
    return folder


@pytest.mark.parametrize(
    ("words", "files"),
    [
        ("python3 /workloads/walk.py", "walk.py torch/own.py"),
        (
            "python3 /workloads/inner.py",
            "inner.py pack/__init__.py pack/deep/__init__.py pack/deep/leaf.py pack/sibling.py "
            "unrelated.py json.py",
        ),
        ("python3 /workloads/module.py", "module.py both.py"),
        ("python3 /workloads/star.py", "star.py listed/__init__.py listed/one.py"),
        ("python3 /workloads/dynamic.py", "dynamic.py listed/__init__.py listed/two.py both.py"),
        (
            "python3 /workloads/registry.py",
            "registry.py models/__init__.py models/resnet.py models/vit.py",
        ),
        ("python3 /workloads/plugins.py", "plugins.py loaded/__init__.py loaded/first.py"),
        ("python3 /workloads/typed.py", "typed.py above.py"),
        ("python3 /workloads/said.py", "said.py"),
        ("python3 /workloads/newer.py", "newer.py both.py listed/__init__.py listed/one.py"),
        ("python3 /workloads/tools/run.py", "tools/run.py lib/helper.py"),
        ("python3 /workloads/tools/up.py", "tools/up.py above.py"),
        ("python3 /workloads/tools/named.py", "tools/named.py lib/helper.py"),
        ("python3 /workloads/app", "app/__main__.py app/near.py"),
        (
            "bash /workloads/start.sh",
            "start.sh pack/__init__.py pack/sibling.py pack/deep/__init__.py",
        ),
        # Links are followed to find a program's folder.
        ("python3 /workloads/linking/link.py", "linking/link.py above.py"),
        ("bash -c 'cd /workloads && python3 app'", "app/__main__.py app/near.py"),
        ("bash -c 'cd /workloads/lib; python3 helper.py'", "lib/helper.py"),
        ("bash -c 'cd /workloads; python3 -m pack.other'", "pack/__init__.py pack/other.py"),
        (
            "torchrun /workloads/said.py --data /workloads/data",
            "said.py data/labels.yaml data/code.py",
        ),
    ],
)
def test_what_python_would_import_counts_and_nothing_else(
    importing: Path, words: str, files: str
) -> None:
    assert found(importing, *shlex.split(words)) == {*files.split()}


@pytest.mark.parametrize(
    ("words", "files"),
    [
        ("python3 -m pack.other", "pack/__init__.py pack/other.py"),
        ("python3 -c 'from listed import one'", "listed/__init__.py listed/one.py"),
        ("torchrun --nnodes 2 -m pack.other", "pack/__init__.py pack/other.py"),
    ],
)
def test_modules_are_found_where_a_variable_says(importing: Path, words: str, files: str) -> None:
    digests = program_digests(
        shlex.split(words), str(importing), PYTHONPATH="/workloads:/opt/others"
    )
    names = {name.removeprefix("/workloads/") for name in digests}
    assert names == {*files.split()}


def test_data_is_not_walked(importing: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(DATA):
        (importing / f"data/{number}.bin").touch()
    (importing / "walk.py").write_text("from data import loader\nfrom torch.utils import data\n")
    scanned: list[str] = []
    scandir = os.scandir

    def scan(path: str) -> Any:
        scanned.append(str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", scan)
    monkeypatch.setattr(os, "listdir", scan)
    assert found(importing, "python3", "/workloads/walk.py") == {"walk.py"}
    assert scanned == []
    # A folder that the command names is not listed completely.
    assert found(importing, "python3", "/workloads/walk.py", "/workloads/data") == {"walk.py"}


@pytest.mark.parametrize(
    ("command", "files"),
    [
        ("{home}/env/bin/python train.py configs/base.yaml", "train.py near.py configs/base.yaml"),
        ("python3 ./train.py --config=configs/base.yaml", "train.py near.py configs/base.yaml"),
        ("python3 -m package.run", "package/__init__.py package/run.py"),
        ("{home}/code/other.py", "{home}/code/other.py {home}/code/beside.py"),
        ("./compiled --out results.json", "compiled"),
        ("python3 /workloads/inside.py", "/workloads/inside.py"),
        ("bash -c 'cd package; python3 run.py'", "package/run.py"),
        ("/usr/bin/env python3 {home}/env/bin/tool", ""),
        ("/bin/echo 3", ""),
    ],
)
def test_programs_of_a_run_without_a_container(tmp_path: Path, command: str, files: str) -> None:
    home = tmp_path / "home"
    project = home / "project"
    texts = {
        "project/train.py": "import near\n",
        "project/near.py": "",
        "project/spare.py": "",
        "project/results.json": "{}",
        "project/compiled": "",
        "project/configs/base.yaml": "",
        "project/package/__init__.py": "",
        "project/package/run.py": "",
        "project/containers/workloads/inside.py": "",
        "code/other.py": "import beside\n",
        "code/beside.py": "",
        "env/bin/python": "",
        "env/bin/tool": "#!python\n",
    }
    for name, text in texts.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text)
    for name in ("env/bin/python", "env/bin/tool", "project/compiled"):
        (home / name).chmod(0o755)
    words = shlex.split(command.format(home=home))
    digests = program_digests(words, str(project / "containers/workloads"), "native")
    assert {*digests} == {*files.format(home=home).split()}


@pytest.mark.parametrize(
    ("command", "files"),
    [("/bin/echo 3", ""), ("{home}/other.py", "{home}/other.py"), ("python3 train.py", "train.py")],
)
def test_settings_of_a_repository_are_no_program(tmp_path: Path, command: str, files: str) -> None:
    """Without a container, a command names its working directory only by a path."""
    project = tmp_path / "project"
    for name in ("config/config.yaml", "train.py", "../other.py"):
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).touch()
    words = shlex.split(command.format(home=tmp_path))
    digests = program_digests(words, str(project), "native")
    names = {name.removeprefix("/workloads/") for name in digests}
    assert names == {*files.format(home=tmp_path).split()}
    assert "/workloads/config/config.yaml" in program_digests(
        ["cat", "config"], str(project), "native"
    )


def test_what_cannot_be_read_is_left_out(workloads: Path) -> None:
    for name in ("secret", "models/secret"):
        (workloads / name).mkdir(mode=0)
    try:
        names = found(workloads, "tool", "/workloads/models", "/workloads/secret")
    finally:
        for name in ("secret", "models/secret"):
            (workloads / name).chmod(0o700)
    assert {"models/resnet.py", "models/layers.py"} <= names


def test_warnings_on_a_program_are_its_own(
    workloads: Path, recwarn: pytest.WarningsRecorder
) -> None:
    (workloads / "train.py").write_text("import losses\nx = '\\d' is 'y'\n")
    assert "losses.py" in found(workloads, "python3", "/workloads/train.py")
    assert not recwarn.list
