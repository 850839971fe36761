"""Where a site's file says something else than the cluster does today."""

from collections.abc import Iterator, Mapping
from typing import Any

from argosy.site.models import Site
from argosy.site.values import TO_FILL_IN


def find_drift(written: Mapping[str, Any], today: Mapping[str, Any]) -> Iterator[str]:
    """Yield in words what differs between a site's file and what was found today.

    Keys that only the file has are its author's own, but for hardware and queues that are gone.

    Args:
        written: the content of site.yaml.
        today: the keys of a draft.
    """
    # As both are understood: `1d` and `24h` are the same.
    known = Site.model_validate(_complete(today)).model_dump()
    file = Site.model_validate(written).model_dump()
    for key in ("interface", "account", "account_required", "tmpdir"):
        is_known = today.get(key, TO_FILL_IN) != TO_FILL_IN or key == "account_required"
        if is_known and file[key] != known[key]:
            yield f"{key}: the file says {_shown(file[key])}, the cluster {_shown(known[key])}"
    for folder in known["absent_folders"]:
        if folder not in file["absent_folders"]:
            yield f"absent_folders: nodes lack {folder}, which the file does not say"
    yield from _entries("hardware", file["hardware"], known["hardware"], _hardware_identity)
    yield from _entries("queues", file["queues"], known["queues"], _queue_identity)


def _complete(today: Mapping[str, Any]) -> dict[str, Any]:
    """Return a draft that the model takes: what is to be filled in is left out."""
    found = {key: value for key, value in today.items() if value != TO_FILL_IN}
    return {**found, "account_required": bool(today.get("account_required"))}


def _hardware_identity(name: str, entry: Mapping[str, Any]) -> object:
    return entry["options"].get("gres") or entry["gpu"] or ("cpu" if not entry["gpus"] else name)


def _queue_identity(name: str, entry: Mapping[str, Any]) -> object:
    return entry["options"].get("partition", name)


def _entries(
    key: str, file: Mapping[str, Any], today: Mapping[str, Any], identity: Any
) -> Iterator[str]:
    """Yield what differs between entries, which are the same where they mean the same to the scheduler."""
    now = {identity(name, entry): entry for name, entry in today.items()}
    then = {identity(name, entry): (name, entry) for name, entry in file.items()}
    for mark, (name, entry) in then.items():
        if mark not in now:
            yield f"{key}.{name}: the cluster has none ({mark})"
            continue
        for part in _COMPARED[key]:
            if entry[part] != now[mark][part] and entry[part] is not None:
                yield (
                    f"{key}.{name}.{part}: the file says {_shown(entry[part])}, "
                    f"the cluster {_shown(now[mark][part])}"
                )
    for mark in now:
        if mark not in then:
            yield f"{key}: the cluster has {mark}, which the file has not"


_COMPARED = {
    "hardware": ("architecture", "cores", "threads_per_core", "memory", "gpus"),
    "queues": ("limits", "gpus_only"),
}


def _shown(value: object) -> str:
    return "nothing" if value in (None, (), {}) else str(value)
