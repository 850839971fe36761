"""A launcher is a file of data: its texts reach the agent as they are written, and a mistake is a line."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_studies import project_with, runs_of

from argosy.jobs.launchers import launcher_of, rank_variables, shipped, with_launchers
from argosy.jobs.planning import Target, plan_runs, write_runs
from argosy.runtime.contract.placeholders import FIELDS, as_format, filled
from argosy.study.runs import Run
from argosy_common.errors import ArgosyError

VALUES = {**dict.fromkeys(FIELDS, "7"), "own_port": "4711"}


def runs(launcher: str) -> list[Run]:
    """Return the runs of a small study."""
    return runs_of(image="torch-cpu", scale={"nodes": 2}, launcher=launcher)


@given(
    st.lists(
        st.sampled_from(["{", "}", "{{", "}}", "{rank}", "{{rank}}", "{own_port}", "{x}", " ", "a"])
    )
)
def test_a_text_says_the_same_as_a_format(parts: list[str]) -> None:
    text = "".join(parts)
    assert (as_format(text).format_map(VALUES),) == filled([text], VALUES)


@pytest.mark.parametrize("name", sorted(shipped()))
def test_each_launcher_of_argosy_can_be_filled_in(name: str) -> None:
    (run, *_) = with_launchers(runs(name), Path("/nowhere"))
    assert run.own_launcher is None
    for text in rank_variables(run).values():
        assert "\0" not in text.format_map({**VALUES, **dict.fromkeys(PORTS, 1)})


PORTS = ("master_port", "coordinator_port", "ray_port", "superlink_port", "exec_port")


def test_a_projects_own_file_comes_first_and_makes_another_run(tmp_path: Path) -> None:
    plain = with_launchers(runs("torch"), tmp_path)
    (tmp_path / "launchers").mkdir()
    own = tmp_path / "launchers/torch.yaml"
    own.write_text("per: node\nvariables: {ADDRESS: '{head_address}:{own_port}', N: 1}\n")
    (run, *_) = with_launchers(runs("torch"), tmp_path)
    assert (launcher_of(run).per, rank_variables(run)["N"]) == ("node", "1")
    assert "own_launcher" in run.model_dump() and "own_launcher" not in plain[0].model_dump()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("varibles: {A: b}", "varibles: no such key; did you mean variables?"),
        ("per: ranks", "per: input should be 'rank', 'node' or 'job'"),
        ("variables: {A: '{rnak}'}", "{rnak}: there is no such field"),
        ("start: [run, '{node_adress}']", "{node_adress}: there is no such field"),
        ("beside: {head: ['serve {prt}']}", "{prt}: there is no such field"),
        ("beside: {tail: ['x']}", "beside.tail: no such key"),
        ("variables: {ARGOSY_NODE: 1}", "ARGOSY_ are reserved for Argosy"),
        ("[]", "mine.yaml"),
        ("start: []", "start"),
        ("start: ['']", "start: its first word is empty"),
        ("""beside: {head: ["'' x"]}""", "beside.head.0: its first word is empty"),
        ("mpi_tasks: true\nper: node", "mpi_tasks are of ranks"),
        ("a: [", "is not YAML"),
    ],
)
def test_a_mistake_names_the_file_and_the_key(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "launchers").mkdir()
    (tmp_path / "launchers/mine.yaml").write_text(text)
    with pytest.raises(ArgosyError) as problem:
        with_launchers(runs("mine"), tmp_path)
    assert "launchers/mine.yaml" in str(problem.value)
    assert said in str(problem.value)
    assert "\n" not in str(problem.value)


def test_a_dangling_link_is_named(tmp_path: Path) -> None:
    (tmp_path / "launchers").mkdir()
    (tmp_path / "launchers/mine.yaml").symlink_to("/nowhere")
    with pytest.raises(ArgosyError, match=r"launchers/mine\.yaml: No such file") as problem:
        with_launchers(runs("mine"), tmp_path)
    assert not problem.value.hint


@pytest.mark.parametrize("beside", ["", "beside: {head: [serve]}", "beside: {each: []}"])
def test_a_command_of_the_head_alone_is_for_one_node(tmp_path: Path, beside: str) -> None:
    project = project_with(tmp_path, "local")
    (tmp_path / "launchers").mkdir()
    (tmp_path / "launchers/mine.yaml").write_text(f"per: job\n{beside}\n")

    def plan(nodes: int) -> None:
        asked = runs_of(launcher="mine", scale={"nodes": nodes})
        plan_runs(project, Target("local"), asked, {})

    plan(1)
    with pytest.raises(ArgosyError, match=r"one\.launcher: mine .* other nodes of 3 would be idle"):
        plan(3)


def test_a_launcher_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ArgosyError) as problem:
        with_launchers(runs("torhc"), tmp_path)
    assert problem.value.lines == (
        "experiments.one.launcher: there is no launcher torhc\n"
        "hint: did you mean torch?; or add launchers/torhc.yaml"
    )


@pytest.mark.parametrize("file", ["mine.yml", "mine", "mine.json"])
def test_a_launcher_file_with_a_wrong_suffix_is_named(tmp_path: Path, file: str) -> None:
    (tmp_path / "launchers").mkdir()
    (tmp_path / "launchers" / file).write_text("per: node\n")
    with pytest.raises(ArgosyError) as problem:
        with_launchers(runs("mine"), tmp_path)
    assert problem.value.hint == f"rename launchers/{file} to mine.yaml"


@pytest.mark.parametrize(
    ("site", "more", "said"),
    [
        ("local", "", "launcher: srun needs Slurm and `mpi` in slurm/local/site.yaml"),
        ("local", "mpi: pmi2", "mpi: only Slurm starts MPI tasks"),
        ("testbed", "", "which has `scheduler: slurm` and no `mpi`"),
        ("testbed", "mpi: -x", "mpi"),
        ("vista", "interface: ib0\nmpi: pmi2", "its launcher starts no tasks of MPI"),
    ],
)
def test_tasks_of_mpi_need_a_scheduler_that_starts_them(
    tmp_path: Path, site: str, more: str, said: str
) -> None:
    project = project_with(tmp_path, site)
    with (tmp_path / f"slurm/{site}/site.yaml").open("a") as file:
        file.write(f"\n{more}\n")
    with pytest.raises(ArgosyError) as problem:
        write_runs(project, plan_runs(project, Target(site), runs_of(launcher="srun"), {}))
    assert said in str(problem.value)
    assert "\n" not in str(problem.value)
