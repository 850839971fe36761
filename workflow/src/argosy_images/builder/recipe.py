"""Turns a Containerfile into chains of steps, each with a key made of its inputs.

A step's key is a digest of its parent's key and of its inputs, each of which has a name that people
understand. Only what decides a step's outcome is an input: neither time stamps, nor labels above a RUN,
nor a variable that the step does not see. Nothing is run here.
"""

import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote

from argosy_common.errors import ArgosyError, plain, some
from argosy_images.builder.inputs import Context, inputs_of_copy, inputs_of_run
from argosy_images.builder.settings import Settings, after
from argosy_images.containerfile.instructions import (
    Copy,
    Entry,
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
"""Part of every key; changed when layers made by an older Argosy must not be used any more."""

OWN_IMAGES = "localhost/"
"""The prefix of another folder of containers/; podman looks there for images built before."""

FILES = "file://"
"""The prefix of an archive or SIF file, by its absolute path as in a URL. podman knows no such base."""

Inputs = Mapping[str, str]
BaseConfig = Callable[[str], ImageConfig | None]


@dataclass(frozen=True)
class Step:
    """An instruction that changes files, with all that decides its outcome.

    Args:
        settings: what holds for it, its own instruction included.
        sources: of COPY, the files of the image's folder; else empty.
        uses: chains whose files it reads, by the name that the instruction gives them.
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
        """Reference of the image that FROM fetches."""
        return self.inputs.get("reference")

    def text(self, word: str) -> str:
        """Return a word of the instruction, expanded."""
        return expanded(self.context.source, self.entry, word, self.settings.variables)

    def content(self, heredoc: Heredoc) -> str:
        """Return what COPY writes for a here-document."""
        return content_of(self.context.source, self.entry, heredoc, self.settings.variables)


@dataclass(frozen=True)
class Chain:
    """The steps of a stage, those of the stages below it included, from the base on."""

    name: str
    steps: tuple[Step, ...]
    settings: Settings

    @property
    def key(self) -> str:
        """The inputs that decide its files."""
        return self.steps[-1].key if self.steps else ""

    def with_used(self) -> list["Chain"]:
        """Return this one and all that its steps use: each once, before those that it uses itself."""
        found: dict[tuple[str, str], Chain] = {}
        # A file may chain more stages than Python's calls may be deep.
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
    """How an image is built.

    Args:
        final: the chain that is the image.
        notes: what is left out, and why.
        files: the Containerfile and all files that go into the image.
    """

    final: Chain
    notes: tuple[str, ...]
    files: tuple[Path, ...]
    unknown: tuple[Step, ...]
    """Bases that have to be fetched before the recipe is right: what they set, later steps see."""


def nothing_known(key: str) -> None:
    """Stands for a store that holds no base yet."""


def plan(
    folder: Path, base_config: BaseConfig = nothing_known, others: Sequence[Path] = ()
) -> Recipe:
    """Return the recipe of the image in `containers/<name>/`.

    Args:
        base_config: gives the configuration of the fetched base with this key, if it is there.
        others: folders of images, besides the one around `folder`, for FROM localhost/NAME.

    Raises:
        ArgosyError: naming file and line, for what cannot be built, missing sources included.
    """
    try:
        return _Planner(folder, (), base_config, others, {}).recipe()
    except RecursionError:
        raise ArgosyError(f"{_path(folder)}: is nested too deeply") from None


def image_inputs(folder: Path, others: Sequence[Path] = ()) -> list[str]:
    """Return the Containerfile of `containers/<name>/` and every file that goes into the image.

    Raises:
        ArgosyError: naming file and line, when it cannot be built.
    """
    return [str(path) for path in plan(folder, others=others).files]


class _Planner:
    """Plans one file; `above` are the folders whose planning led to it, `planned` those that are done."""

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
        # docker and podman do the same in an image FROM scratch.
        settings = Settings(ImageConfig(environment={"PATH": DEFAULT_PATH}))
        if stage.parent is not None:
            below = self._chains[stage.parent]
            steps, settings = [*below.steps], below.settings.inherited()
        elif stage.base and stage.base != "scratch":
            below = self._image(stage.begin, stage.base)
            steps, settings = [*below.steps], below.settings.inherited()
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

    def _image(self, entry: Entry, reference: str) -> Chain:
        """Return an image of somebody else's, or of another folder of containers/."""
        if not reference.startswith(OWN_IMAGES):
            inputs = {"reference": reference, "architecture": architecture()}
            if reference.startswith(FILES):
                inputs["file"] = self._state_of_file(entry, reference.removeprefix(FILES))
            else:
                self._check_reference(entry, reference)
            key = _key("", inputs)
            config = self._base_config(key)
            if config and config.on_build:
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
        """Return what of an archive counts: reading all of it would take longer than a build."""
        try:
            file, _ = split_source(unquote(source))
            status = file.stat()
        except (OSError, ValueError) as problem:
            # A path may be too long, or contain a NUL.
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
            # Of files in the image's folder, such as links that lead round in a circle.
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
    """Return the keys of all images of others whose files a step sees, sorted."""
    seen = Chain("", (*below, step), step.settings)
    return sorted({s.key for chain in seen.with_used() for s in chain.steps if s.base})


def _path(folder: Path) -> Path:
    """Return the image's Containerfile, by either of its names."""
    other = folder / "Dockerfile"
    path = folder / "Containerfile"
    return other if other.is_file() and not path.is_file() else path


def _keys(uses: Mapping[str, Chain]) -> dict[str, str]:
    return {name: chain.key for name, chain in uses.items()}


def _key(parent: str, inputs: Inputs) -> str:
    described = json.dumps([CACHE_FORMAT, parent, inputs], sort_keys=True)
    return hashlib.sha256(described.encode()).hexdigest()[:40]
