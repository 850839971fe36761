"""Only runs with the same setup are pooled, whatever their experiment's name."""

import json
from pathlib import Path
from typing import Any

import pytest
from reports import studied
from study_files import RunFiles, completed, plan, write_json

from argosy.report.runs.measurements import measurements
from argosy.report.runs.setups import NamedSetup, differences


def setups(results: Path) -> dict[str, NamedSetup]:
    with studied(results) as tables:
        return dict(tables.setups)


@pytest.mark.parametrize(
    ("changed", "what", "is_of_work"),
    [
        ({"digest": "cd"}, "image", False),
        ({"command": "python3 train.py --steps 20"}, "command", True),
        ({"scaling": "weak"}, "kind of scaling", True),
        ({"timeline": True}, "timeline", True),
        ({"environment": {"LR": "0.1"}}, "variable LR", True),
        ({"site_environment": {"NCCL_DEBUG": "INFO"}}, "variable NCCL_DEBUG", False),
        ({"resources": {"cpus_per_rank": 2}}, "cpus_per_rank", False),
        ({"resources": {"gpus_per_rank": 1}}, "gpus_per_rank", False),
        ({"resources": {"bind": "core"}}, "bind", False),
        ({"hardware": "gpu"}, "hardware", False),
    ],
)
def test_what_was_run_otherwise_is_another_setup(
    tmp_path: Path, changed: dict[str, Any], what: str, is_of_work: bool
) -> None:
    completed(tmp_path, repeat=1)
    completed(tmp_path, repeat=2)
    completed(tmp_path, repeat=3, **changed)
    found = setups(tmp_path)
    assert [*found] == ["digits #1", "digits #2"]
    assert {each.experiment for each in found.values()} == {"digits"}
    [apart] = differences(found["digits #1"].setup, found["digits #2"].setup)
    assert (apart.what, apart.is_of_work) == (what, is_of_work)
    assert apart.one != apart.other


def test_size_repeat_time_and_what_argosy_fills_in_are_no_setup(tmp_path: Path) -> None:
    completed(tmp_path, resources={"time": 60}, site_environment={"HOROVOD_RANK": "{rank}"})
    completed(
        tmp_path, nodes=2, resources={"time": 600}, site_environment={"HOROVOD_RANK": "{size}"}
    )
    completed(tmp_path, repeat=2, site_environment={"HOROVOD_RANK": "{{{rank}}}"})
    assert [*setups(tmp_path)] == ["digits"]


def test_braces_of_a_user_s_own_are_a_setup(tmp_path: Path) -> None:
    completed(tmp_path, environment={"NAME": "{a}"})
    completed(tmp_path, repeat=2, environment={"NAME": "{b}"})
    found = setups(tmp_path)
    assert [each.setup.variables["NAME"] for each in found.values()] == ["{a}", "{b}"]


def test_throughputs_are_named_by_the_setup(tmp_path: Path) -> None:
    for repeat, digest, step_s in ((1, "ab", 0.1), (2, "ab", 0.1), (3, "cd", 0.2)):
        completed(tmp_path, step_s=step_s, repeat=repeat, digest=digest)
    completed(tmp_path, experiment="other")
    with studied(tmp_path) as tables:
        found = measurements(tables)
        pooled = tables.fetch(
            "SELECT experiment, count(*) AS n FROM steps GROUP BY ALL ORDER BY ALL"
        )
    assert [(run.experiment, round(run.samples_per_s or 0)) for run in found] == [
        ("digits #1", 320),
        ("digits #1", 320),
        ("digits #2", 160),
        ("other", 320),
    ]
    assert all(run.warm_up for run in found)
    assert [(row["experiment"], row["n"]) for row in pooled] == [
        ("digits #1", 30),
        ("digits #2", 15),
        ("other", 15),
    ]


def test_runs_that_did_not_complete_make_no_setup_of_their_own(tmp_path: Path) -> None:
    completed(tmp_path)
    plan(tmp_path, repeat=2, digest="cd").execute(state="failed")
    plan(tmp_path, repeat=3, digest="ef")
    assert [*setups(tmp_path)] == ["digits"]


def change(run: RunFiles, name: str, **keys: Any) -> None:
    content = json.loads((run.path / name).read_text())
    write_json(run.path / name, content | keys)


def test_what_ran_counts_and_not_what_is_planned_since(tmp_path: Path) -> None:
    old, new = completed(tmp_path, repeat=1), completed(tmp_path, repeat=2, digest="cd")
    claim = {
        "schema_version": 2,
        "unix": 1.0,
        "continues": None,
        "run": json.loads((old.path / "run.json").read_text()),
        "experiment": json.loads((old.path / "provenance.json").read_text())["experiment"],
    }
    write_json(old.attempt("100.0") / "claim.json", claim)
    # A rebuilt image changed all plans, and one of the runs is measured again.
    (old.path / "run.json").write_text((new.path / "run.json").read_text())
    change(old, "run.json", run_id=old.run_id, repeat=1)
    found = setups(tmp_path)
    assert ["abab" in str(each.setup.image) for each in found.values()] == [True, False]


ONE, OTHER = ({"/workloads/train.py": digest} for digest in ("sha256:ab", "sha256:cd"))


def test_runs_of_a_changed_program_are_another_setup(tmp_path: Path) -> None:
    for repeat, programs in ((1, ONE), (2, ONE), (3, OTHER)):
        completed(tmp_path, repeat=repeat).claim(programs=programs)
    found = setups(tmp_path)
    assert [*found] == ["digits #1", "digits #2"]
    [apart] = differences(found["digits #1"].setup, found["digits #2"].setup)
    assert (apart.what, apart.is_of_work) == ("program /workloads/train.py", False)
    assert (apart.one, apart.other) == ("sha256:ab", "sha256:cd")


def test_a_run_that_noted_no_program_is_not_told_apart_by_it(tmp_path: Path) -> None:
    """Old runs have no recorded programs, and pending runs have none yet."""
    completed(tmp_path / "new", repeat=1).claim(programs=ONE)
    completed(tmp_path / "new", repeat=2)
    completed(tmp_path / "new", repeat=3).claim(programs={})
    plan(tmp_path / "new", repeat=4)
    [new] = setups(tmp_path / "new").values()
    assert new.setup.programs == ONE
    completed(tmp_path / "old", repeat=1)
    [old] = setups(tmp_path / "old").values()
    assert differences(old.setup, new.setup) == differences(new.setup, old.setup) == []


def test_a_run_that_went_on_with_another_program_is_of_both(tmp_path: Path) -> None:
    run = plan(tmp_path)
    run.claim("7.0", programs=ONE)
    run.execute("7.0", state="interrupted")
    run.steps("7.0", steps=12)
    run.claim("7.1", continues=("7.0", 10), programs={**OTHER, "/workloads/new.py": "sha256:ef"})
    run.execute("7.1")
    run.steps("7.1", first_step=10, steps=20)
    [found] = setups(tmp_path).values()
    assert found.setup.programs == {
        "/workloads/new.py": "none then sha256:ef",
        "/workloads/train.py": "sha256:ab then sha256:cd",
    }


def test_nothing_that_a_terminal_would_act_on_is_left_of_a_setup(tmp_path: Path) -> None:
    code = "\x1b[2J\u202e"
    for repeat in (1, 2):
        environment = {f"NAME{code}": f"{repeat}{code}"}
        run = completed(tmp_path, repeat=repeat, command=f"{code}train", environment=environment)
        run.claim(programs={f"/workloads/{code}train.py": f"{code}{repeat}"})
    one, other = (each.setup for each in setups(tmp_path).values())
    assert one.programs == {"/workloads/train.py": "1"}
    [variable, program] = differences(one, other)
    assert (variable.what, variable.one) == ("variable NAME", "1")
    assert (program.what, program.other) == ("program /workloads/train.py", "2")
