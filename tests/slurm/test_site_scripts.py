"""Slurm itself takes the batch scripts of every site as they are.

The cluster has the names that the sites ask for, and nodes that are declared as large as theirs. Without
accounting Slurm looks at no account and no QoS, and the limits of the sites are not configured.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from cluster import Cluster
from cluster.offers import Offers
from site_cases import ODD_FOLDER
from site_scripts import write_all

OFFERS = Offers(
    cpus=256,
    memory_mb=1_000_000,
    gres=("gpu:a100:8", "gpu:a100_3g.20gb:2", "gpu:gh200:4", "tmpfs:1T"),
    features=("cpu", "gpu", "hbm80g", "nvme", "scratch", "projects", "MI250", "GENOA"),
    partitions=(
        *("cpu", "gpu", "debug"),
        *("standard", "standard-g", "small", "small-g"),
        *("batch", "extended", "booster", "boost_usr_prod", "dcgp_usr_prod"),
        *("normal", "normal-x86", "normal-a100-40", "qcpu", "qgpu", "gpp", "acc", "work"),
        *("medium", "gpumedium", "gpularge", "zen5_dense", "zen4_h200"),
        *("rome", "gpu_a100", "gpu_mig", "gpuA100x4", "gh", "gg"),
    ),
)

ASK = """
options=$1
shift
for script; do
    # The options are split into words.
    if ! said="$(sbatch --test-only $options "$script" 2>&1)"; then echo "$script: $said"; fi
done
"""

pytestmark = pytest.mark.slurm


@pytest.fixture(scope="module")
def sites(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("slurm") / "sites"
    with Cluster.start(folder, nodes=4, offers=OFFERS) as running:
        yield running


@pytest.fixture(scope="module")
def scripts(project: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The scripts of all sites and cases, by SITE/CASE."""
    written = write_all(project / "slurm", tmp_path_factory.mktemp("scripts"))
    return {f"{path.parent.name}/{path.stem}": path for path in written}


def refusals(cluster: Cluster, *scripts: Path, options: Sequence[str] = ()) -> str:
    """What Slurm says against the scripts; nothing where it would take all of them."""
    said = cluster.run("bash", "-c", ASK, "ask", " ".join(options), *scripts).stdout
    return said.strip()


def test_every_script_is_accepted(sites: Cluster, scripts: dict[str, Path]) -> None:
    assert refusals(sites, *scripts.values()) == ""


@pytest.mark.parametrize(
    ("site", "options", "words"),
    [
        ("delta", ("--partition=nowhere",), "invalid partition"),
        ("delta", ("--constraint=scratch&elsewhere",), "feature"),
        ("narval", ("--gpus-per-node=v100:1",), "node configuration"),
        ("leonardo", ("--gres=disk:1G",), "generic resource"),
        ("mycluster", ("--mem=2T",), "node configuration"),
        ("mycluster", ("--nodes=5",), "node configuration"),
    ],
)
def test_what_there_is_not_would_be_refused(
    sites: Cluster, scripts: dict[str, Path], site: str, options: tuple[str, ...], words: str
) -> None:
    script = scripts[f"{site}/one-node"]
    assert words in refusals(sites, script, options=options).lower()


def test_an_odd_path_reaches_slurm_whole(
    sites: Cluster, scripts: dict[str, Path], tmp_path: Path
) -> None:
    text = scripts["testbed/odd-path"].read_text(encoding="utf-8")
    options = "".join(line for line in text.splitlines(True) if line.startswith("#SBATCH"))
    script = tmp_path / "job.sbatch"
    script.write_text(f"#!/bin/bash\n{options}pwd\n".replace("/project", str(tmp_path)))
    folder = tmp_path / f"{ODD_FOLDER}/results/testbed/digits/nodes1-ranks1-repeat1"
    (folder / "logs").mkdir(parents=True)
    job = sites.run("sbatch", "--parsable", "--wait", script, timeout=30).stdout.strip()
    log = folder / "logs" / f"scheduler-{job}.log"
    assert log.read_text() == f"{folder}\n"
