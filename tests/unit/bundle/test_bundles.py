"""Bundles: content, secrets, progress, and packages for an offline machine."""

import hashlib
import json
import os
import shutil
import subprocess
import tarfile
import time
from pathlib import Path

import pytest
from bundled_studies import RUN, SITE, bundled, contents, make_project

from argosy.bundle import bundling
from argosy.bundle.archive import Progress
from argosy.bundle.bundling import Request, write_bundle
from argosy_common.errors import ArgosyError
from argosy_images.store.store import Store
from argosy_images.tools import Tools


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with results, made once."""
    return make_project(tmp_path_factory.mktemp("bundles") / "study")


@pytest.fixture
def study(made: Path, tmp_path: Path) -> Path:
    """A copy of the project that a test may change."""
    return shutil.copytree(made, tmp_path / "study")


def test_what_it_is_made_of_and_what_was_measured(study: Path, tmp_path: Path) -> None:
    found = contents(bundled(study, tmp_path / "study.zip"))
    assert {
        "Snakefile",
        "config/config.yaml",
        f"slurm/{SITE}/site.yaml",
        "containers/workloads/train.py",
        f"{RUN}/records/100.0/rank-0.steps",
        f"results/{SITE}/report.html",
        f"results/{SITE}/tables/runs.parquet",
        "ro-crate-metadata.json",
        "argosy-bundle.json",
        "manifest-sha256.txt",
    } <= {*found}
    assert found["Snakefile"] == (study / "Snakefile").read_bytes()
    report = json.loads(found[f"results/{SITE}/summary.json"])
    description = json.loads(found["argosy-bundle.json"])
    assert description["inputs"] == {SITE: report["inputs"]}
    assert report["inputs"].startswith("sha256:")
    assert report["inputs"] in (study / f"results/{SITE}/report.html").read_text()


def test_all_of_a_users_own_repository_is_in_it(study: Path, tmp_path: Path) -> None:
    shutil.rmtree(study / "containers")
    files = {
        "train.py": "print('training')",
        "mine/layers.py": "",
        "configs/base.yaml": "lr: 1",
        "data/huge.bin": "0",
        "venv/pyvenv.cfg": "",
        "logs/run.log": "",
        ".gitignore": "/data/\n/results/\n",
        ".env": "TOKEN=1",
    }
    for name, text in files.items():
        (study / name).parent.mkdir(exist_ok=True)
        (study / name).write_text(text)
    first = contents(bundled(study, study / "study.zip"))
    # A bundle in the project, and files unpacked from one, are not part of the next bundle.
    (study / "argosy-bundle.json").write_bytes(first["argosy-bundle.json"])
    found = contents(bundled(study, study / "again.zip"))
    for names in (first, found):
        assert {
            "train.py",
            "mine/layers.py",
            "configs/base.yaml",
            f"results/{SITE}/report.html",
        } <= {*names}
        left = {"data/huge.bin", "venv/pyvenv.cfg", "logs/run.log", ".env", "study.zip"}
        assert not left & {*names}
    assert {*first} == {*found}


def test_ignore_files_of_all_folders_count(study: Path, tmp_path: Path) -> None:
    subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True)
    (tmp_path / ".gitignore").write_text(f"/{study.name}/mine/secret/\n*.big\n")
    files = {
        "mine/.gitignore": "*.ckpt\n!keep.ckpt\n/top.txt\nsub/deep.txt\ncache/\n",
        **dict.fromkeys(
            ("mine/a.ckpt", "mine/sub/b.ckpt", "mine/top.txt", "mine/sub/deep.txt"), ""
        ),
        **dict.fromkeys(("mine/cache/x", "mine/sub/cache/x", "mine/secret/x", "mine/c.big"), ""),
        "mine/cache/.gitignore": "!x\n",
        "mine/[o]/.gitignore": "out\n",
        "mine/[o]/out": "",
        "only/.gitignore": "*\n!*/\n!*.py\n!.gitignore\n",
        "inner/.gitignore": "all/**\n!all/keep\n",
        **dict.fromkeys(("only/x.txt", "only/sub/x.txt", "inner/all/x"), ""),
        **dict.fromkeys(("only/x.py", "only/sub/x.py", "inner/all/keep"), "k"),
        **dict.fromkeys(
            ("keep.ckpt", "mine/keep.ckpt", "mine/sub/top.txt", "z.ckpt", "mine/o/out"), "k"
        ),
    }
    for name, text in files.items():
        (study / name).parent.mkdir(exist_ok=True, parents=True)
        (study / name).write_text(text)
    shutil.rmtree(study / "containers")
    git = ["git", "-C", str(study), "ls-files", "--others", "--exclude-standard"]
    asked = subprocess.run(git, capture_output=True, text=True, check=True).stdout
    found = contents(bundled(study, tmp_path / "study.zip"))
    kept = {name for name, text in files.items() if text == "k"}
    shown = {name for name in files if ".gitignore" not in name}
    assert {*found} & shown == {*asked.splitlines()} & shown == kept


@pytest.mark.parametrize("pattern", ["a[b--c]", "[z-a]", "!", "\\"])
def test_a_pattern_that_is_none_is_named(study: Path, tmp_path: Path, pattern: str) -> None:
    with pytest.raises(ArgosyError, match="--exclude: "):
        bundled(study, tmp_path / "study.zip", excluded=(pattern,))
    shutil.rmtree(study / "containers")
    (study / ".gitignore").write_text(f"{pattern}\n")
    with pytest.raises(ArgosyError, match=r"^.*/\.gitignore: "):
        bundled(study, tmp_path / "study.zip")


def test_an_earlier_bundle_is_replaced_aloud_and_no_other_file(study: Path, tmp_path: Path) -> None:
    said: list[str] = []
    target = tmp_path / "study.zip"
    target.write_text(f"argosy bundle 1 sha256:{64 * '0'}")
    write_bundle(Request(study, (SITE,), with_images=False), target, said.append)
    assert f"{target}: replacing the existing bundle" in said
    assert target.stat().st_mode & 0o777 == 0o600
    digest = hashlib.sha256(contents(target)["manifest-sha256.txt"]).hexdigest()
    assert digest.encode() in target.read_bytes()[-200:]
    other = tmp_path / "data.zip"
    other.write_text("mine")
    with pytest.raises(ArgosyError, match="exists and is not a bundle"):
        write_bundle(Request(study, (SITE,), with_images=False), other, said.append)
    assert other.read_text() == "mine"


@pytest.mark.parametrize("linked", ["results", f"results/{SITE}"])
def test_results_that_are_linked_to_another_disk(study: Path, tmp_path: Path, linked: str) -> None:
    names = contents(bundled(study, tmp_path / "before.zip")).keys()
    assert f"{RUN}/run.json" in names
    (study / linked).rename(tmp_path / "scratch")
    (study / linked).symlink_to(tmp_path / "scratch")
    assert contents(bundled(study, tmp_path / "after.zip")).keys() == names


def test_others_check_it_without_argosy(study: Path, tmp_path: Path) -> None:
    bundle = bundled(study, tmp_path / "study.zip")
    unpacked = tmp_path / "unpacked"
    subprocess.run(["python3", "-m", "zipfile", "-e", bundle, unpacked], check=True)
    command = ["sha256sum", "--check", "--quiet", "manifest-sha256.txt"]
    subprocess.run(command, cwd=unpacked, check=True)
    with (unpacked / "Snakefile").open("a") as file:
        file.write("# changed\n")
    assert subprocess.run(command, cwd=unpacked, capture_output=True).returncode == 1


def test_what_stays_behind(study: Path, tmp_path: Path) -> None:
    kept, secret = study / RUN / "output", tmp_path / "elsewhere.txt"
    kept.mkdir()
    secret.write_text("another's")
    (kept / "link").symlink_to(secret)
    (kept / "folder").symlink_to(tmp_path)
    os.mkfifo(kept / "pipe")
    (kept / "a\nb").write_text("two lines")
    (kept / "plain.txt").write_text("kept")
    for name in ("checkpoints/100.0/step-1/weights.pt", "output/.netrc"):
        (study / RUN / name).parent.mkdir(parents=True, exist_ok=True)
        (study / RUN / name).write_text("x")
    (study / "workflow/__pycache__").mkdir()
    (study / "workflow/__pycache__/x.pyc").write_text("x")
    (study / "containers/data").mkdir()
    (study / "containers/data/large.bin").write_text("x")
    (study / ".git").mkdir()
    (study / ".git/config").write_text("x")
    request = Request(study, (SITE,), excluded=("/containers/data/",), with_images=False)
    said = write_bundle(request, tmp_path / "study.zip", lambda line: None)
    found = contents(tmp_path / "study.zip")
    assert f"{RUN}/output/plain.txt" in found
    gone = (
        "link",
        "folder",
        "pipe",
        "checkpoints",
        "netrc",
        "__pycache__",
        "data/",
        ".git",
        "a\nb",
    )
    assert not [name for name in found if any(part in name for part in gone)]
    assert b"another's" not in b"".join(found.values())
    assert said[1].startswith("left out (links, special files, odd names): ")
    assert "and 1 more" in said[1]


def test_a_bundle_of_what_has_not_run_yet(study: Path, tmp_path: Path) -> None:
    shutil.rmtree(study / "results")
    found = contents(bundled(study, tmp_path / "study.zip"))
    assert not [name for name in found if name.startswith("results/")]


@pytest.fixture
def token(monkeypatch: pytest.MonkeyPatch) -> None:
    """A secret in the environment of the bundling process."""
    monkeypatch.setenv("MY_API_TOKEN", "the-value-of-it")


@pytest.mark.parametrize(
    ("name", "text", "what"),
    [
        ("config/login.txt", "-----BEGIN OPENSSH PRIVATE KEY-----\nabc", "a private key"),
        ("slurm/x/y.sh", "export T=hf_" + "a1B2" * 9, "a token of Hugging Face"),
        (f"{RUN}/logs/100.0/job.log", "clone https://me:passw0rd@git.example/x", "an address"),
        (f"{RUN}/output/config.json", '{"auths": {"r": {"auth": "bWU6cGFzcw=="}}}', "a login"),
        ("containers/x/Containerfile", "ENV K=AKIAABCDEFGHIJKLMNOP\n", "an access key of AWS"),
        ("workflow/a.py", "x = 'the-value-of-it'", "the value of the variable MY_API_TOKEN"),
    ],
)
@pytest.mark.usefixtures("token")
def test_what_looks_like_a_secret_is_refused(
    study: Path, tmp_path: Path, name: str, text: str, what: str
) -> None:
    path = study / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"one\ntwo\n{text}\n")
    with pytest.raises(ArgosyError) as problem:
        bundled(study, tmp_path / "study.zip")
    assert f"{name}:3: {what}" in problem.value.problem
    assert problem.value.hint.endswith(f"--exclude '/{name}'")
    assert [path.name for path in tmp_path.iterdir()] == ["study"]
    bundled(study, tmp_path / "study.zip", excluded=(f"/{name}",))


def test_a_secret_where_two_parts_of_a_file_meet(study: Path, tmp_path: Path) -> None:
    (study / RUN / "output").mkdir()
    text = "x" * ((4 << 20) - 10) + "\n-----BEGIN RSA PRIVATE KEY-----\n"
    (study / RUN / "output/long.txt").write_text(text)
    with pytest.raises(ArgosyError, match=r"long\.txt:2: a private key"):
        bundled(study, tmp_path / "study.zip")


@pytest.mark.slow
def test_no_false_alarm_in_the_project_itself(project: Path, tmp_path: Path) -> None:
    bundled(project, tmp_path / "project.zip")


def test_a_file_that_may_not_be_read(study: Path, tmp_path: Path) -> None:
    path = study / "containers/workloads/train.py"
    path.chmod(0)
    with pytest.raises(ArgosyError, match=r"train\.py: may not be read"):
        bundled(study, tmp_path / "study.zip")
    assert [path.name for path in tmp_path.iterdir()] == ["study"]


def test_what_cannot_be_bundled(study: Path, tmp_path: Path) -> None:
    with pytest.raises(ArgosyError, match="this is a folder"):
        bundled(study, tmp_path)
    with pytest.raises(ArgosyError, match="there is no Snakefile here"):
        bundled(tmp_path, tmp_path / "study.zip")


@pytest.mark.slow
def test_the_same_study_has_the_same_inputs_on_other_sites(tmp_path: Path) -> None:
    one, other = (make_project(tmp_path / name) for name in ("one", "other"))
    changed = make_project(tmp_path / "changed", "python3 other.py")
    digests = [
        json.loads((top / f"results/{SITE}/summary.json").read_text())["inputs"]
        for top in (one, other, changed)
    ]
    assert digests[0] == digests[1] != digests[2]


def test_a_word_after_a_while_and_none_before(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    said: list[str] = []
    progress = Progress(4 << 30, said.append)
    for second in range(25):
        now[0] = 100.0 + second
        progress.add(100 << 20)
    assert said == ["1.17 GiB of 4 GiB", "2.25 GiB of 4 GiB"]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = Store(tmp_path / "store")
    for name in ("lib/VERSION", f"bin/runc-{Tools.machine()}"):
        (store.udocker / name).parent.mkdir(parents=True, exist_ok=True)
        (store.udocker / name).write_text("1.2.11")
    return store


def names(store: Store, folder: Path) -> list[str]:
    with tarfile.open(bundling._tools(store, folder / "tools.tar.gz")) as archive:
        return [member.name for member in archive.getmembers() if member.isfile()]


def test_proot_of_the_distribution_goes_along(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "programs"
    folder.mkdir()
    (folder / "proot").write_text("#!/bin/sh\n")
    (folder / "proot").chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))
    assert f"udocker_dir/bin/proot-{Tools.machine()}" in names(store, tmp_path)
    # The unpacked proot is found.
    other = Store(tmp_path / "other")
    with tarfile.open(tmp_path / "tools.tar.gz") as archive:
        archive.extractall(other.udocker.parent)
    (other.path / "udocker_dir").rename(other.udocker)
    monkeypatch.setenv("PATH", "/nowhere")
    assert Tools(other).find_proot() == other.udocker / "bin" / f"proot-{Tools.machine()}"


def test_that_of_udockers_own_tools_is_there_once(store: Store, tmp_path: Path) -> None:
    own = store.udocker / "bin" / f"proot-{Tools.machine()}-4_8_0"
    own.write_text("#!/bin/sh\n")
    own.chmod(0o755)
    found = [name for name in names(store, tmp_path) if "proot" in name]
    assert found == [f"udocker_dir/bin/{own.name}"]
