"""Images described in config.yaml: their Containerfiles, and refused package lists."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from argosy.shipped.files import image_folder
from argosy.study import conda_install
from argosy.study.built_images import BuiltImage, described_files, written_image
from argosy.study.config import Source, parse_config
from argosy.study.models import Config
from argosy.study.requirements import read_lists
from argosy.study.runs import expand
from argosy_common.errors import ArgosyError
from argosy_images.builder.recipe import plan

DEEP = (f"a = {'[' * 5000}", f"a = {'9' * 5000}")


def described(**keys: Any) -> BuiltImage:
    return BuiltImage.model_validate({"from": "torch-cpu", "python": "requirements.txt", **keys})


def configured(*images: Any) -> Config:
    experiments = {
        f"e{number}": {"image": image, "command": "true", "scale": {"nodes": [1]}}
        for number, image in enumerate(images)
    }
    values = yaml.safe_load(yaml.safe_dump({"experiments": experiments}))
    return parse_config(values, [Source("config.yaml", values)])


def test_experiments_of_one_description_share_an_image() -> None:
    image = {"from": "torch-cpu", "python": "requirements.txt", "system": ["libgl1"]}
    config = configured(image, image, {**image, "system": "git"}, "torch-cpu")
    names = [run.image for run in expand(config) if run.repeat == 1]
    assert names[0] == names[1] != names[2] and names[3] == "torch-cpu"
    assert str(names[0]).startswith("torch-cpu-") and {*config.built_images} == {*names[:3]}
    assert not config.taken_images


@pytest.mark.parametrize(
    ("image", "said"),
    [
        ({"from": "torch-cpu"}, "image: add python or system, or write image: torch-cpu"),
        ({"form": "a", "system": "git"}, "image.form: no such key; did you mean from?"),
        ({"from": "../x", "system": "git"}, "image.from: write a folder of containers/"),
        ({"from": "a", "system": ["x; rm"]}, "image.system.0: is not the name of a Debian package"),
        ({"from": "a", "python": "environment.json"}, "uv.lock or environment.yml"),
        ({"from": "a", "python": "/etc/a.txt"}, "image.python: write its path below the project"),
        (
            {"from": "a", "python": "a/../../b.txt"},
            "image.python: write its path below the project",
        ),
        ({"from": "a", "python": "a$(b).txt"}, "image.python: rename the file"),
        ([1], "image: write the name of an image, or a mapping with from, python and system"),
    ],
)
def test_a_wrong_description_is_one_line(image: Any, said: str) -> None:
    with pytest.raises(ArgosyError) as told:
        configured(image)
    assert said in str(told.value) and "\n" not in str(told.value)


def test_names_of_packages_and_files_are_no_shell() -> None:
    for name in ("-y", "a b", "a\nb", "$(id)", "A", ""):
        with pytest.raises(ValidationError):
            described(system=[name])
    for name in ("a\nb.txt", 'a".txt', "a\\.txt", "*.txt", "requirements"):
        with pytest.raises(ValidationError):
            described(python=name)


@pytest.mark.parametrize("name", ["my lists/über; rm -rf <<EOF.txt", "-r.txt", "requirements.txt"])
def test_what_is_written_is_a_containerfile_with_copies(tmp_path: Path, name: str) -> None:
    (tmp_path / "containers/base").mkdir(parents=True)
    (tmp_path / "containers/base/Containerfile").write_text("FROM scratch\n")
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text(
        "six  # a comment\n-c common.txt\nattrs @ https://host/attrs.whl\n"
    )
    (tmp_path / name).with_name("common.txt").write_text("six==1.16.0\n")
    image = described(**{"from": "base", "python": name, "system": ["libgl1", "g++"]})
    image.write(tmp_path)
    folder = image_folder(tmp_path, image.name)
    recipe = plan(folder, others=[tmp_path / "containers"])
    copied = [path.read_text() for path in recipe.files if path.suffix == ".txt"]
    assert copied == [path.read_text() for path in image.inputs(tmp_path)] and len(copied) == 2
    *_, apt, _, _, pip = recipe.final.steps
    assert "install -y --no-install-recommends libgl1 g++ " in apt.inputs["command"]
    assert pip.inputs["command"].endswith(f'/opt/argosy/python/{name}"]'.replace("ü", "\\u00fc"))
    assert written_image(tmp_path, image.name) == image
    assert described_files(tmp_path) == [name, str(Path(name).with_name("common.txt"))]
    keys = recipe.final.key
    assert not image.is_outdated(tmp_path)
    (tmp_path / name).write_text("six\n")
    assert image.is_outdated(tmp_path)
    assert plan(folder, others=[tmp_path / "containers"]).final.key == keys
    image.write(tmp_path)
    assert plan(folder, others=[tmp_path / "containers"]).final.key != keys


def test_an_image_of_argosy_is_a_base_without_a_copy(tmp_path: Path) -> None:
    from argosy.shipped.files import image_folders

    (tmp_path / "containers/own").mkdir(parents=True)
    (tmp_path / "containers/own/Containerfile").write_text("FROM localhost/torch-cpu\nRUN true\n")
    recipe = plan(tmp_path / "containers/own", others=image_folders(tmp_path))
    assert len(recipe.final.steps) > 2
    with pytest.raises(ArgosyError, match=r"there is no .*torch-cpu/Containerfile"):
        plan(tmp_path / "containers/own")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("-e .", "requirements.txt: '-e .' cannot be installed"),
        ("six\n./wheels/a.whl", "'./wheels/a.whl' cannot be installed"),
        ("a-1.0-py3-none-any.whl", "cannot be installed"),
        ("a @ file:///home/me/a", "cannot be installed"),
        ("--find-links=wheels", "cannot be installed"),
        ("-r https://host/list.txt", "copy the file into the project"),
        ("-rmissing.txt", "-rmissing.txt: there is no file missing.txt"),
        ("--requirement=../list.txt", "--requirement=../list.txt: leads out of the project"),
        ("-c /etc/hostname", "-c /etc/hostname: leads out of the project"),
        ("-r link.txt", "link.txt leads out of the project"),
        ("-r folder.txt", "folder.txt is not a file"),
        ("-r a\0.txt", "embedded null byte"),
        ("-r \\\nloop.txt\n-r latin.txt", "latin.txt is not UTF-8"),
    ],
)
def test_a_list_that_a_build_cannot_have_is_refused(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "requirements.txt").write_text(text + "\n")
    (tmp_path / "link.txt").symlink_to("/etc/hostname")
    (tmp_path / "folder.txt").mkdir()
    (tmp_path / "loop.txt").write_text("-r requirements.txt\n")
    (tmp_path / "latin.txt").write_bytes(b"\xfc\n")
    with pytest.raises(ArgosyError) as told:
        described().write(tmp_path)
    assert said in str(told.value)
    assert not (tmp_path / "resources").exists()


def test_lists_may_name_each_other_deeper_than_calls_are(tmp_path: Path) -> None:
    for number in range(1200):
        (tmp_path / f"{number}.txt").write_text(f"six\n-r {number + 1}.txt\n-r 1200.txt\n")
    (tmp_path / "1200.txt").write_text("six\n")
    found = read_lists(tmp_path, "0.txt")
    assert [*found] == [f"{number}.txt" for number in range(1201)]


def test_lists_of_projects(tmp_path: Path) -> None:
    image = described(python="sub/pyproject.toml")
    (tmp_path / "sub").mkdir()
    path = tmp_path / "sub/pyproject.toml"
    path.write_text(
        '[project]\nname = "x"\ndependencies = ["six>=1", "b; python_version > \'3\'"]\n'
    )
    image.write(tmp_path)
    copied = image_folder(tmp_path, image.name) / "python/requirements.txt"
    assert copied.read_text() == "six>=1\nb; python_version > '3'\n"
    assert image.inputs(tmp_path) == [path]
    with pytest.raises(ArgosyError, match=r"there is no file sub/uv.lock"):
        described(python="sub/uv.lock").write(tmp_path)
    (tmp_path / "sub/uv.lock").write_text("version = 1\n")
    assert len(described(python="sub/uv.lock").inputs(tmp_path)) == 2
    for wrong in ("[project", "[tool.x]\n", "[project]\ndependencies = 1\n", *DEEP):
        path.write_text(wrong)
        with pytest.raises(ArgosyError, match=r"sub/pyproject.toml: "):
            image.write(tmp_path)


def environment(folder: Path, text: str) -> BuiltImage:
    (folder / "sub").mkdir(exist_ok=True)
    (folder / "sub/environment.yml").write_text(text)
    return described(python="sub/environment.yml")


def test_a_conda_environment_becomes_steps(tmp_path: Path) -> None:
    text = """
name: mine
channels: [nodefaults, https://mirror.example.org/conda-forge, pytorch/label/rc]
dependencies:
  - numpy=2.1.0=py311h64a7726_0  # of an export
  - conda-forge::gdal >=3,<4
  - pip: ["-r extra.txt", six]
"""
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/extra.txt").write_text("attrs\n")
    image = environment(tmp_path, text)
    image.write(tmp_path)
    folder = image_folder(tmp_path, image.name)
    assert json.loads((folder / "python/conda.json").read_text()) == {
        "channels": ["https://mirror.example.org/conda-forge", "pytorch/label/rc"],
        "dependencies": ["numpy=2.1.0=py311h64a7726_0", "conda-forge::gdal >=3,<4", "pip"],
    }
    assert (folder / "python/sub/environment.yml.txt").read_text() == "-r extra.txt\nsix\n"
    inputs = [tmp_path / "sub/environment.yml", tmp_path / "sub/extra.txt"]
    assert image.inputs(tmp_path) == inputs
    assert described_files(tmp_path) == ["sub/environment.yml", "sub/extra.txt"]
    *_, command, _ = (folder / "Containerfile").read_text().splitlines()
    assert command.endswith(
        '/conda.json", "/opt/argosy/conda", "/var/cache/conda", '
        '"/opt/argosy/python/sub/environment.yml.txt"]'
    )
    environment(tmp_path, f"# a comment\n{text}")
    assert not image.is_outdated(tmp_path)
    environment(tmp_path, "dependencies: [pip, python>=3.11]").write(tmp_path)
    assert json.loads((folder / "python/conda.json").read_text()) == {
        "channels": ["conda-forge"],
        "dependencies": ["pip", "python>=3.11"],
    }


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[numpy]", "is not a conda environment"),
        ("packages: [numpy]", "is not a conda environment"),
        ("dependencies: []", "is not a conda environment"),
        ("dependencies: [a\n", "is not YAML"),
        ("dependencies: a", "dependencies: is not a list"),
        ("dependencies: [a]\nprefix: /home/me/conda", "prefix: Argosy does not support this key"),
        ("dependencies: [a]\nvariables: {A: b}", "variables: Argosy does not support this key"),
        ("dependencies: [a]\n1: b", "1: Argosy does not support this key"),
        ("dependencies:\n- a\n- b  # [win]", "line 3: conda ignores platform selectors"),
        ("dependencies: [{sel(linux): a}]", "dependencies.0: is not a line of text"),
        ("dependencies: [a, 1.5]", "dependencies.1: is not a line of text"),
        ("dependencies: [a, './a.conda']", "dependencies.1: is not a conda package"),
        ("dependencies: ['https://me:SECRET@h/a.conda']", "dependencies.0: is not a conda package"),
        ("dependencies: ['https://me:SECRET@h/c::a']", "dependencies.0: is not a conda package"),
        ("dependencies: ['--help']", "dependencies.0: is not a conda package"),
        ("dependencies: [{pip: [a, {b: c}]}]", "dependencies.0.pip.1: is not a line of text"),
        ("dependencies: [{pip: [-e .]}]", "'-e .' cannot be installed in an image"),
        ("dependencies: [{pip: [-r ../../a.txt]}]", "-r ../../a.txt: leads out of the project"),
        ("dependencies: [a]\nchannels: [defaults]", "channels.0: the defaults channels need"),
        ("dependencies: [a]\nchannels: [file:///c]", "channels.0: is not a channel"),
        ("dependencies: [a]\nchannels: ['https:///c']", "channels.0: is not a channel"),
        ("dependencies: [a]\nchannels: ['https://[c']", "channels.0: is not a channel"),
        ("dependencies: [a]\nchannels: ['https://me:SECRET@h/c']", "must not hold a login"),
        ("dependencies: [a]\nchannels: ['https://h/t/SECRET/c']", "must not hold a login"),
        ("dependencies: [a]\nchannels: ['https://h/c?key=SECRET']", "must not hold a login"),
    ],
)
def test_a_wrong_environment_is_one_line(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ArgosyError) as told:
        environment(tmp_path, text).write(tmp_path)
    line = str(told.value)
    assert line.startswith("sub/environment.yml: ") and said in line
    assert "\n" not in line and "SECRET" not in line
    assert not (tmp_path / "resources").exists()


def test_a_base_that_cannot_install_conda_packages_is_one_line(tmp_path: Path) -> None:
    arguments = ["conda.json", str(tmp_path), str(tmp_path / "downloads")]
    for options, said in ((["-S", "-I"], "with pip: add python3-pip to system"), ([], "already")):
        command = [sys.executable, *options, conda_install.__file__, *arguments]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 1 and said in done.stderr and done.stderr.count("\n") == 1
