"""Engines without isolation: an image cannot select them; they are used if nothing else works."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from image_programs import built
from no_namespaces import CHOOSE, without_namespaces

from argosy_images.engines.choice import choose_engine, engine_of_host
from argosy_images.store.lockfile import ImageLock
from argosy_images.store.store import Store

pytestmark = [pytest.mark.alone, pytest.mark.container, pytest.mark.udocker]

# The image's shell starts only where it sees the host's processes.
HOSTILE = """FROM docker.io/library/debian:bookworm-slim
COPY --chmod=755 sh /bin/hostile
RUN ln -sf hostile /bin/sh
"""
SHELL = """#!/bin/dash
[ "$$" -lt 100 ] && exit 1
exec /bin/dash "$@"
"""
HONEST = """FROM docker.io/library/debian:bookworm-slim
ENTRYPOINT ["/bin/bash", "-l"]
"""


def build(folder: Path, store: Store, name: str, text: str) -> ImageLock:
    image = folder / "containers" / name
    image.mkdir(parents=True)
    (image / "sh").write_text(SHELL)
    return built(store, image, text)


def program(digest: str, logs: Path, *options: str) -> list[str | Path]:
    """Return the command that batch scripts start on each node."""
    command = [sys.executable, "-m", "argosy_images.run", "--digest", digest, "--log-dir", logs]
    return [*command, *options, "--", "/bin/dash", "-c", "echo inside $ARGOSY_ENTRYPOINT; exit 4"]


def test_an_image_that_does_not_start_gets_no_weaker_engine(
    with_proot: Store, tmp_path: Path
) -> None:
    store = with_proot
    lock = build(tmp_path, store, "hostile", HOSTILE)
    choice = choose_engine(store, every=True)
    by_name = {trial.engine: trial for trial in choice.trials}
    assert by_name["proot"].works, by_name["proot"]
    assert choice.engine in ("runc", "crun")
    environment = {**os.environ, "ARGOSY_STORE": str(store.path)}
    done = subprocess.run(
        program(lock.digest, tmp_path),
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2, done.stdout
    assert "inside" not in done.stdout
    assert "did not start here" not in done.stdout
    [line] = done.stderr.splitlines()
    assert line.startswith(f"error: image hostile: {choice.engine} starts containers on ")
    (note,) = store.engines.glob("*.json")
    assert json.loads(note.read_text())["engine"] == choice.engine


def test_where_nothing_else_works_it_says_what_it_does_not_protect_from(
    with_proot: Store, tmp_path: Path
) -> None:
    store = with_proot
    lock = build(tmp_path, store, "honest", HONEST)
    chosen = without_namespaces(sys.executable, "-c", CHOOSE, store.path)
    assert chosen.stdout == "proot\n", chosen.stderr
    engine = chosen.stdout.strip()
    environment = {"ARGOSY_STORE": str(store.path)}
    command = program(lock.digest, tmp_path)
    done = without_namespaces(*command, cwd=tmp_path, environment=environment)
    assert done.returncode == 4, done.stdout + done.stderr
    said, inside = done.stdout.splitlines()
    assert said.startswith(f"argosy: {engine} does not isolate: programs in the image see ")
    assert inside == "inside /bin/bash -l"
    assert (tmp_path / "node-0.log").read_text() == done.stdout
    shown = without_namespaces(
        *(sys.executable, "-m", "argosy.cli", "image", "engines"),
        cwd=tmp_path,
        environment=environment,
    )
    assert "chosen: no engine with isolation works" in " ".join(shown.stdout.split())
    assert "does not isolate: programs in the image see " in shown.stderr


def test_a_note_of_a_weaker_engine_counts_only_while_no_other_works(with_proot: Store) -> None:
    store = with_proot
    choose_engine(store)
    (note,) = store.engines.glob("*.json")
    note.write_text(json.dumps({**json.loads(note.read_text()), "engine": "proot"}))
    assert engine_of_host(store) in ("runc", "crun")
    assert json.loads(note.read_text())["engine"] in ("runc", "crun")


def test_the_sites_word_counts_and_is_commented(with_proot: Store, tmp_path: Path) -> None:
    lock = build(tmp_path, with_proot, "honest", HONEST)
    environment = {**os.environ, "ARGOSY_STORE": str(with_proot.path)}
    command = program(lock.digest, tmp_path, "--engine", "proot")
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stdout.splitlines()[1:]) == (4, ["inside /bin/bash -l"])
    assert done.stdout.startswith("argosy: proot does not isolate: ")
