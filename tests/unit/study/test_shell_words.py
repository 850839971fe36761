"""Shell variables that nothing expands are refused before anything runs."""

import shlex
from pathlib import Path
from typing import Any

import pytest
from small_studies import configured

from argosy.jobs.planning import Project, Target, plan_runs
from argosy.site.models import Site
from argosy.study.runs import expand
from argosy.study.shell_words import remedy, unfilled
from argosy_common.errors import ArgosyError


@pytest.mark.parametrize(
    ("command", "found", "advice"),
    [
        ("train --n $SLURM_NTASKS", "$SLURM_NTASKS", "write {ranks}"),
        (
            "train --id=x-${SLURM_JOB_ID}",
            "${SLURM_JOB_ID}",
            "write {nodes}x{ranks_per_node}-{repeat}",
        ),
        ("train $SLURM_PROCID", "$SLURM_PROCID", "$RANK"),
        ("train --epochs ${EPOCHS:-3}", "${EPOCHS:-3}", "write the value"),
        ("env A=$B bash run.sh", "$B", "write the value"),
        ("train $1", "$1", "write the value"),
        ("train --lr=${lr}", "${lr}", "write the value"),
        ("train --port '$(shuf -n 1)'", "$(shuf -n 1)", "write the value"),
        ("train '`id`'", "`id`", "write the value"),
        ("train --batch $((32*2))", "$((32*2))", "write the value"),
        ("train --title 'job $SLURM_JOB_ID of two'", "$SLURM_JOB_ID", "write {nodes}"),
        ("nice bash -c 'train $SLURM_NNODES'", "$SLURM_NNODES", "write {nodes}"),
    ],
)
def test_only_a_shell_would_fill_it_in(command: str, found: str, advice: str) -> None:
    assert unfilled(shlex.split(command), {}) == found
    assert advice in remedy(found)


@pytest.mark.parametrize(
    "command",
    [
        "bash -c 'exec train $RANK $SCRATCH ${SLURM_JOB_ID:-1}'",
        "bash -c 'SLURM_NNODES=2; train $SLURM_NNODES'",
        "bash -c 'exec train \\$SLURM_JOB_ID'",
        "awk '{print $1, $NF}' file",
        """python3 -c 'print("$X")  # $(a)'""",
        "train model.width=${width} 'a=${now:%Y}' ${a.b}",
        "train 'foo$' '$.x' 'a$$b' '{print}' '$-'",
        "env LD_LIBRARY_PATH=$ORIGIN/lib train",
    ],
)
def test_other_text_is_left_alone(command: str) -> None:
    assert unfilled(shlex.split(command), {}) == ""


@pytest.mark.parametrize(
    ("key", "more"),
    [
        ("experiments.one.command", {"command": "train $SCRATCH"}),
        ("experiments.one.command", {"command": "train {x}", "sweep": {"x": ["a", "$SCRATCH"]}}),
        ("experiments.one.environment.OUT", {"environment": {"OUT": "$SCRATCH/out"}}),
        ("experiments.one.outputs", {"outputs": ["$SCRATCH/out"]}),
        ("experiments.one.command, with variables of the site", {"command": "train {site.out}"}),
    ],
)
def test_each_key_is_named(key: str, more: dict[str, Any]) -> None:
    config = configured(**more)
    with pytest.raises(ArgosyError) as refused:
        expand(config, {"out": "$SCRATCH/out"})
    assert refused.value.problem == f"{key}: $SCRATCH: nothing fills this in"


def test_variables_of_ranks_in_the_sites_file_are_checked(tmp_path: Path) -> None:
    facts = Site.model_validate(
        {"scheduler": "local", "environment": {"TORCH_HOME": "$SCRATCH/torch"}}
    )
    with pytest.raises(
        ArgosyError, match=r"^slurm/here/site\.yaml: environment\.TORCH_HOME: \$SCRATCH"
    ):
        plan_runs(Project(tmp_path), Target("here"), [], {}, facts)


def test_a_missing_variable_of_the_site_is_told_by_the_key_in_the_file() -> None:
    study = configured(command="train {lr} {site.x}", sweep={"lr": [0.1, 0.2]})
    with pytest.raises(ArgosyError, match=r"^experiments\.one\.command: \{site\.x\}"):
        expand(study)
