"""Builds an image from its Containerfile, step by step, each step cached by what went into it.

A step's key is a digest of its parent's key, its instruction and its inputs. A cached step is a layer
on disk; an interrupted build therefore goes on at the last step that was finished.
"""

import hashlib
import json
import platform
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from argosy.errors import ArgosyError
from argosy.files import write_json
from argosy.images import container, layers
from argosy.images.base import BUILD_VARIABLES, fakeroot_in, make_base
from argosy.images.container import Container
from argosy.images.containerfile import (
    Containerfile,
    Instruction,
    command,
    expand,
    pairs,
    read_containerfile,
    words,
)
from argosy.images.copying import Copy, copied_files, copy_into, inputs_digest, read_copy
from argosy.images.engines import choose_mode
from argosy.images.freeze import freeze, inside, link_host_files
from argosy.images.hostconfig import HostConfig, read_host_config
from argosy.images.lockfile import ImageLock, LockedBase, LockedStep, write_lock
from argosy.images.progress import Progress
from argosy.images.store import Store, remove_tree
from argosy.images.tools import ensure_udocker

CACHE_FORMAT = "argosy-layer-1"
"""Part of every key; changed when layers made by an older Argosy must not be used any more."""


@dataclass(frozen=True)
class Settings:
    """What earlier instructions have set for later ones."""

    environment: Mapping[str, str] = field(default_factory=dict)
    arguments: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    workdir: str = "/"

    @property
    def variables(self) -> dict[str, str]:
        """What `$NAME` means in an instruction; ENV wins over ARG."""
        return {**self.arguments, **self.environment}


@dataclass(frozen=True)
class Step:
    """An instruction with all that decides its outcome: the settings before it, and its key."""

    instruction: Instruction
    settings: Settings
    key: str


def plan(containerfile: Containerfile) -> list[Step]:
    """The steps of a build with their keys; nothing is run.

    Raises:
        ArgosyError: naming file and line, when COPY's sources are missing or leave the folder.
    """
    settings = Settings()
    key = hashlib.sha256(f"{CACHE_FORMAT} {platform.machine()}".encode()).hexdigest()
    steps = []
    for instruction in containerfile.instructions:
        settings = _apply(settings, instruction)
        key = _key(key, containerfile, instruction, settings)
        steps.append(Step(instruction, settings, key))
    return steps


def image_inputs(folder: Path) -> list[str]:
    """The Containerfile of `containers/<name>/` and every file that it copies into the image.

    Raises:
        ArgosyError: naming file and line, when it cannot be built.
    """
    containerfile = read_containerfile(folder / "Containerfile")
    copied = [
        path
        for step in plan(containerfile)
        if step.instruction.name == "COPY"
        for path in copied_files(_copy_of(containerfile, step))
    ]
    return [str(path) for path in (containerfile.path, *copied)]


def _copy_of(containerfile: Containerfile, step: Step) -> Copy:
    arguments = words(step.instruction.value, step.settings.variables)
    return read_copy(containerfile, step.instruction, arguments)


def _apply(settings: Settings, instruction: Instruction) -> Settings:
    """The settings after an instruction."""
    variables = settings.variables
    match instruction.name:
        case "ENV":
            added = pairs(instruction, variables)
            return replace(settings, environment={**settings.environment, **added})
        case "ARG":
            name, _, default = instruction.value.partition("=")
            value = expand(default, variables)
            return replace(settings, arguments={**settings.arguments, name: value})
        case "LABEL":
            return replace(settings, labels={**settings.labels, **pairs(instruction, variables)})
        case "WORKDIR":
            folder = Path(settings.workdir) / expand(instruction.value, variables)
            return replace(settings, workdir=str(folder))
        case _:
            return settings


def _key(parent: str, file: Containerfile, instruction: Instruction, settings: Settings) -> str:
    inputs: list[object] = [parent, instruction.name]
    match instruction.name:
        case "RUN":
            inputs += [command(instruction), settings.variables, settings.workdir]
        case "COPY":
            copy = read_copy(file, instruction, words(instruction.value, settings.variables))
            inputs += [copy.target, settings.workdir, inputs_digest(copy)]
        case "WORKDIR":
            inputs += [settings.workdir]
        case _:
            inputs += [expand(instruction.value, settings.variables)]
    return hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()


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
        cached = [self._cached(step) for step in self.steps]
        done = cached.index(None) if None in cached else len(cached)
        found = [entry for entry in cached[:done] if entry is not None]
        lock = self._lock(name, found) if done == len(self.steps) else None
        if lock and self.store.root(lock.digest).is_dir():
            self.progress.say(f"image {name}: all {done} steps are cached")
            return lock
        work = self.store.work(name)
        remove_tree(work)
        try:
            entries = self._build(work, done, found)
            lock = self._lock(name, entries)
            self._freeze(work / "root", lock)
        finally:
            remove_tree(work)
        return lock

    def _cached(self, step: Step) -> dict[str, str | None] | None:
        """The cache entry of a step: `diff_id` (None when it changed no file) and, of FROM, `source`."""
        entry = self.store.layer(step.key) / "step.json"
        if not entry.is_file():
            return None
        loaded: dict[str, str | None] = json.loads(entry.read_text(encoding="utf-8"))
        return loaded

    def _build(
        self, work: Path, done: int, found: list[dict[str, str | None]]
    ) -> list[dict[str, str | None]]:
        root = work / "root"
        root.mkdir(parents=True, mode=0o700)
        root.chmod(0o755)
        self._restore(root, found)
        state = layers.snapshot(root) if found else {}
        entries = list(found)
        with tempfile.TemporaryDirectory(prefix="argosy-") as scratch:
            self.store.downloads.mkdir(parents=True, exist_ok=True, mode=0o700)
            host = read_host_config(Path(scratch), self.store.downloads)
            for number, step in enumerate(self.steps[done:], done + 1):
                with self.progress.step(self._title(number, step)):
                    extra = self._execute(step, root, host)
                    after = layers.snapshot(root)
                    entries.append(self._commit(step, root, layers.difference(state, after), extra))
                    state = after
        return entries

    def _title(self, number: int, step: Step) -> str:
        text = " ".join(step.instruction.text.split())
        return f"[{number}/{len(self.steps)}] {text if len(text) <= 90 else text[:89] + '…'}"

    def _restore(self, root: Path, found: list[dict[str, str | None]]) -> None:
        for step, entry in zip(self.steps, found, strict=False):
            if entry["diff_id"]:
                layers.unpack(self.store.layer(step.key) / "layer.tar", root)
        if found:
            self.progress.say(f"{len(found)} of {len(self.steps)} steps are cached")
            link_host_files(root)

    def _execute(self, step: Step, root: Path, host: HostConfig) -> dict[str, str]:
        """Carry out one instruction in `root`; returns what the cache entry says besides."""
        instruction, settings = step.instruction, step.settings
        match instruction.name:
            case "FROM":
                reference = expand(instruction.value, {})
                source = make_base(self.store, reference, root, host, self.progress.say)
                link_host_files(root)
                return {"source": source, "reference": reference}
            case "RUN":
                self._run(step, root, host)
            case "COPY":
                copy_into(root, _copy_of(self.containerfile, step), settings.workdir)
            case "WORKDIR":
                inside(root, settings.workdir).mkdir(parents=True, exist_ok=True)
        return {}

    def _run(self, step: Step, root: Path, host: HostConfig) -> None:
        fakeroot = fakeroot_in(root)
        outcome = container.run(
            self.store,
            Container(
                root,
                [*([fakeroot, "--"] if fakeroot else []), *command(step.instruction)],
                binds=host.binds,
                environment={**BUILD_VARIABLES, **host.environment, **step.settings.variables},
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

    def _commit(
        self, step: Step, root: Path, change: layers.Change, extra: Mapping[str, str]
    ) -> dict[str, str | None]:
        """Put the layer into the cache, whole or not at all."""
        target = self.store.layer(step.key)
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        making = Path(tempfile.mkdtemp(prefix=".making-", dir=target.parent))
        try:
            diff_id = layers.pack(root, change, making / "layer.tar") if change else None
            entry = {"instruction": step.instruction.text, "diff_id": diff_id, **extra}
            write_json(making / "step.json", entry)
            shutil.rmtree(making / "layer.whiteouts", ignore_errors=True)
            making.replace(target)
        except BaseException:
            shutil.rmtree(making, ignore_errors=True)
            raise
        return entry

    def _lock(self, name: str, entries: list[dict[str, str | None]]) -> ImageLock:
        settings = self.steps[-1].settings
        base = {key: entries[0][key] for key in ("reference", "source", "diff_id")}
        config = {
            "architecture": platform.machine(),
            "environment": dict(settings.environment),
            "workdir": settings.workdir,
            "labels": dict(settings.labels),
        }
        layer_ids = [entry["diff_id"] for entry in entries if entry["diff_id"]]
        described = json.dumps({"config": config, "layers": layer_ids}, sort_keys=True)
        text = self.containerfile.path.read_bytes()
        return ImageLock(
            name=name,
            digest=f"sha256:{hashlib.sha256(described.encode()).hexdigest()}",
            containerfile_sha256=hashlib.sha256(text).hexdigest(),
            base=LockedBase.model_validate(base),
            steps=tuple(
                LockedStep(
                    line=step.instruction.line,
                    instruction=step.instruction.text,
                    diff_id=entry["diff_id"],
                )
                for step, entry in zip(self.steps, entries, strict=True)
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
            write_lock(self.store.description(lock.digest), lock)
            # A folder without write permission cannot be renamed by its owner on every file system.
            root.chmod(0o755)
            root.rename(target)
            target.chmod(0o555)
