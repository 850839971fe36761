"""What nodes write of themselves, made up."""

import json
from typing import Any

from argosy.probe.look_jobs import Looked
from argosy.probe.looks import NodeLook
from argosy.schedulers.batch_system import ClusterFacts, NodeKind, QueueFacts


def look(**more: Any) -> NodeLook:
    """A node."""
    known = {
        "node": "n1",
        "architecture": "x86_64",
        "kernel": "5.14.0",
        "system": "Rocky Linux 9.4",
        "suffixes": {},
        "absent": (),
        "gpus": (),
        "user_namespaces": True,
        "gpu_driver": "",
        "fabrics": (),
        "outside": {},
        "pythons": ("python3=3.9.18",),
        "interfaces": (),
        "scratch": (),
    }
    return NodeLook.model_validate_json(json.dumps({**known, **more}))


def interface(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "infiniband": False, **more}


def folder(written: str, **more: Any) -> dict[str, Any]:
    known = {
        "folder": written,
        "kind": "xfs",
        "size_mib": 9000,
        "free_mib": 1000,
        "writable": True,
        "runs_programs": True,
    }
    return {"written": written, **known, **more}


def met(**speeds: float | str) -> NodeLook:
    """A second node: bytes a second over each interface, or what is wrong with it."""
    found = {
        name: {"problem": speed} if isinstance(speed, str) else {"bytes_per_s": speed}
        for name, speed in speeds.items()
    }
    tried = {name: speed if isinstance(speed, str) else "" for name, speed in speeds.items()}
    meeting = {"interfaces": found, "peers": {"n1": tried}}
    return look(node="n2", number=1, nodes=2, meeting=meeting)


def among(number: int, nodes: int, interfaces: tuple[str, ...], **lost: str) -> NodeLook:
    """A node among several, which reaches all others over all interfaces but for `lost`, a word by node."""
    peers = {
        f"n{other}": {
            name: lost.get(f"n{other}", "") if name == interfaces[0] else "" for name in interfaces
        }
        for other in range(nodes)
        if other != number
    }
    fast = {name: {"bytes_per_s": 1e9} for name in interfaces} if number == 1 else {}
    return look(
        node=f"n{number}",
        number=number,
        nodes=nodes,
        interfaces=[interface(name) for name in interfaces],
        scratch=[folder("/tmp")],
        meeting={"interfaces": fast, "peers": peers},
    )


def kind(name: str = "cpu", **more: Any) -> NodeKind:
    known: dict[str, Any] = {
        "architecture": "x86_64",
        "cores": 64,
        "threads_per_core": 1,
        "memory": 250_000,
        "gpus": 0,
        "gpu": None,
        "options": {},
        "nodes": ("n1", "n2"),
        "usable": 2,
        "origin": "scontrol",
    }
    return NodeKind(name, **{**known, **more})


def queue(name: str = "batch", **more: Any) -> QueueFacts:
    known: dict[str, Any] = {
        "kinds": ("cpu",),
        "options": {"partition": name},
        "nodes": 2,
        "minutes": 1440.0,
        "aside": "",
        "gpus_only": False,
        "origin": "scontrol",
    }
    return QueueFacts(name, name, **{**known, **more})


def facts(**more: Any) -> ClusterFacts:
    known: dict[str, Any] = {
        "name": "bed",
        "kinds": (kind(),),
        "queues": (queue(),),
        "account": None,
        "account_required": False,
        "account_origin": "none is needed",
        "unknown": (),
        "notes": (),
    }
    return ClusterFacts(**{**known, **more})


def looked(*looks: NodeLook, of: NodeKind | None = None, problem: str = "") -> Looked:
    return Looked((of or kind()).name, looks, problem)
