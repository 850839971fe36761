"""What would send jobs to another cluster than the one that Argosy looks at is refused."""

from pathlib import Path

import pytest
from slurm_answers import answering

from argosy.schedulers import slurm
from argosy.schedulers.slurm.options import ScriptOptions
from argosy.schedulers.slurm.submission import check_script
from argosy.site.models import Site
from argosy_common.errors import ArgosyError

CONFIG = "Configuration data as of 1795836145\nClusterName             = bed\n"
VARIABLES = (
    "SLURM_CLUSTERS",
    "SBATCH_CLUSTERS",
    "SQUEUE_CLUSTERS",
    "SACCT_CLUSTERS",
    "SINFO_CLUSTERS",
)


@pytest.mark.parametrize("variable", VARIABLES)
@pytest.mark.parametrize("value", ["far", "far,bed", "all"])
def test_variables_of_another_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    answering(tmp_path, "scontrol", CONFIG)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setenv(variable, "bed")
    slurm.make_scheduler(1)
    monkeypatch.setenv(variable, value)
    for begin in (lambda: slurm.make_scheduler(1), slurm.make_surveyor):
        with pytest.raises(
            ArgosyError, match=f"{variable} is {value}, and Argosy's jobs go to bed"
        ):
            begin()


def test_a_job_s_own_variables_send_nothing_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_CLUSTER_NAME", "far")
    slurm.make_scheduler(1)


@pytest.mark.parametrize(
    "line", ["--clusters=far", "--cluster far", "-M far", "--mem=1G -Mfar", "-n1 -M=far"]
)
def test_a_template_s_own_line(tmp_path: Path, line: str) -> None:
    folder = tmp_path / "results/here/digits/nodes1-ranks1-repeat1"
    folder.mkdir(parents=True)
    (folder / "job.sbatch").write_text(f"#!/bin/bash\n#SBATCH {line}\n")
    with pytest.raises(ArgosyError, match=r"slurm/here/job.sbatch.j2: it writes `#SBATCH "):
        check_script(ScriptOptions(folder))
    (folder / "job.sbatch").write_text("#!/bin/bash\n#SBATCH --mem=1G -n1\n#SBATCH --comment=M\n")
    check_script(ScriptOptions(folder))


@pytest.mark.parametrize(
    "argument", ["--clusters=far", "--cluster=far", "--cluster-constraint=far"]
)
def test_an_argument_of_srun(argument: str) -> None:
    with pytest.raises(ValueError, match="Argosy works with the cluster of the login node"):
        Site.model_validate({"scheduler": "local", "srun": [argument]})
