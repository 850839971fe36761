"""What decides the outcome of a step, by names that people understand, and the files among it."""

import json
import posixpath
from collections.abc import Mapping, Sequence
from pathlib import Path

from argosy.images.builder.context import Context, digest_of_file
from argosy.images.builder.hostconfig import INSTALLERS
from argosy.images.builder.settings import Settings
from argosy.images.containerfile.instructions import Copy, Run, content_of, expanded
from argosy.images.containerfile.mounts import Mount

Inputs = dict[str, str]
Keys = Mapping[str, str]
"""Of the chains that a step reads from, by the names that the instruction gives them."""


def inputs_of_run(
    context: Context, entry: Run, settings: Settings, uses: Keys
) -> tuple[Inputs, list[Path]]:
    """Return the inputs of RUN: all variables count, as its command may read any of them.

    Raises:
        ArgosyError: naming the line, when a file to be mounted is missing.
    """
    command = entry.command
    inputs = {
        "instruction": "RUN",
        "command": command if isinstance(command, str) else json.dumps(command),
        "workdir": settings.config.workdir,
        "user": settings.config.user,
    }
    if isinstance(command, str):
        inputs["shell"] = json.dumps(settings.shell)
    if INSTALLERS.search(entry.told) or any(mount.kind == "cache" for mount in entry.mounts):
        # The layer may hold what other steps of this image left in its caches: no other image takes it.
        inputs["name of the image"] = context.folder.name
    inputs |= {f"variable {name}": value for name, value in settings.variables.items()}
    inputs |= _heredocs([(heredoc.name, heredoc.content) for heredoc in entry.heredocs])
    found: list[Path] = []
    for number, mount in enumerate(entry.mounts):
        inputs[f"mount {number}"] = _described(mount)
        if mount.kind == "bind" and not mount.stage:
            source = expanded(context.source, entry, mount.source, settings.variables)
            found += [file for path in context.find(entry, source) for file in context.files(path)]
    return {**inputs, **_digests(context, found, found), **_stages(uses)}, _only_files(found)


def inputs_of_copy(
    context: Context, entry: Copy, settings: Settings, uses: Keys
) -> tuple[Inputs, list[Path]]:
    """Return the inputs of COPY and ADD: what is copied and where to; variables only as what replaces them.

    Raises:
        ArgosyError: naming the line, when a source is missing, or may change without being noticed.
    """
    source, variables = context.source, settings.variables
    words = [expanded(source, entry, word, variables) for word in entry.sources]
    target = settings.path(expanded(source, entry, entry.target, variables))
    contents = [(each.name, content_of(source, entry, each, variables)) for each in entry.heredocs]
    inputs = {
        "instruction": entry.name,
        "sources": json.dumps(words),
        "target": target,
        "mode": "as it is" if entry.mode is None else f"{entry.mode:o}",
        **_heredocs(contents),
        **_stages(uses),
    }
    remote = [word for word in words if is_url(word)] if entry.unpacks else []
    _check_remote(context, entry, remote)
    if entry.unpacks:
        inputs["archives are known by"] = "their content"
    if remote:
        inputs["checksum"] = entry.checksum or ""
    local = [word for word in words if word not in remote and not entry.stage]
    found = [path for word in local for path in context.find(entry, word)]
    # A pattern may come to several files, too.
    if max(len(words), len(found)) + len(contents) > 1 and not target.endswith("/"):
        raise source.error(entry.line, f"{entry.name}: several sources need a folder: {target}/")
    files = [file for path in found for file in context.files(path)]
    return {**inputs, **_digests(context, files, found)}, _only_files(files)


def is_url(word: str) -> bool:
    """Return whether ADD fetches this."""
    return word.startswith(("http://", "https://"))


def _check_remote(context: Context, entry: Copy, remote: Sequence[str]) -> None:
    if remote and not entry.checksum:
        raise context.source.error(
            entry.line,
            f"ADD {remote[0]}: say which file it is, with --checksum=sha256:…; what lies behind an "
            "address may change, and the cache would not know",
        )
    if entry.checksum and (len(remote) != 1 or len(entry.sources) != 1):
        raise context.source.error(entry.line, "ADD --checksum is for one address, and no more")


def _described(mount: Mount) -> str:
    """Return what of a mount counts; not what a cache holds, which a step must not depend on."""
    stage = f" of {mount.stage}" if mount.stage else ""
    writable = "rw" if mount.writable else "ro"
    return f"{mount.kind} {mount.target} {mount.source}{stage} {writable}"


def _heredocs(contents: Sequence[tuple[str, str]]) -> Inputs:
    found: dict[str, list[str]] = {}
    for name, content in contents:
        # One instruction may use a name twice.
        found.setdefault(f"here-document {name}", []).append(content)
    return {name: json.dumps(texts) for name, texts in found.items()}


def _stages(uses: Keys) -> Inputs:
    return {f"stage {name}": key for name, key in uses.items()}


def _digests(context: Context, files: Sequence[Path], named: Sequence[Path]) -> Inputs:
    found = {}
    links = {path for path in named if path.is_symlink()}
    for path in files:
        name = posixpath.join(*path.relative_to(context.folder).parts)
        # A link that is named itself stands for its file.
        found[f"file {name}"] = digest_of_file(path.resolve() if path in links else path)
    return found


def _only_files(found: Sequence[Path]) -> list[Path]:
    return [path for path in found if path.is_file()]
