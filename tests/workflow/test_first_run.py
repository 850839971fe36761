"""`argosy run` needs no file written by hand; files of `argosy init --from` run on this machine."""

import os
import signal
import time
from pathlib import Path

import pytest
import yaml
from workspace import BIN, Workspace

from argosy_images.store.store import Store

PROGRAM = """
import os, sys, time
assert "fail" not in sys.argv, "told to fail"
time.sleep(60 if "long" in sys.argv else 2 * ("--lr" in sys.argv))
for step in range(12):
    print(f"{100 + step % 3} samples/s", flush=True)
print("arguments", sys.argv[1:], os.environ.get("WORLD_SIZE"), os.environ.get("ACCELERATE_MIXED_PRECISION"))
"""
SCRIPTS = Path(__file__).parents[1] / "unit/schedulers/user_scripts"
PATTERN = r"(\d+) samples/s"
RUN = "nodes1-ranks1-repeat1"


@pytest.fixture
def home(project_store: Store, tmp_path: Path) -> Workspace:
    """A folder with a program, without files of Argosy."""
    folder = tmp_path / "a repository"
    (folder / "nlp").mkdir(parents=True)
    for name in ("train.py", "vae.py", "nlp/ddp_train.py"):
        (folder / name).write_text(PROGRAM)
    (folder / "activateEnvironment.sh").touch()
    return Workspace(folder, {**os.environ, "ARGOSY_STORE": str(project_store.path)})


def run(home: Workspace, *words: str) -> tuple[int, str]:
    return home.run(BIN / "argosy", "run", "--native", "--throughput", PATTERN, *words)


def output(home: Workspace, experiment: str, run_id: str) -> str:
    ranks = sorted(home.run_dir(experiment, run_id).glob("logs/*/ranks/*"))
    return "".join(path.read_text() for path in ranks)


def test_a_first_run_needs_no_file_and_a_second_keeps_the_first(home: Workspace) -> None:
    status, said = run(home, "--ranks-per-node", "2", "--", "python", "train.py", "--lr", "1e-3")
    # The run has completed, but each rank did the whole work.
    assert status == 1 and "but has no throughput: its 2 ranks never met" in said, said
    assert "wrote config/config.yaml" in said
    assert f"Report: {home.path}/results/local/report.html" in said
    assert "['--lr', '1e-3'] 2" in output(home, "train", "nodes1-ranks2-repeat1")
    config = home.path / "config/config.yaml"
    config.write_text(f"# Mine.\n{config.read_text()}")
    before = config.read_text()
    # The same experiment exists already.
    status, said = run(home, "--ranks-per-node", "2", "--", "python", "train.py", "--lr", "1e-3")
    assert (status, config.read_text()) == (1, before) and "added" not in said
    # A launcher's command line is converted to keys.
    launched = ("torchrun", "--nproc-per-node", "1", "train.py", "launched")
    status, said = run(home, "--name", "launched", "--", *launched)
    assert status == 0 and "['launched'] 1" in output(home, "launched", RUN), said
    before = config.read_text()
    # Another command has its own name and status.
    status, said = run(home, "--", "python", "train.py", "fail")
    assert status == 1 and "added experiments.train-2" in said and "told to fail" in said
    assert config.read_text().startswith(before)
    assert not (home.path / "results/local/train-2" / RUN / "result.json").exists()
    # An invalid experiment is not written.
    before = config.read_text()
    for words in (
        ("--site", "nowhere", "--", "python", "train.py"),
        ("--image", "torch-cpu", "--", "python", "train.py"),
        ("--nodes", "0", "--", "python", "train.py"),
        ("--name", "a b", "--", "python", "train.py"),
        ("--", "sbatch", "python", "train.py"),
        ("--", "python", "train.py", "$SCRATCH"),
        ("--", "python", "trian.py"),
        (),
    ):
        status, said = run(home, *words)
        assert status == 2 and "error: " in said and "Traceback" not in said, (words, said)
    status, said = home.run(BIN / "argosy", "run", "--image", "nosuch", "--", "python", "train.py")
    assert status == 2 and "nosuch/Containerfile: there is no Containerfile" in said
    status, said = home.run(BIN / "argosy", "run", "--", "python", "nlp/ddp_trian.py")
    assert status == 2 and "nlp/ddp_trian.py: no such file" in said and "ddp_train.py?" in said
    assert config.read_text() == before
    # One quoted text is split as by a shell.
    status, said = run(home, "--ranks-per-node", "2", "--", "python train.py --lr 1e-3")
    assert (status, config.read_text()) == (1, before), said


def test_ctrl_c_ends_the_run_and_its_snakemake(home: Workspace) -> None:
    words = ("run", "--native", "--name", "123", "--", "python", "train.py", "long")
    process = home.start(BIN / "argosy", *words, start_new_session=True)
    log = home.path / "results/local/123" / RUN / "attempts"
    deadline = time.monotonic() + 120
    while not log.is_dir() and time.monotonic() < deadline:
        time.sleep(0.2)
    os.killpg(process.pid, signal.SIGINT)
    said, _ = process.communicate(timeout=60)
    assert process.returncode not in (0, None) and "Traceback" not in said, said
    _, said = home.run(BIN / "argosy", "status")
    assert "running" not in said


@pytest.mark.parametrize(
    ("script", "changes", "runs"),
    [
        (
            "accelerate",
            {"--nodes=4 ": "--nodes=2 ", "#SBATCH --gres": "##", "=160": "=1", "01:59:00": "2:00"},
            {"ddp_train": ("nodes2-ranks1-repeat1", "--output_dir', 'nlp/output'] 2 bf16")},
        ),
        (
            "preempt",
            {" --gpus 1": "", "-c 32 -t 24:00:00": "-c 1 -t 5"},
            {"vae": (RUN, "['--checkpoint', '/scratch/me/vae.pt', '--epochs', '90'] 1 None")},
        ),
    ],
)
def test_a_batch_script_becomes_a_study_that_runs(
    home: Workspace, script: str, changes: dict[str, str], runs: dict[str, tuple[str, str]]
) -> None:
    text = (SCRIPTS / f"{script}.sbatch").read_text()
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    (home.path / "job.sbatch").write_text(text)
    there = Workspace(home.path, {**home.environment, "SCRATCH": "/scratch/me"})
    status, said = there.run(BIN / "argosy", "init", "--from", "job.sbatch", "--site", "here")
    assert status == 0 and "Not taken:" in said, said
    config, site = (there.path / name for name in ("config/config.yaml", "slurm/here/site.yaml"))
    config.write_text(config.read_text().replace("# throughput:", "throughput:"))
    site.write_text(f"interface: eth0\n{site.read_text()}")
    status, said = there.snakemake("--profile", "slurm/here", "-n", "--quiet")
    assert status == 0, said
    status, said = there.snakemake("--quiet", "host", "progress", "reason")
    assert status == 0, said
    for name, (run_id, arguments) in runs.items():
        assert arguments in output(there, name, run_id)
    nodes = yaml.safe_load(config.read_text())["experiments"][next(iter(runs))]["scale"]["nodes"]
    assert len([*there.path.glob("results/local/*/*/result.json")]) == 3 * len(nodes)
