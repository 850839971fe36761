"""Sites as a user would write them, small enough to see in a test what matters."""

from typing import Any

import yaml

from argosy.site.models import Site

PLAIN = """
scheduler: slurm
interface: eth0
hardware:
  cpu: {architecture: x86_64, cores: 64, memory: 100G}
  gpu:
    architecture: x86_64
    cores: 32
    memory: 200G
    gpus: 4
    options: {gres: "gpu:{gpus}"}
queues:
  short:
    hardware: [cpu, gpu]
    options: {partition: short}
    limits: [{nodes: 2, time: 1h}]
  long:
    hardware: [cpu, gpu]
    options: {partition: long}
    limits: [{nodes: 4, time: 2d}, {nodes: 16, time: 6h}]
"""


def content(changes: str = "") -> dict[str, Any]:
    """The plain site with some of its keys written anew."""
    return {**yaml.safe_load(PLAIN), **(yaml.safe_load(changes) or {})}


def site(changes: str = "") -> Site:
    """The same as a model."""
    return Site.model_validate(content(changes))
