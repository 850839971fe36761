"""Carries out the steps of a build, one by one, in namespaces of our own."""

import hashlib
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from argosy.errors import FULL, ArgosyError
from argosy.images.build import base, cache
from argosy.images.build.copying import Copier
from argosy.images.build.hostconfig import BUILD_DIR, HostConfig, read_host_config
from argosy.images.build.progress import Progress
from argosy.images.build.recipe import Chain, Step
from argosy.images.build.runner import Command, run_command
from argosy.images.build.workspace import CopyingWorkspace, OverlayWorkspace, Tree, Workspace
from argosy.images.container import DEFAULT_PATH
from argosy.images.containerfile import mounts as declared
from argosy.images.containerfile.instructions import Copy, Run
from argosy.images.containerfile.text import Heredoc
from argosy.images.rooted import Root, inside
from argosy.images.runc import Mount
from argosy.images.store import Store

LARGEST_PASSWD = 1 << 20
"""Bytes; an image may say that it is of any size."""

HOST_FILES = ("/etc/resolv.conf", "/etc/hosts")

BUILD_VARIABLES = {
    "PATH": DEFAULT_PATH,
    "LANG": "C.UTF-8",
    "DEBIAN_FRONTEND": "noninteractive",
}
"""What every RUN step has unless the Containerfile says otherwise."""


class Executor:
    """One build under way; `work` is its folder in the store, `scratch` one for small files."""

    def __init__(
        self, store: Store, runc: Path, work: Path, scratch: Path, progress: Progress
    ) -> None:
        self._store = store
        self._runc = runc
        self._scratch = scratch
        self._progress = progress
        self._folder = folder = work / "trees"
        folder.mkdir()
        overlay = OverlayWorkspace.works(folder)
        self._workspace: Workspace = (
            OverlayWorkspace(folder) if overlay else CopyingWorkspace(folder)
        )
        (scratch / "host").mkdir()
        self._host: HostConfig = read_host_config(scratch / "host", store.downloads)

    def finish_base(self, step: Step, fetched: base.Fetched, root: Path) -> None:
        """Put a fetched file system into the cache, configured where that is still to be done."""
        if fetched.base.source == "archive":
            self._progress.say("configuring the base system")
            command = ["/bin/sh", "-c", base.CONFIGURE]
            status = self._run(root, Command(command, self._environment(step, "/root"), "/", []))
            if status != 0:
                last = " / ".join(list(self._progress.last_lines)[-3:])
                raise ArgosyError(f"{step.base}: the base system cannot be configured: {last}")
            base.tidy(root)
        base.empty_dev(root)
        cache.write_step(self._store, step, cache.move_diff(root), fetched.base)
        for path in fetched.downloads:
            path.unlink(missing_ok=True)

    def carry_out(self, step: Step, below: Sequence[Step]) -> None:
        """Do what the instruction says on top of the steps below it, and cache what it changed.

        Raises:
            ArgosyError: naming the line, when it fails.
        """
        with self._workspace.open(cache.read_layers(self._store, below)) as tree:
            if isinstance(step.entry, Run):
                self._carry_out_run(step, step.entry, tree)
            elif isinstance(step.entry, Copy):
                self._carry_out_copy(step, step.entry, tree)
            else:
                _make_workdir(step, tree.root)
            cache.write_step(self._store, step, tree.save)

    def _carry_out_copy(self, step: Step, entry: Copy, tree: Tree) -> None:
        aside = self._folder / "unpacked"
        with Root(tree.root) as root:
            if entry.stage is None:
                Copier(step, root, None, aside).run()
                return
            with self._opened(step.uses[entry.stage]) as other, Root(other) as stage:
                Copier(step, root, stage, aside).run()

    @contextmanager
    def _opened(self, chain: Chain) -> Iterator[Path]:
        """The files of another stage, to be read."""
        with self._workspace.open(cache.read_layers(self._store, chain.steps)) as tree:
            yield tree.root

    def _carry_out_run(self, step: Step, entry: Run, tree: Tree) -> None:
        with ExitStack() as held, tempfile.TemporaryDirectory(dir=self._scratch) as folder:
            mounts = [
                held.enter_context(self._mount(step, mount, Path(folder) / str(number)))
                for number, mount in enumerate(entry.mounts)
            ]
            home = _home(tree.root, step.settings.config.user)
            arguments = _arguments(step, entry, Path(folder), mounts)
            environment = self._environment(step, home)
            workdir = step.settings.config.workdir
            status = self._run(tree.root, Command(arguments, environment, workdir, mounts))
        if status != 0:
            raise self._failure(step, status)

    def _run(self, root: Path, command: Command) -> int:
        host = [Mount(bind.source, bind.target) for bind in self._host.binds]
        host += [Mount(Path(name), name, False) for name in HOST_FILES if Path(name).is_file()]
        whole = Command(
            command.arguments, command.environment, command.workdir, [*host, *command.mounts]
        )
        with tempfile.TemporaryDirectory(dir=self._scratch) as folder:
            return run_command(self._runc, root, whole, Path(folder), self._progress.output)

    def _environment(self, step: Step, home: str) -> dict[str, str]:
        own = {"HOME": home, **BUILD_VARIABLES, **self._host.environment}
        return {**own, **step.settings.arguments, **step.settings.config.environment}

    @contextmanager
    def _mount(self, step: Step, mount: declared.Mount, folder: Path) -> Iterator[Mount]:
        """A `RUN --mount`, ready to be seen by the step."""
        target = step.settings.path(step.text(mount.target)).rstrip("/")
        if mount.kind == "tmpfs":
            yield Mount(None, target)
        elif mount.kind == "cache":
            name = hashlib.sha256(step.text(mount.identity).encode()).hexdigest()[:24]
            source = self._store.downloads / "mounts" / name
            source.mkdir(parents=True, exist_ok=True)
            yield Mount(source, target, mount.writable)
        else:
            with self._bound(step, mount) as source:
                if mount.writable:
                    # What is written there is thrown away.
                    _copy(source, folder)
                yield Mount(folder if mount.writable else source, target, mount.writable)

    @contextmanager
    def _bound(self, step: Step, mount: declared.Mount) -> Iterator[Path]:
        source = step.text(mount.source)
        if mount.stage is None:
            first, *others = step.context.find(step.entry, source)
            if others:
                problem = f"RUN --mount: {source} means several files; one can be mounted"
                raise step.context.source.error(step.entry.line, problem)
            yield first
            return
        with self._opened(step.uses[mount.stage]) as root:
            yield inside(root, source)

    def _failure(self, step: Step, status: int) -> ArgosyError:
        last = " / ".join(list(self._progress.last_lines)[-4:])
        return step.context.source.error(
            step.entry.line,
            f"RUN failed with exit status {status}; its last lines: {last or '(none)'}; "
            f"all of its output is in {self._progress.log.name}",
        )


def _arguments(step: Step, entry: Run, folder: Path, mounts: list[Mount]) -> list[str]:
    """The argument vector; a here-document that is a script is mounted as one."""
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
    return [*shell, entry.command + "".join(map(_as_shell_reads_it, entry.heredocs))]


def _as_shell_reads_it(heredoc: Heredoc) -> str:
    return f"\n{heredoc.content}{heredoc.name}"


def _make_workdir(step: Step, root: Path) -> None:
    workdir = step.settings.config.workdir
    try:
        with Root(root) as tree:
            tree.make_folders(tree.resolve(workdir)).close()
    except OSError as problem:
        if problem.errno in FULL:
            raise
        why = f"WORKDIR {workdir}: {problem.strerror}"
        raise step.context.source.error(step.entry.line, why) from None


def _home(root: Path, user: str) -> str:
    """The home folder of the image's user, as its password file says."""
    name = user.partition(":")[0]
    users = _users(root)
    if name in ("", "0", "root") or users is None:
        return "/root"
    for line in users.splitlines():
        fields = line.split(":")
        if len(fields) >= 6 and name in (fields[0], fields[2]):
            return fields[5]
    return "/"


def _users(root: Path) -> str | None:
    """The image's password file, as far as anybody would read it; None where there is none."""
    with Root(root) as tree:
        names = tree.resolve("/etc/passwd")
        try:
            with tree.folder(names[:-1]) as etc, etc.read(names[-1]) as stream:
                return stream.read(LARGEST_PASSWD).decode(errors="replace")
        except OSError:
            return None


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, symlinks=True)
    else:
        shutil.copy2(source, target)
