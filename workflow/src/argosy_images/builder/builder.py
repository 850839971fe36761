"""Build an image from its Containerfile step by step; each step is cached by its inputs.

A finished step is a layer on disk, so an interrupted build continues after its last finished step.
"""

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import BinaryIO

from argosy_common.errors import ArgosyError
from argosy_common.files import umask
from argosy_images.builder import cache, history
from argosy_images.builder import recipe as recipes
from argosy_images.builder.execution import Executor
from argosy_images.builder.progress import Progress
from argosy_images.builder.recipe import FILES, OWN_IMAGES, Recipe, Step
from argosy_images.builder.runner import Start, by_proot, by_runc
from argosy_images.engines import proot
from argosy_images.engines.choice import one_starts
from argosy_images.engines.models import TRACING_PROOT
from argosy_images.namespaces import in_own_namespaces, in_own_process, unhindered
from argosy_images.oci import ImageConfig
from argosy_images.registry.reference import Reference
from argosy_images.rootfs.freeze import GrowingTree, usable_only
from argosy_images.rootfs.layers import Layer
from argosy_images.store.lockfile import ImageLock
from argosy_images.store.scratch import private_folder, sweep
from argosy_images.store.store import Store
from argosy_images.tools import Tools
from argosy_images.udocker_repository.registering import UdockerRepository


def build_image(
    store: Store, folder: Path, lock_path: Path, log_path: Path, others: Sequence[Path] = ()
) -> ImageLock:
    """Build the missing steps of the image of `containers/<name>/`, then freeze and lock the image.

    Progress goes to standard error, the output of the steps to `log_path`.

    Args:
        others: more folders of images, besides the parent of `folder`, for FROM localhost/NAME.

    Raises:
        ArgosyError: with the Containerfile's line if a step fails. Finished steps stay cached.
    """
    name = folder.name
    # runc rejects paths with symbolic links, such as a store on a larger disk.
    store = Store(store.path.resolve())
    plan = Plan.of(store, folder, others)
    sweep()
    log_path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if not store.is_writable:
        return _find_built(plan, lock_path, log_path)
    with store.changing(name), _log(log_path) as log:
        progress = Progress(log)
        plan = plan.again()
        # Written before the build, so that it also explains a failed one.
        history.record(store, name, plan.recipe.final)
        for note in plan.recipe.notes:
            progress.say(note)
        with store.workspace(name) as work:
            tree = GrowingTree(work / "root")
            if plan.missing():
                _Build(plan, work, progress).run(tree)
                plan = plan.again()
                history.record(store, name, plan.recipe.final)
            else:
                progress.say(plan.all_cached())
            lock = plan.lock()
            if not store.root(lock.digest).is_dir():
                with progress.step("freezing"):
                    layers = cache.read_layers(store, plan.recipe.final.steps)
                    # Folders of an image may deny access even to their owner.
                    unhindered(partial(_freeze, tree, layers, store.root(lock.digest), lock))
        lock.write(store.description(lock.digest))
        lock.write(lock_path)
        progress.say(_frozen(store, lock))
        progress.say(UdockerRepository(store).show(lock))
    return lock


def _log(path: Path) -> BinaryIO:
    """Truncate a build's log; it may hold secrets, so only ARGOSY_UMASK lets others read it."""
    path.touch(0o600)
    log = path.open("wb", buffering=0)
    # It may be /dev/null.
    with suppress(PermissionError):
        os.fchmod(log.fileno(), 0o666 & ~umask())
    return log


def _freeze(tree: GrowingTree, layers: Sequence[Layer], target: Path, lock: ImageLock) -> str:
    with usable_only(f"image {lock.name} cannot be used"):
        tree.finish(layers, target, lock.config.workdir, lock.config.volumes)
    return ""


def _find_built(plan: "Plan", lock_path: Path, log_path: Path) -> ImageLock:
    """Lock an image that is already built in a read-only store."""
    store, name = plan.store, plan.name
    if missing := plan.missing():
        first = _shortened(missing[0].entry.text)
        raise store.read_only(f"image {name} has to be built ({first!r} is not cached)")
    lock = plan.lock()
    if not (store.root(lock.digest).is_dir() and store.description(lock.digest).is_file()):
        raise store.read_only(f"image {name} has to be frozen")
    with _log(log_path) as log:
        progress = Progress(log)
        progress.say(plan.all_cached())
        lock.write(lock_path)
        progress.say(_frozen(store, lock))
    return lock


def _frozen(store: Store, lock: ImageLock) -> str:
    return f"image {lock.name} {lock.digest[:19]} is frozen in {store.root(lock.digest)}"


@dataclass(frozen=True)
class Plan:
    """The recipe of the image in `folder`, compared with the steps in the store."""

    store: Store
    folder: Path
    others: Sequence[Path]
    recipe: Recipe

    @classmethod
    def of(cls, store: Store, folder: Path, others: Sequence[Path] = ()) -> "Plan":
        """Plan the image of a folder."""

        def base_config(key: str) -> ImageConfig | None:
            found = cache.read_step(store, key)
            return found.base.config if found and found.base else None

        return cls(store, folder, others, recipes.plan(folder, base_config, others))

    def again(self) -> "Plan":
        """Return the plan as of now."""
        return Plan.of(self.store, self.folder, self.others)

    @property
    def name(self) -> str:
        """The image's name."""
        return self.folder.name

    def built(self) -> ImageLock | None:
        """Return the image's lock, or None if steps have to run."""
        return None if self.missing() else self.lock()

    def explain(self) -> list[history.Finding]:
        """Return a finding for each step: cached, or the reasons why it has to run."""
        last = history.read(self.store, self.name)
        return [*history.explain(self.recipe.final, last, self.is_cached)]

    def is_cached(self, key: str) -> bool:
        """Return whether the step with this key is finished."""
        return cache.read_step(self.store, key) is not None

    def missing(self) -> list[Step]:
        """Return the steps that have to run, each after the steps that it depends on."""
        missing: dict[str, Step] = {}
        # No recursion: a file may chain more stages than Python's recursion limit.
        waiting = [(step, False) for step in reversed(self.recipe.final.steps)]
        while waiting:
            step, has_used = waiting.pop()
            if has_used:
                missing[step.key] = step
            elif step.key not in missing and not self.is_cached(step.key):
                used = [each for chain in step.uses.values() for each in chain.steps]
                waiting.append((step, True))
                waiting += [(each, False) for each in reversed(used)]
        return list(missing.values())

    def all_cached(self) -> str:
        """Return the message for an image without missing steps."""
        return f"image {self.name}: all {len(self.recipe.final.steps)} steps are cached"

    def begin(self, tree: GrowingTree) -> None:
        """Freeze the cached first steps in advance: often only the last lines of a Containerfile change."""
        steps = takewhile(lambda step: self.is_cached(step.key), self.recipe.final.steps)
        tree.begin(cache.read_layers(self.store, steps))

    def lock(self) -> ImageLock:
        """Return the lock of an image whose steps are all finished."""
        chain = self.recipe.final
        finished = [(step, cache.read_step(self.store, step.key)) for step in chain.steps]
        done = [(step, found) for step, found in finished if found]
        if len(done) < len(finished):
            source = chain.steps[-1].context.source
            raise ArgosyError(f"{source.context}: files changed during the build", "build it again")
        base = next((found.base for _, found in done if found.base), None)
        return ImageLock.of(
            self.name,
            chain.settings.config,
            [(step.entry.text, found.diff_id) for step, found in done],
            base.reference if base else "scratch",
            base.source if base else "scratch",
        )


Apart = Callable[[Callable[[], str], Callable[[], None] | None], str]
"""Calls its first function in a child process, and meanwhile the second one here."""


def _choose_isolation(store: Store, say: Callable[[str], None]) -> tuple[Start, Apart]:
    """Return how steps are run: in namespaces, or by proot if this host forbids them."""
    try:
        in_own_namespaces(lambda: "")
    except ArgosyError as problem:
        say(f"{problem.problem}: proot runs the steps, and files are copied and compared")
        if Tools(store).find_proot() is None:
            Tools(store).require("proot", say)
        if not one_starts(store, [TRACING_PROOT]):
            raise ArgosyError(
                "proot cannot start programs on this host",
                "to see why, run: argosy image engines",
            ) from None
        return by_proot(proot.ready(store, store.engines)), in_own_process
    return by_runc(Tools(store).require_runtime(say)), in_own_namespaces


class _Build:
    """Runs the missing steps of a plan; `work` is the build's temporary folder."""

    def __init__(self, plan: Plan, work: Path, progress: Progress) -> None:
        self._plan = plan
        self._work = work
        self._progress = progress
        self._start, self._apart = _choose_isolation(plan.store, progress.say)

    def run(self, tree: GrowingTree) -> None:
        """Fetch bases as the user, then run the other steps in a child process."""
        missing = {step.key for step in self._plan.missing()}
        for step in self._plan.recipe.unknown:
            if step.key in missing:
                self._make_base(step)
        self._with_executor(self._work, self._carry_out, lambda: self._plan.begin(tree))

    def _with_executor(
        self,
        work: Path,
        function: Callable[[Executor], None],
        meanwhile: Callable[[], None] | None = None,
    ) -> None:
        """Call the function in a child process, and `meanwhile` in this one."""

        def inside() -> str:
            # The image must not depend on the user's umask.
            os.umask(0o022)
            with private_folder() as (scratch, _):
                store, progress = self._plan.store, self._progress
                function(Executor(store, self._start, work, scratch, progress))
            return ""

        self._apart(inside, meanwhile)

    def _make_base(self, step: Step) -> None:
        """Fetch and finish a base once, under a lock: several images may share it."""
        store = self._plan.store
        with store.locked(f"base-{step.key[:2]}"):
            if self._plan.is_cached(step.key):
                return
            assert step.base
            work = self._work / step.key
            work.mkdir(mode=0o700)
            root = work / "root"
            # Imported late: it loads slowly, and most builds have their bases.
            from argosy_images.builder.fetching import fetch

            with self._progress.step(step.entry.text):
                try:
                    fetched = fetch(store, step.base, root, self._progress.say)
                except ArgosyError as problem:
                    raise _no_base(self._plan.folder, step, problem) from None
            self._with_executor(work, lambda executor: executor.finish_base(step, fetched, root))

    def _carry_out(self, executor: Executor) -> None:
        # The settings of fetched bases are known now.
        plan, progress = self._plan.again(), self._progress
        chains, steps = plan.recipe.final.with_used(), plan.missing()
        total = len({step.key for chain in chains for step in chain.steps})
        done = total - len(steps)
        if done:
            progress.say(f"{done} of {total} steps are cached")
        for number, step in enumerate(steps, start=done + 1):
            chain = next(chain for chain in chains if step in chain.steps)
            below = chain.steps[: chain.steps.index(step)]
            # Images share steps, such as a long compilation: a second build waits here.
            with (
                progress.step(f"[{number}/{total}] {_shortened(step.entry.text)}"),
                plan.store.locked(f"step-{step.key[:2]}"),
            ):
                if not plan.is_cached(step.key):
                    executor.carry_out(step, below)


def _no_base(folder: Path, step: Step, problem: ArgosyError) -> ArgosyError:
    """Return the error for a base that cannot be fetched."""
    source, line = step.context.source, step.entry.line
    assert step.base
    if step.base.startswith(FILES):
        return source.error(line, problem.problem, problem.hint)
    name = Reference.parse(step.base).repository.rpartition("/")[2]
    other = folder.resolve().parent / name
    if other.is_dir():
        hint = f"FROM {OWN_IMAGES}{name} would be the image of containers/{name}"
    else:
        hint = (
            "if it is out of reach here, build the image elsewhere, and bring it here as a file "
            "(argosy image export, argosy image import)"
        )
    if problem.hint:
        hint = f"{problem.hint}; {hint}"
    return source.error(line, f"{step.base}: {problem.problem}", hint)


def _shortened(text: str) -> str:
    return text if len(text) <= 90 else text[:89] + "…"
