"""A site's file as a cluster would have it: each value with its origin, and what is not known."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from argosy.probe.folders import absent_folders, choose_tmpdir
from argosy.probe.interfaces import choose_interface
from argosy.probe.pending_look import Looked
from argosy.probe.remarks import not_found, worth_knowing
from argosy.probe.values import Draft, Value
from argosy.schedulers.cluster_facts import ClusterFacts, NodeKind, QueueFacts
from argosy.site.values import TO_FILL_IN
from argosy.units import duration


@dataclass(frozen=True)
class SiteDraft:
    """What would stand in a site's file, what could not be found, and what has no key."""

    keys: Draft
    unknown: tuple[str, ...]
    notes: tuple[str, ...]


def draft_site(scheduler: str, facts: ClusterFacts, looked: Sequence[Looked]) -> SiteDraft:
    """Put together what the scheduler told and what nodes found."""
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
            **({"gpu": Value(kind.gpu, f"as the scheduler spells it{by_gpu}")} if kind.gpu else {}),
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
        **({"gpus_only": Value(True, "it takes no job without GPUs")} if queue.gpus_only else {}),
        **({"only_by_name": Value(True, queue.aside)} if queue.aside else {}),
    }
