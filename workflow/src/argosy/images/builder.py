"""Builds an image from its Containerfile, step by step, each step cached by what went into it.

A cached step is a layer on disk, so an interrupted build goes on at the last step that was finished.
"""

import hashlib
import json
import platform
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from argosy.errors import ArgosyError
from argosy.images import cache, container, layers
from argosy.images.base import BUILD_VARIABLES, fakeroot_in, make_base
from argosy.images.cache import CachedStep
from argosy.images.container import Container
from argosy.images.containerfile import Containerfile, command, expand, read_containerfile
from argosy.images.copying import copy_into
from argosy.images.engines import choose_mode
from argosy.images.freeze import freeze, inside, link_host_files
from argosy.images.hostconfig import HostConfig, read_host_config
from argosy.images.lockfile import ImageLock, LockedBase, LockedStep, write_lock
from argosy.images.progress import Progress
from argosy.images.recipe import Step, copy_of, plan
from argosy.images.store import Store, remove_tree
from argosy.images.tools import ensure_udocker


def build_image(store: Store, folder: Path, lock_path: Path, log_path: Path) -> ImageLock:
    """Build the image of `containers/<name>/` as far as it is not cached, freeze it and lock it.

    People are told on standard error; everything that the steps print is in `log_path`.

    Raises:
        ArgosyError: naming the Containerfile's line when a step fails; finished steps stay cached.
    """
    name = folder.name
    containerfile = read_containerfile(folder / "Containerfile")
    steps = plan(containerfile)
    log_path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with store.locked(name), log_path.open("wb") as log:
        progress = Progress(log)
        ensure_udocker(store, progress.say)
        lock = Build(store, containerfile, steps, progress).run(name)
        write_lock(store.description(lock.digest), lock)
        write_lock(lock_path, lock)
        progress.say(f"image {name} {lock.digest[:19]} is frozen in {store.root(lock.digest)}")
    return lock


class Build:
    """One build under way: the working root file system and the layers it is made of."""

    def __init__(
        self, store: Store, containerfile: Containerfile, steps: list[Step], progress: Progress
    ) -> None:
        self.store = store
        self.containerfile = containerfile
        self.steps = steps
        self.progress = progress

    def run(self, name: str) -> ImageLock:
        """Do what is missing and return the lock of the finished image."""
        found = self._finished_steps()
        if len(found) == len(self.steps):
            lock = self._lock(name, found)
            if self.store.root(lock.digest).is_dir():
                self.progress.say(f"image {name}: all {len(found)} steps are cached")
                return lock
        work = self.store.work(name)
        remove_tree(work)
        try:
            lock = self._lock(name, self._build(work / "root", found))
            self._freeze(work / "root", lock)
        finally:
            remove_tree(work)
        return lock

    def _finished_steps(self) -> list[CachedStep]:
        """The steps from the first that need not run again."""
        found = []
        for step in self.steps:
            cached = cache.read_step(self.store, step.key)
            if cached is None:
                break
            found.append(cached)
        return found

    def _build(self, root: Path, found: list[CachedStep]) -> list[CachedStep]:
        root.mkdir(parents=True)
        root.chmod(0o755)
        self._restore(root, found)
        state = layers.snapshot(root)
        finished = list(found)
        self.store.downloads.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.TemporaryDirectory(prefix="argosy-") as scratch:
            host = read_host_config(Path(scratch), self.store.downloads)
            for step in self.steps[len(found) :]:
                with self.progress.step(self._title(len(finished) + 1, step)):
                    inherited = finished[0].environment if finished else {}
                    done = self._execute(step, root, host, inherited)
                    after = layers.snapshot(root)
                    change = layers.difference(state, after)
                    finished.append(cache.write_step(self.store, step.key, done, root, change))
                    state = after
        return finished

    def _title(self, number: int, step: Step) -> str:
        text = step.instruction.text
        return f"[{number}/{len(self.steps)}] {text if len(text) <= 90 else text[:89] + '…'}"

    def _restore(self, root: Path, found: list[CachedStep]) -> None:
        for step, cached in zip(self.steps, found, strict=False):
            cache.restore_step(self.store, step.key, cached, root)
        if found:
            self.progress.say(f"{len(found)} of {len(self.steps)} steps are cached")
            link_host_files(root)

    def _execute(
        self, step: Step, root: Path, host: HostConfig, inherited: Mapping[str, str]
    ) -> CachedStep:
        """Carry out one instruction in `root`; `inherited` is the environment of the base."""
        instruction = step.instruction
        match instruction.name:
            case "FROM":
                reference = expand(instruction.value, {})
                base = make_base(self.store, reference, root, host, self.progress.say)
                link_host_files(root)
                return CachedStep(
                    instruction=instruction.text,
                    reference=reference,
                    source=base.source,
                    environment=dict(base.environment),
                )
            case "RUN":
                self._run(step, root, host, inherited)
            case "COPY":
                copy_into(root, copy_of(self.containerfile, step), step.settings.workdir)
            case "WORKDIR":
                inside(root, step.settings.workdir).mkdir(parents=True, exist_ok=True)
        return CachedStep(instruction=instruction.text)

    def _run(self, step: Step, root: Path, host: HostConfig, inherited: Mapping[str, str]) -> None:
        fakeroot = fakeroot_in(root)
        outcome = container.run(
            self.store,
            Container(
                root,
                [*([fakeroot, "--"] if fakeroot else []), *command(step.instruction)],
                binds=host.binds,
                environment={
                    **BUILD_VARIABLES,
                    **host.environment,
                    **step.settings.arguments,
                    **inherited,
                    **step.settings.environment,
                },
                workdir=step.settings.workdir,
                writable=True,
                mode=choose_mode(self.store, root),
            ),
            self.progress.output,
        )
        if not outcome.ok:
            raise self._failure(step, outcome.status)

    def _failure(self, step: Step, status: int | None) -> ArgosyError:
        how = "was killed" if status is None else f"failed with exit status {status}"
        last = " / ".join(list(self.progress.last_lines)[-4:])
        return self.containerfile.error(
            step.instruction.line,
            f"{step.instruction.name} {how}; its last lines: {last or '(none)'}; "
            f"all of its output is in {self.progress.log.name}",
        )

    def _lock(self, name: str, finished: list[CachedStep]) -> ImageLock:
        settings = self.steps[-1].settings
        config: dict[str, Any] = {
            "architecture": platform.machine(),
            "environment": {**finished[0].environment, **settings.environment},
            "workdir": settings.workdir,
            "labels": dict(settings.labels),
        }
        diff_ids = [step.diff_id for step in finished if step.diff_id]
        described = json.dumps({"config": config, "layers": diff_ids}, sort_keys=True)
        base = finished[0].model_dump(include={"reference", "source", "diff_id"})
        steps = zip(self.steps, finished, strict=True)
        return ImageLock(
            name=name,
            digest=f"sha256:{hashlib.sha256(described.encode()).hexdigest()}",
            base=LockedBase.model_validate(base),
            steps=tuple(
                LockedStep(
                    instruction=step.instruction.text,
                    diff_id=done.diff_id,
                )
                for step, done in steps
            ),
            **config,
        )

    def _freeze(self, root: Path, lock: ImageLock) -> None:
        target = self.store.root(lock.digest)
        if target.is_dir():
            return
        with self.progress.step("freezing"):
            freeze(root)
            target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            # A folder without write permission cannot be renamed by its owner on every file system.
            root.chmod(0o755)
            root.rename(target)
            target.chmod(0o555)
