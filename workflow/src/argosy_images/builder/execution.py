"""Run the steps of a build one by one, in the build's own namespaces if the host allows them."""

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from argosy_common.errors import FULL, ArgosyError, explained, is_of_the_surroundings
from argosy_images.builder import cache
from argosy_images.builder.copying import Copier
from argosy_images.builder.hostconfig import (
    BUILD_DIR,
    PIP_CACHE,
    PIP_CACHE_VARIABLE,
    HostConfig,
    read_host_config,
)
from argosy_images.builder.progress import Progress
from argosy_images.builder.recipe import Chain, Step, bases
from argosy_images.builder.runner import Start, run
from argosy_images.builder.workspace import CopyingWorkspace, OverlayWorkspace, Tree, Workspace
from argosy_images.containerfile.instructions import Copy, Run
from argosy_images.containerfile.instructions import Mount as DeclaredMount
from argosy_images.engines.container import copy_host_files
from argosy_images.engines.models import DEFAULT_PATH
from argosy_images.engines.runc import Mount, Specification
from argosy_images.rootfs.flatten import copy
from argosy_images.rootfs.layers import Change, read_overlay
from argosy_images.rootfs.rooted import Root, inside
from argosy_images.store.store import Store

if TYPE_CHECKING:
    from argosy_images.builder.fetching import Fetched

LARGEST_PASSWD = 1 << 20
"""Bytes read of an image's /etc/passwd and /etc/group, which may have any size."""

BUILD_VARIABLES = {
    "PATH": DEFAULT_PATH,
    "LANG": "C.UTF-8",
    "DEBIAN_FRONTEND": "noninteractive",
}
"""Variables of every RUN step unless the Containerfile sets them."""


class Executor:
    """Runs steps of one build; `work` is its folder in the store, `scratch` a folder for small files."""

    def __init__(
        self, store: Store, start: Start, work: Path, scratch: Path, progress: Progress
    ) -> None:
        self._store = store
        self._start = start
        self._scratch = scratch
        self._progress = progress
        self._folder = folder = work / "trees"
        folder.mkdir()
        kind = OverlayWorkspace if OverlayWorkspace.works(folder) else CopyingWorkspace
        self._workspace: Workspace = kind(folder)
        for name in ("host", "secrets"):
            (scratch / name).mkdir()
        self._host: HostConfig = read_host_config(scratch / "host", scratch / "secrets")

    def finish_base(self, step: Step, fetched: "Fetched", root: Path) -> None:
        """Configure a fetched file system if needed, and add it to the cache."""
        # Imported late, as in `builder`.
        from argosy_images.builder import fetching

        if fetched.base.source == "archive":
            self._progress.say("configuring the base system")
            command = ["/bin/sh", "-c", fetching.CONFIGURE]
            host = self._host.for_base()
            environment = self._environment(step, "/root", host)
            status = self._run(Specification(root, command, environment, "/", [], True), host)
            if status != 0:
                last = " / ".join(list(self._progress.last_lines)[-3:])
                raise ArgosyError(f"{step.base}: the base system cannot be configured: {last}")
            fetching.tidy(root)
        fetching.empty_dev(root)

        def move(diff: Path) -> Change:
            root.rename(diff)
            return read_overlay(diff)

        self._write(step, move, fetched.base)
        for path in fetched.downloads:
            path.unlink(missing_ok=True)

    def carry_out(self, step: Step, below: Sequence[Step]) -> None:
        """Run an instruction on top of the steps below it, and cache its changes.

        Raises:
            ArgosyError: with the line if the instruction fails.
            OSError: if the disk is full or cannot be written to.
        """
        try:
            self._carry_out(step, below)
        except OSError as problem:
            if is_of_the_surroundings(problem):
                raise
            # A file of the image is in the way, or its links form a loop.
            name = os.fsdecode(problem.filename or "")
            why = f"{step.entry.text.split()[0]}: {name}: {problem.strerror or problem}"
            raise step.context.source.error(step.entry.line, why) from None

    def _carry_out(self, step: Step, below: Sequence[Step]) -> None:
        with self._workspace.open(cache.read_layers(self._store, below)) as tree:
            if isinstance(step.entry, Run):
                self._carry_out_run(step, step.entry, tree, self._caches(step, below))
            elif isinstance(step.entry, Copy):
                self._carry_out_copy(step, step.entry, tree)
            else:
                _make_workdir(step, tree)
            self._write(step, tree.save)

    def _write(
        self, step: Step, make_diff: Callable[[Path], Change], base: cache.CachedBase | None = None
    ) -> None:
        say, text = self._progress.say, step.entry.text
        cache.write_layer(self._store, step.key, text, step.inputs, make_diff, base=base, say=say)

    def _carry_out_copy(self, step: Step, entry: Copy, tree: Tree) -> None:
        aside = self._folder / "unpacked"
        with Root(tree.root) as root:
            if entry.stage is None:
                Copier(step, root, None, aside).run()
                return
            with self._opened(step.uses[entry.stage]) as other, Root(other) as stage:
                Copier(step, root, stage, aside).run()

    def _opened(self, chain: Chain) -> AbstractContextManager[Path]:
        """Open the files of another stage for reading."""
        return self._workspace.read(cache.read_layers(self._store, chain.steps))

    def _carry_out_run(self, step: Step, entry: Run, tree: Tree, caches: Path) -> None:
        # A base may name a WORKDIR that no layer contains; engines handle that differently.
        _make_workdir(step, tree)
        with ExitStack() as held, tempfile.TemporaryDirectory(dir=self._scratch) as folder:
            mounts = [
                held.enter_context(self._mount(step, mount, Path(folder) / str(number), caches))
                for number, mount in enumerate(entry.mounts)
            ]
            home = _home(tree.root, step.settings.config.user)
            arguments = _arguments(step, entry, Path(folder), mounts)
            host = self._host.for_command(entry.told)
            environment = self._environment(step, home, host)
            workdir = step.settings.config.workdir
            if PIP_CACHE_VARIABLE in host.environment:
                mounts.append(Mount(_made_folder(caches / "pip"), PIP_CACHE))
            status = self._run(
                Specification(tree.root, arguments, environment, workdir, mounts, True), host
            )
        if status != 0:
            raise self._failure(step, status, host)

    def _run(self, container: Specification, host: HostConfig) -> int:
        seen = [Mount(bind.source, bind.target, False) for bind in host.binds]
        with tempfile.TemporaryDirectory(dir=self._scratch) as folder:
            for name in ("etc", "runner"):
                (Path(folder) / name).mkdir()
            # Copies, so that a step's changes are discarded.
            copies = copy_host_files(Path(folder) / "etc")
            seen += [Mount(copied, f"/etc/{copied.name}") for copied in copies]
            whole = replace(container, mounts=[*seen, *container.mounts])
            return run(self._start, whole, Path(folder) / "runner", self._progress.output)

    def _caches(self, step: Step, below: Sequence[Step]) -> Path:
        """Return the folder of caches (`--mount=type=cache`, pip) that later builds of this image reuse.

        Programs run what they find in a cache, so images, and stages with other bases, share none.
        """
        image = step.context.folder
        key = hashlib.sha256(os.fsencode("\n".join([str(image), *bases(step, below)])))
        return self._store.downloads / "images" / f"{image.name[:100]}-{key.hexdigest()[:12]}"

    def _environment(self, step: Step, home: str, host: HostConfig) -> dict[str, str]:
        own = {"HOME": home, **BUILD_VARIABLES, **host.environment}
        return {**own, **step.settings.arguments, **step.settings.config.environment}

    @contextmanager
    def _mount(
        self, step: Step, mount: DeclaredMount, folder: Path, caches: Path
    ) -> Iterator[Mount]:
        """Prepare a `RUN --mount`."""
        target = step.settings.path(step.text(mount.target)).rstrip("/")
        if mount.kind == "tmpfs":
            yield Mount(None, target)
        elif mount.kind == "cache":
            name = hashlib.sha256(step.text(mount.identity).encode()).hexdigest()[:24]
            yield Mount(_made_folder(caches / name), target, mount.writable)
        else:
            with self._bound_source(step, mount) as source:
                left_out = step.context.left_out(source) if mount.stage is None else None
                is_copied = mount.writable or self._workspace.shares_files or left_out is not None
                if is_copied:
                    # A copy, since changes are discarded and ignored files are left out.
                    _copy(source, folder, left_out)
                yield Mount(folder if is_copied else source, target, mount.writable)

    @contextmanager
    def _bound_source(self, step: Step, mount: DeclaredMount) -> Iterator[Path]:
        source = step.text(mount.source)
        if mount.stage is None:
            first, *others = step.context.find(step.entry, source)
            if others:
                problem = f"RUN --mount: {source} matches several files; mount a single one"
                raise step.context.source.error(step.entry.line, problem)
            yield first
            return
        with self._opened(step.uses[mount.stage]) as root:
            found = inside(root, source)
            if not os.path.lexists(found):
                problem = f"RUN --mount: {source} is not in {mount.stage}"
                raise step.context.source.error(step.entry.line, problem)
            yield found

    def _failure(self, step: Step, status: int, host: HostConfig) -> ArgosyError:
        withheld = (
            "; it names no program that installs Python packages, so it did not get the logins of pip's "
            "indexes (docs/images-reference.md)"
        )
        last = " / ".join(list(self._progress.last_lines)[-4:])
        return step.context.source.error(
            step.entry.line,
            f"RUN failed with exit status {status}; its last lines: {last or '(none)'}; "
            f"all of its output is in {self._progress.log.name}"
            f"{withheld if self._host.logins and not host.logins else ''}",
        )


def _arguments(step: Step, entry: Run, folder: Path, mounts: list[Mount]) -> list[str]:
    """Return the argument vector; a here-document with a `#!` line is mounted as a script."""
    if not isinstance(entry.command, str):
        return list(entry.command)
    shell = step.settings.shell
    if len(entry.heredocs) == 1 and entry.command.strip() == entry.heredocs[0].word:
        content = entry.heredocs[0].content
        if content.startswith("#!"):
            script = folder / "script"
            script.write_text(content, encoding="utf-8")
            script.chmod(0o755)
            mounts.append(Mount(script, f"{BUILD_DIR}/script", False))
            return [f"{BUILD_DIR}/script"]
        return [*shell, content]
    texts = (f"\n{heredoc.content}{heredoc.name}" for heredoc in entry.heredocs)
    return [*shell, entry.command + "".join(texts)]


def _make_workdir(step: Step, tree: Tree) -> None:
    """Create the step's WORKDIR if it is missing."""
    with Root(tree.root) as root:
        root.make_folders(root.resolve(step.settings.config.workdir)).close()


def _made_folder(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder


def _home(root: Path, user: str) -> str:
    """Return the user's home folder from the image's /etc/passwd."""
    users, _ = _read_small(root, "/etc/passwd"), _read_small(root, "/etc/group")
    name = user.partition(":")[0]
    if name in ("", "0", "root") or users is None:
        return "/root"
    for line in users.splitlines():
        fields = line.split(":")
        if len(fields) >= 6 and name in (fields[0], fields[2]):
            return fields[5]
    return "/"


def _read_small(root: Path, path: str) -> str | None:
    """Return the start of a file that runc reads too; None if it is missing.

    Raises:
        OSError: if it is no regular file: runc would wait for a pipe.
    """
    with Root(root) as tree:
        names = tree.resolve(path)
        if tree.status_of(names) is None:
            return None
        with tree.folder(names[:-1]) as folder, folder.read(names[-1]) as stream:
            return stream.read(LARGEST_PASSWD).decode(errors="replace")


def _copy(
    source: Path, target: Path, left_out: Callable[[str, list[str]], set[str]] | None
) -> None:
    if source.is_dir():
        shutil.copytree(source, target, symlinks=True, ignore=left_out, copy_function=_copy_file)
    else:
        _copy_file(os.path.realpath(source), str(target))


def _copy_file(source: str, target: str) -> None:
    try:
        copy(source, target)
    except OSError as problem:
        if problem.errno not in FULL:
            raise
        # `copytree` would continue with the other files.
        raise ArgosyError(explained(problem)) from None
