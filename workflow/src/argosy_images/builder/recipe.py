"""Turn a Containerfile into chains of steps, each with a key made of its inputs. Nothing is run.

A step's key is a digest of its parent's key and its named inputs. Only data that can change a step's
outcome is an input: no time stamps, no labels above a RUN, no variables that the step does not see.
"""

import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote

from argosy_common.errors import ArgosyError, plain, some
from argosy_images.builder.inputs import VARIABLE, Context, inputs_of_copy, inputs_of_run
from argosy_images.builder.settings import Settings, after
from argosy_images.containerfile.instructions import (
    Copy,
    Entry,
    From,
    Ignored,
    Run,
    Words,
    content_of,
    expanded,
)
from argosy_images.containerfile.stages import Containerfile, Stage, read_containerfile
from argosy_images.containerfile.text import Heredoc, Source
from argosy_images.engines.models import DEFAULT_PATH
from argosy_images.oci import ImageConfig, architecture
from argosy_images.registry.reference import Reference, split_source
from argosy_images.store.lockfile import NAME

CACHE_FORMAT = "argosy-layer-2"
"""Part of every key. A new value makes layers of earlier versions of Argosy unused."""

OWN_IMAGES = "localhost/"
"""Prefix of another folder of containers/; podman uses it for local images."""

FILES = "file://"
"""Prefix of an archive or SIF file, with its absolute path as in a URL; podman has no such base."""

Inputs = Mapping[str, str]
BaseConfig = Callable[[str], ImageConfig | None]


@dataclass(frozen=True)
class Step:
    """An instruction that changes files, with its inputs.

    Args:
        settings: settings of the stage after this instruction.
        sources: files of the image's folder that COPY or RUN reads.
        uses: chains whose files it reads, by their names in the instruction.
    """

    entry: Entry
    settings: Settings
    inputs: Inputs
    key: str
    context: Context
    sources: tuple[Path, ...] = ()
    uses: Mapping[str, "Chain"] = field(default_factory=dict, compare=False)

    @property
    def base(self) -> str | None:
        """Reference of the image if FROM fetches one, else None."""
        return self.inputs.get("reference")

    def text(self, word: str) -> str:
        """Return a word of the instruction, expanded."""
        return expanded(self.context.source, self.entry, word, self.settings.variables)

    def content(self, heredoc: Heredoc) -> str:
        """Return the content that COPY writes for a here-document."""
        return content_of(self.context.source, self.entry, heredoc, self.settings.variables)


@dataclass(frozen=True)
class Chain:
    """All steps of a stage from its base on, with the steps of its parent stages."""

    name: str
    steps: tuple[Step, ...]
    settings: Settings

    @property
    def key(self) -> str:
        """Key of the last step; it identifies the stage's files."""
        return self.steps[-1].key if self.steps else ""

    def with_used(self) -> list["Chain"]:
        """Return this chain and all chains that its steps use, each before the chains it uses itself."""
        found: dict[tuple[str, str], Chain] = {}
        # No recursion: a file may chain more stages than Python's recursion limit.
        waiting = [(self, False)]
        while waiting:
            chain, has_used = waiting.pop()
            name = chain.name, chain.key
            if has_used:
                found[name] = chain
            elif name not in found:
                waiting.append((chain, True))
                waiting += [(used, False) for s in chain.steps for used in s.uses.values()]
        return [*reversed(found.values())]


@dataclass(frozen=True)
class Recipe:
    """The plan of an image's build.

    Args:
        final: the chain of the image itself.
        notes: ignored instructions, with reasons.
        files: the Containerfile and all files that go into the image.
        unknown: bases to fetch before the keys are final, since later steps see their settings.
    """

    final: Chain
    notes: tuple[str, ...]
    files: tuple[Path, ...]
    unknown: tuple[Step, ...]


def nothing_known(key: str) -> None:
    """Default of `plan`: no base is in the store."""


def plan(
    folder: Path, base_config: BaseConfig = nothing_known, others: Sequence[Path] = ()
) -> Recipe:
    """Return the recipe of the image in `containers/<name>/`.

    Args:
        base_config: returns the configuration of the fetched base with a key, or None.
        others: more folders of images, besides the parent of `folder`, for FROM localhost/NAME.

    Raises:
        ArgosyError: with file and line if the image cannot be built, or a source is missing.
    """
    try:
        return _Planner(folder, (), base_config, others, {}).recipe()
    except RecursionError:
        raise ArgosyError(f"{_path(folder)}: is nested too deeply") from None


def image_inputs(folder: Path, others: Sequence[Path] = ()) -> list[str]:
    """Return the Containerfile of `containers/<name>/` and every file that goes into the image."""
    return [str(path) for path in plan(folder, others=others).files]


class _Planner:
    """Plans one Containerfile; `above` are the images being planned, `planned` the finished recipes."""

    def __init__(
        self,
        folder: Path,
        above: tuple[Path, ...],
        base_config: BaseConfig,
        others: Sequence[Path],
        planned: dict[Path, Recipe],
    ) -> None:
        self._folder = folder
        self._planned = planned
        self._others = others
        self._above = above
        self._base_config = base_config
        self._unknown: list[Step] = []
        self._file: Containerfile = read_containerfile(Source(_path(folder)))
        self._context = Context(self._file.source)
        self._chains: dict[int, Chain] = {}
        self._notes: list[str] = []
        self._files: list[Path] = [self._file.source.path]

    def recipe(self) -> Recipe:
        for stage in self._file.needed():
            self._chains[stage.number] = self._chain(stage)
        final = self._chains[len(self._file.stages) - 1]
        notes, files = tuple(dict.fromkeys(self._notes)), tuple(dict.fromkeys(self._files))
        unknown = {step.key: step for step in self._unknown}
        return Recipe(final, notes, files, tuple(unknown.values()))

    def _chain(self, stage: Stage) -> Chain:
        steps: list[Step] = []
        # Docker and podman set the same PATH in an image FROM scratch.
        settings = Settings(ImageConfig(environment={"PATH": DEFAULT_PATH}))
        if stage.parent is not None:
            below = self._chains[stage.parent]
            steps, settings = [*below.steps], below.settings.of_child(self._variables(below))
        elif stage.base and stage.base != "scratch":
            below = self._image(stage.begin, stage.base)
            steps, settings = [*below.steps], below.settings.of_image()
        for entry in stage.entries:
            if isinstance(entry, Ignored):
                self._notes.append(
                    f"{self._file.source.path}:{entry.line}: {entry.text}: {entry.why}"
                )
            settings = after(settings, self._file.source, entry, stage.arguments)
            parent = steps[-1].key if steps else ""
            if step := self._step(entry, settings, parent):
                steps.append(step)
        return Chain(stage.name, tuple(steps), settings)

    def _variables(self, stage: Chain) -> dict[str, str]:
        """Return the variables that are inputs of a stage of this file, each with its last value."""
        own = [step for step in stage.steps if step.context is self._context]
        found = {name: value for step in own for name, value in step.inputs.items()}
        return {
            name.removeprefix(VARIABLE): value
            for name, value in found.items()
            if name.startswith(VARIABLE)
        }

    def _image(self, entry: Entry, reference: str) -> Chain:
        """Return the chain of a fetched image, or of another folder of containers/."""
        if not reference.startswith(OWN_IMAGES):
            inputs = {"reference": reference, "architecture": architecture()}
            if reference.startswith(FILES):
                inputs["file"] = self._state_of_file(entry, reference.removeprefix(FILES))
            else:
                self._check_reference(entry, reference)
            key = _key("", inputs)
            config = self._base_config(key)
            if config and config.on_build and isinstance(entry, From):
                said = f"{reference} has ONBUILD instructions, which Argosy does not carry out"
                hint = "name an image without them, such as the one that it was made from"
                raise self._file.source.error(entry.line, f"{said}: {some(config.on_build)}", hint)
            settings = Settings(config or ImageConfig())
            step = Step(entry, settings, inputs, key, self._context)
            if config is None:
                self._unknown.append(step)
            return Chain(reference, (step,), settings)
        name = reference.removeprefix(OWN_IMAGES).removesuffix(":latest")
        if not NAME.fullmatch(name):
            raise self._error(entry, f"{reference[:100]}: names no folder of containers/")
        beside = self._folder.resolve().parent / name
        places = (beside, *(other.resolve() / name for other in self._others))
        folder = next((place for place in places if _path(place).is_file()), beside)
        if folder in (*self._above, self._folder.resolve()):
            raise self._error(
                entry, f"{reference}: these images need each other (circular dependency)"
            )
        if not _path(folder).is_file():
            raise self._error(
                entry,
                f"{reference}: there is no {_path(folder)}",
                "write it, or correct the name",
            )
        above = (*self._above, self._folder.resolve())
        if folder not in self._planned:
            planner = _Planner(folder, above, self._base_config, self._others, self._planned)
            self._planned[folder] = planner.recipe()
        other = self._planned[folder]
        self._unknown += other.unknown
        self._files += other.files
        self._notes += other.notes
        return other.final

    def _check_reference(self, entry: Entry, reference: str) -> None:
        try:
            Reference.parse(reference)
        except ArgosyError as problem:
            raise self._error(entry, problem.problem, problem.hint) from None

    def _state_of_file(self, entry: Entry, source: str) -> str:
        """Return an archive's size and mtime: hashing it would take longer than a build."""
        try:
            file, _ = split_source(unquote(source))
            status = file.stat()
        except (OSError, ValueError) as problem:
            # The path is too long, or contains a NUL.
            why = getattr(problem, "strerror", None) or problem
            raise self._error(entry, f"{plain(unquote(source))[:300]}: {why}") from None
        self._files.append(file)
        return f"{status.st_size} bytes, changed at {status.st_mtime_ns}"

    def _error(self, entry: Entry, message: str, hint: str = "") -> ArgosyError:
        return self._file.source.error(entry.line, message, hint)

    def _step(self, entry: Entry, settings: Settings, parent: str) -> Step | None:
        try:
            return self._read_step(entry, settings, parent)
        except (OSError, RuntimeError) as problem:
            # A file in the image's folder is at fault, for example a loop of links.
            why = getattr(problem, "strerror", None) or problem
            place = os.fsdecode(getattr(problem, "filename", None) or "")
            raise self._error(entry, f"{place}: {why}") from None

    def _read_step(self, entry: Entry, settings: Settings, parent: str) -> Step | None:
        if isinstance(entry, Run):
            uses = {m.stage: self._used(entry, m.stage) for m in entry.mounts if m.stage}
            inputs, sources = inputs_of_run(self._context, entry, settings, _keys(uses))
        elif isinstance(entry, Copy):
            uses = {entry.stage: self._used(entry, entry.stage)} if entry.stage else {}
            inputs, sources = inputs_of_copy(self._context, entry, settings, _keys(uses))
        elif isinstance(entry, Words) and entry.name == "WORKDIR":
            uses, sources = {}, []
            inputs = {"instruction": "WORKDIR", "folder": settings.config.workdir}
        else:
            return None
        self._files += sources
        key = _key(parent, inputs)
        return Step(entry, settings, inputs, key, self._context, tuple(sources), uses)

    def _used(self, entry: Entry, name: str) -> Chain:
        stage = self._file.find(name)
        return self._chains[stage.number] if stage else self._image(entry, name)


def bases(step: Step, below: Sequence[Step]) -> list[str]:
    """Return the sorted keys of all fetched images whose files a step sees."""
    seen = Chain("", (*below, step), step.settings)
    return sorted({s.key for chain in seen.with_used() for s in chain.steps if s.base})


def _path(folder: Path) -> Path:
    """Return the path of the image's Containerfile or Dockerfile."""
    other = folder / "Dockerfile"
    path = folder / "Containerfile"
    return other if other.is_file() and not path.is_file() else path


def _keys(uses: Mapping[str, Chain]) -> dict[str, str]:
    return {name: chain.key for name, chain in uses.items()}


def _key(parent: str, inputs: Inputs) -> str:
    described = json.dumps([CACHE_FORMAT, parent, inputs], sort_keys=True)
    return hashlib.sha256(described.encode()).hexdigest()[:40]
