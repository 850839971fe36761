"""The cases of batch scripts: for each site those that it has, and those that it has to refuse."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

ODD_FOLDER = "a b; $(touch pwned) 'one' \"two\" 100%j #& ü"


@dataclass(frozen=True)
class Case:
    """One run at one site."""

    site: str
    name: str
    nodes: int = 1
    ranks_per_node: int = 1
    cpus: int = 4
    gpus: int = 0
    hardware: str | None = None
    runtime: Literal["container", "native"] = "container"
    warning: int | None = None
    restarts: int = 0
    least_nodes: int | None = None
    launcher: str = "horovod"
    folder: str = ""
    same_allocation: bool = False
    data: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    refused: str | None = None
    """What the refusal says; None: there is a script."""


@dataclass(frozen=True)
class Kept:
    """What a site has: GPUs of a node, the name of a slice, and what its user writes into site.yaml."""

    gpus: int = 0
    slice: str | None = None
    written: Mapping[str, Any] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)


NO_SLICE = {"mig": "hardware: the site has no slice (digits/nodes1-ranks1-repeat1); there are "}
NO_GPU = {"gpu": "cpu: 0 GPUs per node, 1 needed", **NO_SLICE}
ONE_RUN = {"shared-job": "same_allocation: false: a job of this site can contain only one run"}
INTERFACE = {"interface": "ib0"}
ACCOUNT = {"account": "project"}
DATA = {
    "/data/era5": {"from": "$SCRATCH/`touch pwned` 'era5'"},
    "/data/kept": {"from": "/scratch/${USER}_kept", "write": True},
    "/data/near": {"from": "$SCRATCH/near", "stage": "node"},
}
BY_HARDWARE = {"hardware": {"booster": {"account": "booster"}, "dcgp": {"account": "dcgp"}}}
DEUCALION = {"x86": {"account": "projectx"}, "a100-40": {"account": "projectg"}}
SETONIX = {"gpu": {"account": "project-gpu"}}
DELTA = {"cpu": {"account": "code-delta-cpu"}, "a100x4": {"account": "code-delta-gpu"}}

MYCLUSTER = {
    "interface": "eth0",
    "mpi": "pmi2",
    "account": None,
    "hardware": {
        "cpu": {"architecture": "x86_64", "cores": 64, "memory": "250G"},
        "gpu": {
            "architecture": "x86_64",
            "cores": 64,
            "memory": "500G",
            "gpus": 4,
            "options": {"gres": "gpu:{gpus}"},
        },
    },
    "queues": {
        "cpu": {"hardware": ["cpu"], "options": {"partition": "cpu"}},
        "gpu": {"hardware": ["gpu"], "options": {"partition": "gpu"}, "gpus_only": True},
    },
}
"""What the plain cluster that is to be copied leaves to its user."""

SITES = {
    "adastra": Kept(gpus=8, written={**INTERFACE, **ACCOUNT}, refused=NO_SLICE),
    "archer2": Kept(written=ACCOUNT, refused=NO_SLICE),
    "daint": Kept(gpus=4, written=ACCOUNT, refused=NO_SLICE),
    "delta": Kept(gpus=4, written={"interface": "hsn0", "hardware": DELTA}, refused=NO_SLICE),
    "deucalion": Kept(gpus=4, written={**INTERFACE, "hardware": DEUCALION}, refused=NO_SLICE),
    "frontier": Kept(gpus=8, written=ACCOUNT, refused=NO_SLICE),
    "iris": Kept(gpus=4, refused=NO_SLICE),
    "juwels-booster": Kept(gpus=4, written=ACCOUNT, refused=NO_SLICE),
    "karolina": Kept(gpus=8, written={**INTERFACE, **ACCOUNT}, refused=NO_SLICE),
    "marenostrum5": Kept(gpus=4, written={**INTERFACE, **ACCOUNT}, refused=NO_SLICE),
    "roihu": Kept(gpus=4, written={**INTERFACE, **ACCOUNT}, refused=NO_SLICE),
    "setonix": Kept(gpus=8, written={**ACCOUNT, "hardware": SETONIX}, refused=NO_SLICE),
    "sofia": Kept(gpus=8, written=INTERFACE, refused=NO_SLICE),
    "vega": Kept(gpus=4, written=ACCOUNT, refused=NO_SLICE),
    "leonardo": Kept(gpus=4, written={**INTERFACE, **BY_HARDWARE}, refused=NO_SLICE),
    "lumi": Kept(gpus=8, written=ACCOUNT, refused=NO_SLICE),
    "mycluster": Kept(gpus=4, written=MYCLUSTER, refused=NO_SLICE),
    "narval": Kept(gpus=4, slice="a100-3g.20gb", written={**INTERFACE, **ACCOUNT}),
    "perlmutter": Kept(gpus=4, refused=NO_SLICE),
    "snellius": Kept(gpus=4, slice="slice", written=INTERFACE),
    "testbed": Kept(refused=NO_GPU),
    "vista": Kept(gpus=1, written=INTERFACE, refused={**ONE_RUN, **NO_SLICE}),
}


def cases() -> Iterator[Case]:
    """All of them."""
    for name, site in SITES.items():
        for case in _of_site(name, site):
            yield replace(case, refused=site.refused.get(case.name))
    yield Case("mycluster", "data", gpus=1, data=DATA)
    for site in ("mycluster", "local"):
        yield Case(site, "restarts", nodes=4, warning=120, restarts=2, least_nodes=2)
    yield Case("mycluster", "mpi", nodes=2, ranks_per_node=2, launcher="srun")
    # On this machine there is no hardware to choose from.
    yield from (
        case for case in _of_site("local", Kept()) if case.name not in ("gpu", "mig", "shared-job")
    )


def _of_site(name: str, site: Kept) -> Iterator[Case]:
    one = Case(name, "one-node", gpus=min(site.gpus, 1))
    whole = replace(one, ranks_per_node=site.gpus or 1)
    yield one
    yield replace(whole, name="many-nodes", nodes=4, warning=120)
    yield replace(whole, name="gpu", gpus=1)
    yield replace(one, name="mig", gpus=1, hardware=site.slice or "slice")
    yield replace(whole, name="shared-job", nodes=2, same_allocation=True)
    yield Case(name, "cpu", nodes=2, ranks_per_node=2, cpus=2)
    yield replace(one, name="native", runtime="native")
    odd = replace(one, name="odd-path", folder=ODD_FOLDER)
    yield odd
    if name != "local":
        yield replace(odd, name="build")
        if "shared-job" not in site.refused:
            yield replace(whole, name="allocation", folder=ODD_FOLDER, same_allocation=True)
