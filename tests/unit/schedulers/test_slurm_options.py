"""Options of a job: requested by Argosy and the site, sent to one cluster, compared with the allocation."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from sites import site
from slurm_answers import answering

from argosy.jobs.planning import request_of
from argosy.schedulers import slurm
from argosy.schedulers.job_request import JobRequest
from argosy.schedulers.slurm import given
from argosy.schedulers.slurm.options import ScriptOptions, directive, script_options
from argosy.schedulers.slurm.submission import check_script
from argosy.site.models import Site
from argosy.site.placement import place
from argosy.study.runs import Run
from argosy.study.sizes import Checkpoints, Resources
from argosy_common.errors import ArgosyError

RUN_DIR = Path("/project/results/site/digits/nodes2-ranks4-repeat1")


def run(gpus: int = 0, checkpoints: Checkpoints | None = None) -> Run:
    return Run(
        experiment="digits",
        nodes=2,
        ranks_per_node=4,
        repeat=1,
        scaling="strong",
        image=None,
        command=("true",),
        launcher="plain",
        runtime="native",
        resources=Resources(cpus_per_rank=2, gpus_per_rank=gpus, memory_per_rank=1024, time=90),
        checkpoints=checkpoints,
        throughput=None,
    )


def options(
    facts: Site, asked: Run, run_dir: Path = RUN_DIR, hardware: str | None = None
) -> dict[str, str | None]:
    placement = place(facts, request_of(asked), hardware, None)
    warning = asked.checkpoints.warning if asked.checkpoints else None
    return script_options(JobRequest(facts, placement, request_of(asked), run_dir, warning))


def refusal(facts: Site, run_dir: Path = RUN_DIR, hardware: str | None = None) -> str:
    with pytest.raises(ArgosyError) as problem:
        options(facts, run(), run_dir, hardware)
    assert "\n" not in str(problem.value)
    return str(problem.value)


def test_what_argosy_asks_for_by_itself() -> None:
    assert options(site("queues: {main: {hardware: [cpu]}}"), run()) == {
        "job-name": "argosy-digits-nodes2-ranks4-repeat1",
        "chdir": str(RUN_DIR),
        "output": f"{RUN_DIR}/logs/scheduler-%j.log",
        "open-mode": "append",
        "requeue": None,
        "nodes": "2",
        "ntasks-per-node": "1",
        "cpus-per-task": "8",
        "mem": "4096M",
        "time": "2",
    }


def test_a_run_with_checkpoints_is_warned() -> None:
    asked = run(checkpoints=Checkpoints(warning=120))
    assert options(site(), asked)["signal"] == "B:USR1@120"


def test_the_inner_level_wins_and_null_takes_away() -> None:
    changes = """
    options: {partition: outer, qos: outer, comment: outer, mem: null, exclusive: true}
    hardware: {cpu: {architecture: x86_64, options: {qos: middle, comment: middle, mem: 0}}}
    queues: {main: {hardware: [cpu], options: {comment: inner, qos: null, requeue: null}}}
    """
    made = options(site(changes), run())
    assert (made["partition"], made["comment"], made["mem"]) == ("outer", "inner", "0")
    assert made["exclusive"] is None
    assert "qos" not in made
    assert "requeue" not in made


def test_values_speak_of_the_run() -> None:
    fields = "{nodes} {ranks} {ranks_per_node} {cpus} {gpus} {gpus_total} {memory} {minutes}"
    made = options(site(f"options: {{comment: '{fields}', x: '{{{{cpus}}}}'}}"), run(gpus=1))
    assert made["comment"] == "2 8 4 8 4 8 4096 2"
    assert made["x"] == "{cpus}"


def test_what_speaks_of_gpus_is_left_out_without_them() -> None:
    changes = """
    options: {gres: "gpu:{gpus},tmpfs:1G", gpus: "{gpus_total}", constraint: gpu}
    hardware: {cpu: {architecture: x86_64, gpus: 4}}
    queues: {main: {hardware: [cpu]}}
    """
    with_gpus, without = (options(site(changes), run(gpus=gpus)) for gpus in (1, 0))
    assert (with_gpus["gres"], with_gpus["gpus"]) == ("gpu:4,tmpfs:1G", "8")
    assert (without["gres"], without["constraint"]) == ("tmpfs:1G", "gpu")
    assert "gpus" not in without


def test_a_line_of_gpus_takes_the_outer_one_away_too() -> None:
    changes = "options: {gres: tmpfs:1G}"
    assert "gres" not in options(site(changes), run(), hardware="gpu")
    assert options(site(changes), run(), hardware="cpu")["gres"] == "tmpfs:1G"


def test_whole_cores_are_asked_for_where_slurm_counts_threads() -> None:
    hardware = "hardware: {cpu: {architecture: x86_64, cores: 8, threads_per_core: 2}}"
    facts = site(f"{hardware}\nqueues: {{main: {{hardware: [cpu], options: {{x: '{{cpus}}'}}}}}}")
    made = options(facts, run())
    assert (made["cpus-per-task"], made["x"]) == ("16", "16")


def test_what_a_site_forbids_is_not_asked_for() -> None:
    made = options(site("unsupported_options: {mem: whole nodes, open-mode: unknown there}"), run())
    assert "mem" not in made
    assert "open-mode" not in made


def test_an_account_is_of_the_hardware_or_of_the_site() -> None:
    hardware = """
    hardware:
      cpu: {architecture: x86_64, account: mine-cpu}
      gpu: {architecture: x86_64, gpus: 4}
    account_required: true
    """
    with_both = site(f"{hardware}\n    account: mine")
    assert options(with_both, run())["account"] == "mine-cpu"
    assert options(with_both, run(gpus=1))["account"] == "mine"
    assert options(site(hardware), run())["account"] == "mine-cpu"
    assert refusal(site(hardware), hardware="gpu") == (
        "account: this site requires one; write the name of your project here, or below hardware.gpu"
    )
    assert "account" not in options(site(), run())


def test_all_that_only_the_user_knows_is_asked_for_at_once() -> None:
    problem = refusal(site("{account_required: true, interface: null}"))
    assert problem.startswith("account: this site requires one; ")
    assert "; interface: unknown; write the network interface" in problem


def test_how_to_find_the_interface_is_said_with_what_the_site_asks_for() -> None:
    changes = """
    account_required: true
    interface: null
    hardware: {gpu: {architecture: x86_64, gpus: 4, options: {gres: "gpu:{gpus}"}}}
    queues: {main: {hardware: [gpu], options: {partition: accel, qos: test}}}
    """
    problem = refusal(site(changes))
    look = "`srun --account=PROJECT --partition=accel --qos=test --nodes=2 --time=5 ip -o addr`"
    assert look in problem
    with pytest.raises(ArgosyError, match=r"srun --account=mine --partition=accel .*--gres=gpu:4 "):
        options(site(f"{changes}\n    account: mine"), run(gpus=1))


def test_a_loopback_joins_no_nodes() -> None:
    facts = site("interface: lo")
    assert "interface: lo is local to each node and reaches no other" in refusal(facts)
    assert options(facts, run().model_copy(update={"nodes": 1}))["nodes"] == "1"


def test_folders_that_nodes_do_not_have_are_refused() -> None:
    facts = site("absent_folders: {/home: move the project to /work}")
    assert refusal(facts, Path("/home/me/results")) == (
        "absent_folders: compute nodes have no /home: move the project to /work"
    )
    assert options(facts, run(), Path("/homes/me"))


@pytest.mark.parametrize("name", ["a\nreboot", "a\x07b", "a\\b"])
def test_folders_that_cannot_stand_in_a_script_are_refused(name: str) -> None:
    assert "move the project" in refusal(site(), Path("/project") / name)


def test_a_percent_sign_in_the_folder_is_none_of_slurms() -> None:
    made = options(site(), run(), Path("/100%j"))
    assert made["chdir"] == "/100%j"
    assert made["output"] == "/100%%j/logs/scheduler-%j.log"


def test_directives_are_quoted() -> None:
    assert directive("constraint", "a&b") == "#SBATCH --constraint='a&b'"
    assert directive("exclusive", None) == "#SBATCH --exclusive"


def test_two_queues_of_a_partition_have_the_options_of_a_pair() -> None:
    facts = site(
        """
        queues:
          main-cpu: {hardware: [cpu], options: {partition: main}}
          main-gpu: {hardware: [gpu], options: {partition: main, qos: gpu}}
        """
    )
    without, with_gpus = options(facts, run()), options(facts, run(gpus=1))
    assert (without["partition"], with_gpus["partition"]) == ("main", "main")
    assert "qos" not in without and with_gpus["qos"] == "gpu"


ASKED = {"nodes": "2", "cpus-per-task": "4", "mem": "8000M"}
GIVEN = {"SLURM_JOB_NUM_NODES": "2", "SLURM_CPUS_ON_NODE": "4", "SLURM_MEM_PER_NODE": "8000"}
GPUS = {"gres": "gpu:a100:2,tmpfs:1T"}
BY_CPU = {"SLURM_MEM_PER_NODE": ""}


def short(asked: dict[str, str | None], has: dict[str, str]) -> list[str]:
    """The keys of what is less than asked for."""
    return [key for key, _ in given.shortfalls({**ASKED, **asked}, {**GIVEN, **has})]


@pytest.mark.parametrize(
    ("asked", "has"),
    [
        ({}, {}),
        # A larger job that several runs share, or whole nodes.
        ({}, {"SLURM_JOB_NUM_NODES": "4", "SLURM_CPUS_ON_NODE": "64", "SLURM_MEM_PER_NODE": "0"}),
        ({"mem": "0"}, {"SLURM_MEM_PER_NODE": "100"}),
        # Slurm divides memory among CPUs, and rounds.
        ({"mem": "8003M"}, {**BY_CPU, "SLURM_MEM_PER_CPU": "2000"}),
        ({"mem": "8003M"}, {**BY_CPU, "SLURM_MEM_PER_CPU": "500", "SLURM_CPUS_ON_NODE": "16"}),
        ({"mem": "", "mem-per-cpu": "2000"}, {**BY_CPU, "SLURM_MEM_PER_CPU": "2000"}),
        ({"mem": "7G"}, {}),
        (GPUS, {"SLURM_GPUS_ON_NODE": "2"}),
        # An older Slurm counts none.
        (GPUS, {"SLURM_JOB_GPUS": "0,1"}),
        ({"gpus": "8"}, {}),
        # Other variables, or none, prove nothing.
        ({"nodes": "1-2", "cpus-per-task": None}, {"SLURM_CPUS_ON_NODE": "many"}),
    ],
)
def test_as_much_as_was_asked_for(asked: dict[str, str | None], has: dict[str, str]) -> None:
    assert short(asked, has) == []


@pytest.mark.parametrize(
    ("asked", "has", "key"),
    [
        ({}, {"SLURM_JOB_NUM_NODES": "1"}, "scale.nodes"),
        ({}, {"SLURM_CPUS_ON_NODE": "2"}, "resources.cpus_per_rank"),
        ({}, {"SLURM_MEM_PER_NODE": "7000"}, "resources.memory_per_rank"),
        ({}, {**BY_CPU, "SLURM_MEM_PER_CPU": "1000"}, "resources.memory_per_rank"),
        (
            {**GPUS, "mem": "", "mem-per-gpu": "4G"},
            {**BY_CPU, "SLURM_MEM_PER_GPU": "2048", "SLURM_GPUS_ON_NODE": "2"},
            "resources.memory_per_rank",
        ),
        (GPUS, {"SLURM_GPUS_ON_NODE": "1"}, "resources.gpus_per_rank"),
        (GPUS, {}, "resources.gpus_per_rank"),
        ({"gpus-per-node": "a100:4"}, {"SLURM_GPUS_ON_NODE": "2"}, "resources.gpus_per_rank"),
    ],
)
def test_less_than_was_asked_for(
    asked: dict[str, str | None], has: dict[str, str], key: str
) -> None:
    assert short(asked, has) == [key]


@pytest.mark.parametrize(
    ("made", "key"),
    [
        ({"sweep": {"of": "digits", "values": {}}}, "digits"),
        ({"variant": {"of": "digits", "data": "warm"}}, "digits"),
        ({"native_of": "digits"}, "digits"),
        ({}, "digits-lr1"),
        ({"sweep": 3}, "digits-lr1"),
        (None, "digits-lr1"),
    ],
)
def test_a_key_is_of_the_experiment_in_the_file(tmp_path: Path, made: object, key: str) -> None:
    folder = tmp_path / "results/bed/digits-lr1/nodes2"
    folder.mkdir(parents=True)
    assert given.asked_as(folder) == "digits-lr1"
    (folder / "provenance.json").write_text(json.dumps({"experiment": made}))
    assert given.asked_as(folder) == key


def test_the_program_names_all_that_is_missing_in_one_line(tmp_path: Path) -> None:
    script = tmp_path / "results/bed/digits/nodes2/job.sbatch"
    script.parent.mkdir(parents=True)
    script.write_text(
        "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --mem=8G\n#SBATCH --partition='a,b'\n"
    )
    has = {"SLURM_JOB_NUM_NODES": "1", "SLURM_MEM_PER_NODE": "512", "SLURM_JOB_PARTITION": "c"}
    command = [sys.executable, "-E", "-S", given.__file__, script]
    said = subprocess.run(
        command, env={**os.environ, **has}, capture_output=True, text=True, check=False
    )
    assert (said.returncode, said.stdout) == (2, "")
    assert said.stderr == (
        "argosy: config.yaml: experiments.digits.scale.nodes: the job requested 2 nodes and Slurm "
        "allocated 1: request no more than the site allows; config.yaml: experiments.digits.resources."
        "memory_per_rank: the job requested 8192 MiB of memory of each node and Slurm allocated 512: "
        "request no more than the site allows; slurm/bed/site.yaml: the job requested the partition a,b "
        "and Slurm assigned c, whose nodes may differ\n"
    )
    has = {"SLURM_JOB_NUM_NODES": "2", "SLURM_JOB_PARTITION": "b"}
    assert subprocess.run(command, env={**os.environ, **has}, check=False).returncode == 0


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
