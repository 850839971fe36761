"""Drafts a site's file from a survey: each value with its origin, and a list of unknown ones."""

import sys
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from argosy.probe.choices import Draft, Value, absent_folders, choose_interface, choose_tmpdir
from argosy.probe.look_jobs import Looked
from argosy.probe.looks import NodeLook
from argosy.schedulers.batch_system import ClusterFacts, NodeKind, QueueFacts
from argosy.site.values import TO_FILL_IN
from argosy_common.units import duration

CLOCK_S = 1.0
"""Seconds of clock difference above which it is reported."""


def not_found(
    facts: ClusterFacts, looked: Sequence[Looked], interface: Value, tmpdir: Value | None
) -> Iterator[str]:
    """Yield the values that could not be found, with the reason."""
    if interface.value == TO_FILL_IN:
        yield f"interface ({interface.origin})"
    if facts.account_required and not facts.account:
        yield f"account ({facts.account_origin}; --account names one)"
    if tmpdir is None:
        yield "tmpdir (no node-local folder was found; without the key it is /tmp)"
    seen = {each.name for each in looked}
    for each in looked:
        if each.problem:
            yield f"inspection of hardware.{each.name} ({each.problem})"
    for kind in facts.kinds:
        if kind.name not in seen:
            yield f"inspection of hardware.{kind.name} (not done)"
    yield "images.build (see the site's pages for its rules on builds on login nodes)"


def worth_knowing(facts: ClusterFacts, looked: Sequence[Looked]) -> Iterator[str]:
    """Yield facts about nodes that have no key in a site's file, and obstacles."""
    with_gpus = {each.name for each in facts.kinds if each.gpus}
    for each in looked:
        for number, look in enumerate(each.looks):
            where = f"{each.name} ({look.node})"
            lines = _of_second(look) if number else _of_first(look, each.name in with_gpus)
            yield from (f"{where}: {line}" for line in lines)


def _of_first(look: NodeLook, has_gpus: bool) -> Iterator[str]:
    pythons = [one.partition("=") for one in look.pythons if one]
    versions = ", ".join(sorted({version for _, _, version in pythons}))
    yield (
        f"{look.system}, Linux {look.kernel}, Python {versions}, "
        f"{'user namespaces' if look.user_namespaces else 'NO user namespaces'}"
        + (f", {', '.join(look.fabrics)}" if look.fabrics else "")
        + (f", {len(look.gpus)} GPUs seen" if look.gpus else "")
    )
    if sys.executable not in [path for path, _, _ in pythons]:
        yield (
            f"Argosy's environment does NOT run there ({sys.executable}): it, and its base Python, must be "
            "in a folder that nodes share"
        )
    if has_gpus and not look.gpus:
        yield "a job with a GPU allocated found none"
    for host, problem in look.outside.items():
        yield f"does not reach {host} ({problem})" if problem else f"reaches {host}"


def _of_second(look: NodeLook) -> Iterator[str]:
    if look.meeting.problem:
        yield look.meeting.problem
    for one in look.meeting.interfaces.values():
        if not one.problem and abs(one.clock_ahead_s) > CLOCK_S + one.clock_within_s:
            yield f"its clock and its neighbour's differ by {abs(one.clock_ahead_s):.1f} s"
            return


@dataclass(frozen=True)
class SiteDraft:
    """The keys of a site's file, the values that could not be found, and notes without a key."""

    keys: Draft
    unknown: tuple[str, ...]
    notes: tuple[str, ...]


def draft_site(scheduler: str, facts: ClusterFacts, looked: Sequence[Looked]) -> SiteDraft:
    """Combine the scheduler's answers and the nodes' reports."""
    looks = [look for each in looked for look in each.looks]
    interface = choose_interface(looked)
    tmpdir = choose_tmpdir(looks)
    absent = absent_folders(looks)
    account = {}
    if facts.account_required or facts.account:
        account = {
            "account": Value(facts.account or TO_FILL_IN, facts.account_origin),
            "account_required": Value(facts.account_required),
        }
    keys = {
        "scheduler": Value(scheduler),
        **({"cluster_name": Value(facts.name)} if facts.name else {}),
        "interface": interface,
        **account,
        **({"tmpdir": tmpdir} if tmpdir else {}),
        **({"absent_folders": absent} if absent else {}),
        "hardware": {each.name: _hardware(each, looked) for each in facts.kinds},
        "queues": {each.key: _queue(each) for each in facts.queues},
    }
    return SiteDraft(
        keys,
        (*not_found(facts, looked, interface, tmpdir), *facts.unknown),
        (*_account_note(facts), *facts.notes, *worth_knowing(facts, looked)),
    )


def _account_note(facts: ClusterFacts) -> Iterator[str]:
    if not facts.account_required:
        yield f"account: {facts.account_origin}"


def _hardware(kind: NodeKind, looked: Sequence[Looked]) -> dict[str, Any]:
    look = next((each.looks[0] for each in looked if each.name == kind.name and each.looks), None)
    by_gpu = f"; {look.gpus[0]}" if look and look.gpus else ""
    known = kind.architecture in ("x86_64", "aarch64")
    architecture = kind.architecture if known or not look else look.architecture
    gpus: dict[str, Any] = {}
    if kind.gpus:
        gpus = {
            "gpus": Value(kind.gpus),
            **({"gpu": Value(kind.gpu, f"the scheduler's name{by_gpu}")} if kind.gpu else {}),
            "options": {name: Value(value) for name, value in kind.options.items()},
        }
    threads = kind.threads_per_core
    return {
        "architecture": Value(architecture or TO_FILL_IN, kind.origin),
        "cores": Value(kind.cores),
        **({"threads_per_core": Value(threads)} if threads > 1 else {}),
        "memory": Value(f"{kind.memory}M"),
        **gpus,
    }


def _queue(queue: QueueFacts) -> dict[str, Any]:
    limit: dict[str, Any] = {"nodes": queue.nodes}
    if queue.minutes is not None:
        limit["time"] = duration(int(queue.minutes * 60))
    return {
        "hardware": Value(list(queue.kinds), queue.origin),
        "options": {name: Value(value) for name, value in queue.options.items()},
        "limits": Value([limit]),
        **({"gpus_only": Value(True, "it rejects jobs without GPUs")} if queue.gpus_only else {}),
        **({"only_by_name": Value(True, queue.aside)} if queue.aside else {}),
    }


WIDTH = 110


def site_text(draft: SiteDraft, head: Sequence[str]) -> str:
    """Return the text of a site.yaml; `head` is its first comment."""
    lines = [*_comments(head, 0), *_lines(draft.keys, 0)]
    if draft.unknown:
        lines += ["", *_comments(["Not found:", *(f"- {each}" for each in draft.unknown)], 0)]
    if draft.notes:
        lines += ["", *_comments(["Worth knowing:", *(f"- {each}" for each in draft.notes)], 0)]
    return "\n".join(lines) + "\n"


def plain(keys: Draft) -> dict[str, Any]:
    """Return the keys with their values, without origins."""
    return {
        key: each.value if isinstance(each, Value) else plain(each) for key, each in keys.items()
    }


def _lines(keys: Draft, depth: int) -> Iterator[str]:
    for key, each in keys.items():
        if isinstance(each, Value):
            if each.origin:
                yield from _comments([each.origin], depth)
            yield f"{'  ' * depth}{_inline(key)}: {_inline(each.value)}"
        elif each:
            yield f"{'  ' * depth}{_inline(key)}:"
            yield from _lines(each, depth + 1)


def _inline(value: Any) -> str:
    """Return a value as YAML in one line."""
    text = yaml.safe_dump(
        value, default_flow_style=True, sort_keys=False, width=10_000, allow_unicode=True
    )
    return text.removesuffix("...\n").strip()


def _comments(texts: Sequence[str], depth: int) -> Iterator[str]:
    """Yield comment lines; each line begins with `#`, so foreign text cannot leave the comment."""
    indent = "  " * depth + "# "
    for text in texts:
        shown = "".join(letter if letter.isprintable() else " " for letter in text)
        yield from textwrap.wrap(
            shown,
            WIDTH,
            initial_indent=indent,
            subsequent_indent=indent + ("  " if shown.startswith("- ") else ""),
            break_long_words=False,
            break_on_hyphens=False,
        )
