"""Apply instructions such as ENV and WORKDIR to the settings of a stage."""

import posixpath
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from argosy_images.containerfile.instructions import (
    Arg,
    Entry,
    Ignored,
    Program,
    Setting,
    Words,
    expanded,
)
from argosy_images.containerfile.text import Source
from argosy_images.engines.models import DEFAULT_PATH
from argosy_images.oci import ImageConfig, absolute

SHELL = ("/bin/sh", "-c")


@dataclass(frozen=True)
class Settings:
    """The image's configuration, with settings that last only for the build.

    Args:
        arguments: values of ARG.
        own_cmd: whether this stage set CMD, not its base.
        covered: inherited ARGs whose values are inputs of the parent stage, so that keys have them already.
    """

    config: ImageConfig = field(default_factory=ImageConfig)
    arguments: Mapping[str, str] = field(default_factory=dict)
    own_cmd: bool = False
    covered: Mapping[str, str] = field(default_factory=dict)

    def of_child(self, covered: Mapping[str, str]) -> "Settings":
        """Return the settings for a stage FROM this one in the same file, which inherits ARGs, too."""
        return replace(self, own_cmd=False, covered=covered)

    def of_image(self) -> "Settings":
        """Return the settings for a stage FROM this image, which has no ARGs."""
        return Settings(self.config)

    @property
    def shell(self) -> tuple[str, ...]:
        """The shell for commands in shell form."""
        return self.config.shell or SHELL

    @property
    def variables(self) -> dict[str, str]:
        """Variables of instructions and RUN; ENV wins over ARG."""
        return {"PATH": DEFAULT_PATH, **self.arguments, **self.config.environment}

    def path(self, written: str) -> str:
        """Make an instruction's path absolute, relative to WORKDIR.

        A path of a folder (`here/`, `.`) ends with a slash.
        """
        normal = absolute(written, self.config.workdir)
        is_folder = posixpath.basename(written) in ("", ".")
        return f"{normal}/" if is_folder and normal != "/" else normal


def after(settings: Settings, source: Source, entry: Entry, outer: Mapping[str, str]) -> Settings:
    """Return the settings after an instruction; `outer` are the ARGs before the first FROM."""
    if isinstance(entry, Arg):
        return _with_arguments(settings, source, entry, outer)
    if isinstance(entry, Program):
        return _with_program(settings, entry)
    if isinstance(entry, Setting):
        return _with_pairs(settings, source, entry)
    if isinstance(entry, Words):
        words = list(entry.words)
        if entry.name != "MAINTAINER":
            variables = settings.variables
            words = [expanded(source, entry, word, variables) for word in words]
        return replace(settings, config=_with_words(settings, entry.name, words))
    if isinstance(entry, Ignored):
        # HEALTHCHECK also removes the base's health check.
        others = {key: each for key, each in settings.config.others.items() if key != "Healthcheck"}
        return replace(settings, config=_changed(settings.config, "others", others))
    return settings


def _with_pairs(settings: Settings, source: Source, entry: Setting) -> Settings:
    variables = settings.variables

    def text(word: str) -> str:
        return expanded(source, entry, word, variables)

    key = "environment" if entry.name == "ENV" else "labels"
    known: Mapping[str, str] = getattr(settings.config, key)
    pairs = {text(name): text(value) for name, value in entry.pairs}
    return replace(settings, config=_changed(settings.config, key, {**known, **pairs}))


def _with_words(settings: Settings, name: str, words: Sequence[str]) -> ImageConfig:
    config = settings.config
    match name:
        case "WORKDIR":
            return _changed(config, "workdir", settings.path(words[0]).rstrip("/") or "/")
        case "EXPOSE":
            ports = (word if "/" in word else f"{word}/tcp" for word in words)
            return _changed(config, "exposed", _added(config.exposed, ports))
        case "VOLUME":
            return _changed(config, "volumes", _added(config.volumes, words))
        case _:
            keys = {"USER": "user", "STOPSIGNAL": "stop_signal", "MAINTAINER": "author"}
            return _changed(config, keys[name], words[0])


def _with_arguments(
    settings: Settings, source: Source, entry: Arg, outer: Mapping[str, str]
) -> Settings:
    for name, default in entry.names:
        if default is not None:
            value: str | None = expanded(source, entry, default, settings.variables)
        else:
            # Without a default, ARG takes the value from before FROM, or only declares a name that
            # the host may set, such as a proxy's.
            value = outer.get(name)
        if value is not None:
            covered = {key: each for key, each in settings.covered.items() if key != name}
            arguments = {**settings.arguments, name: value}
            settings = replace(settings, arguments=arguments, covered=covered)
    return settings


def _with_program(settings: Settings, entry: Program) -> Settings:
    command = entry.command
    if entry.name == "SHELL":
        return replace(settings, config=_changed(settings.config, "shell", tuple(command)))
    argv = (*settings.shell, command) if isinstance(command, str) else command
    if entry.name == "CMD":
        return replace(settings, config=_changed(settings.config, "cmd", argv), own_cmd=True)
    config = _changed(settings.config, "entrypoint", argv)
    # As in Docker, a new ENTRYPOINT resets the base's CMD.
    return replace(settings, config=config if settings.own_cmd else _changed(config, "cmd", None))


def _changed(config: ImageConfig, key: str, value: object) -> ImageConfig:
    return config.model_copy(update={key: value})


def _added(known: tuple[str, ...], more: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted({*known, *more}))
