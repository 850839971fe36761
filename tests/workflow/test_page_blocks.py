"""Every code block of every page is run, parsed, or compared with real output."""

import re
import shutil
import subprocess
import textwrap
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest
import yaml
from pages import pages_of
from pydantic import BaseModel
from reports import reported
from study_files import completed
from workspace import BIN, Workspace

from argosy.jobs.launchers import read_launcher
from argosy.site.costs import Costs, read_costs
from argosy.site.data import read_data
from argosy.site.models import Site, read_site
from argosy.study.config import Source, parse_config
from argosy.study.launcher import Launcher
from argosy.study.models import Config, Experiment

pytestmark = pytest.mark.container
PROJECT = Path(__file__).parents[2]
BLOCK = re.compile(r"^( *)```([^\n]*)\n(.*?)^ *```$", re.M | re.S)
ELSEWHERE = {
    ("README.md", "sh"): "workflow/test_demo.py",
    ("docs/tutorial.md", "sh python text yaml"): "factories/wheels.py",
    ("docs/as-a-module.md", "python sh"): "workflow/test_snakemake_options.py",
}
"""Pages and kinds of blocks, and the tests that run them all."""
KINDS = {"sh", "shell", "console", "yaml", "jinja", "python", "text"}
NOT_RUN = {
    r"pip install|python3 -m venv": "changes an environment (workflow/test_wheel.py)",
    r"argosy (site probe|doctor)|^sbatch|--profile slurm/mycluster": "needs Slurm (slurm/test_probe.py)",
    r"rsync|ssh |unbundle|zipfile|cd study|make setup": "needs a machine (workflow/test_bundled_study.py)",
    r"argosy image (build downs|pack|export|import)": "takes minutes (containers/test_interchange.py)",
    r"argosy image (prune|share)": "changes the store of all tests (images/test_prune.py)",
    r"export UDOCKER|udocker ": "changes the store of all tests (containers/test_udocker_repository.py)",
    r"downscaling/generate.py": "takes minutes (workflow/test_published_studies.py)",
    r"pytest tests/golden": "changes the checkout (golden/test_golden.py)",
    r"image native downscaling": "takes minutes (workflow/test_published_studies.py)",
    r"argosy_images.run": "is a part of batch scripts (workflow/test_demo.py)",
}
"""Commands that cannot run literally: the reason, and a test of the same command."""
SHORTER = {"snakemake --configfile": "-n", "argosy bundle": "--no-images"}
"""Commands that take minutes, and the option with which they run here."""
EDITED = {
    "nano config/config.yaml": "sed -i 's/# throughput:/throughput:/' config/config.yaml",
    "nano slurm/kestrel/site.yaml": "sed -i '1i interface: ib0' slurm/kestrel/site.yaml",
}
"""Edits that pages ask for, as commands."""
PROBED = re.compile("(?<=^argosy init )(--command .+) --site [a-z]+ *$")
"""A command for a login node; it runs here without its probe (slurm/test_tutorial_on_a_cluster.py)."""
IN_REPOSITORY = re.compile("argosy (init|run) ")
"""Commands for users' own repositories; blocks with one run in such a repository."""
FRAGMENT = {"image": "torch-cpu", "command": "python3 train.py", "scale": {"nodes": [1]}}
SITE = yaml.safe_load("""
{scheduler: slurm, interface: ib0, queues: {all: {hardware: [cpu]}},
hardware: {cpu: &machine {architecture: x86_64, cores: 8, memory: 16G}, gpu: *machine}}
""")
RUN = "nodes1-ranks1-repeat1"


@dataclass(frozen=True)
class Block:
    """A block of a page between fences."""

    page: str
    line: int
    kind: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def all_blocks() -> list[Block]:
    """Return the blocks of all pages, but those of which Sphinx makes a part of the site."""
    found = []
    for path in pages_of(PROJECT):
        page, text = str(path.relative_to(PROJECT)), path.read_text()
        assert text.count("```") == 2 * len(BLOCK.findall(text)), page
        for each in BLOCK.finditer(text):
            line = text.count("\n", 0, each.start()) + 1
            found.append(Block(page, line, each[2], textwrap.dedent(each[3])))
    return [each for each in found if not each.kind.startswith("{")]


def blocks(*kinds: str) -> list[Block]:
    """Return the blocks of these kinds that no other test runs."""
    named = {(page, kind) for page, kinds in ELSEWHERE for kind in kinds.split()}
    return [b for b in all_blocks() if b.kind in kinds and (b.page, b.kind) not in named]


def block(page: str, start: str = "") -> str:
    """Return a page's block by its beginning."""
    [found] = [b.text for b in all_blocks() if b.page == page and b.text.startswith(start)]
    return found


def each_of(*kinds: str) -> pytest.MarkDecorator:
    """One test for each block of these kinds."""
    return pytest.mark.parametrize("block_of_page", blocks(*kinds), ids=str)


def test_every_block_has_a_test() -> None:
    assert {each.kind for each in all_blocks()} <= KINDS
    tests = PROJECT / "tests"
    for (page, _), test in ELSEWHERE.items():
        assert page in (tests / test).read_text()
    for reason in NOT_RUN.values():
        assert (tests / reason.partition("(")[2].rstrip(")")).is_file(), reason


# -- files that users write


@each_of("yaml")
def test_yaml_is_what_argosy_reads(block_of_page: Block, tmp_path: Path) -> None:
    """Lines that are commented out are read as well."""
    whole = re.sub("^# (?=[a-z_]+: )", "", block_of_page.text, flags=re.M)
    for text in {block_of_page.text, whole}:
        read(yaml.safe_load(text), tmp_path)


def read(content: dict[str, Any], folder: Path) -> None:
    """Read a file, or a part of one that is completed, by its keys."""
    if keys(Experiment) >= content.keys():
        content = {"experiments": {"digits": {**FRAGMENT, **content}}}
    elif all(isinstance(each, dict) and "command" in each for each in content.values()):
        content = {"experiments": content}
    if keys(Config) >= content.keys():
        content = {"experiments": {"digits": FRAGMENT}, **content}
        assert parse_config(content, [Source("config.yaml", content)]).measured
    elif keys(Site) >= content.keys():
        (folder / "site.yaml").write_text(yaml.safe_dump({**SITE, **content}))
        assert read_site(folder)
    else:
        readers = [(Costs, read_costs), (Launcher, read_launcher)]
        fitting = (reader for model, reader in readers if keys(model) >= content.keys())
        reader: Any = next(fitting, read_data)
        (folder / "other.yaml").write_text(yaml.safe_dump(content))
        assert reader(folder / "other.yaml")


def keys(model: type[BaseModel]) -> set[str]:
    return {field.alias or name for name, field in model.model_fields.items()}


# -- a project with results

PROGRAM = """
import argosy_layers, sys, torch, horovod.torch as hvd
hvd.init()
model, loss_of = torch.nn.Linear(4, 2), torch.nn.functional.mse_loss
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
loader, epochs, accuracy, identical = [(torch.ones(8, 4), torch.ones(8, 2))] * 12, 2, 0.97, True
state = model.state_dict()
def on_any_rank(flag):
    return bool(hvd.allreduce(torch.tensor(float(flag)), op=hvd.Sum))
"""
STEPS = """
layers = argosy_layers.LayerTimes(steps, model.named_parameters())
for images, labels in loader:
    with steps.step(samples=8) as step:
        loss = loss_of(model(images), labels)
"""
PRINTING = "for step in range(20):\n    print(f'{100 + step % 2} samples/s', flush=True)\n"
MEETING = """
try:
    import horovod.torch as hvd
    hvd.init()
except ImportError:
    pass  # without a container
"""
CONFIG = """
experiments:
  digits:
    {runtime: native, command: python3 /workloads/print.py, launcher: plain,
    throughput: "([0-9]+) samples/s", scale: {nodes: [1], repeats: 1}}
  page:
    {image: torch-cpu, command: python3 /workloads/page.py, checkpoints: {warning: 30s},
    scale: {nodes: [1], repeats: 1}}
"""
JOB = """#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=1 --time=10:00 --account=grant
srun python train.py --lr 1e-3
"""


@pytest.fixture(scope="module")
def ready(make_workspace: Callable[[str], Workspace]) -> Workspace:
    """A project with results of its own sites `local` and `kestrel`, and with planted ones of others."""
    made = make_workspace("pages")
    environment = {**made.environment, "PATH": f"{BIN}:{made.environment['PATH']}"}
    there = Workspace(made.path, environment)
    page = "docs/writing-a-training-program.md"
    measured, timed, saved = (each.text for each in blocks("python") if each.page == page)
    timed = textwrap.indent(timed.partition("...\n")[2], " " * 8)
    workloads = there.path / "containers/workloads"
    (workloads / "page.py").write_text("\n".join((PROGRAM, measured, STEPS + timed, saved)))
    (workloads / "print.py").write_text(PRINTING)
    (there.path / "config/config.yaml").write_text(CONFIG)
    shell(there, block("docs/porting.md", "cp -r slurm/mycluster"))
    shutil.copy(there.path / "slurm/local/site.yaml", there.path / "slurm/kestrel")
    (there.path / "slurm/kestrel/job.sbatch.j2").write_text(block("docs/porting.md", "{% extends"))
    shell(there, "snakemake --quiet all && snakemake --quiet all --profile slurm/kestrel")
    for site in ("mycluster", "leonardo"):
        results = there.path / "results" / site
        for nodes, repeat in ((n, r) for n in (1, 2, 4, 8) for r in (1, 2, 3)):
            accuracy = {"test_accuracy": 0.97 + repeat / 100}
            seconds = (0.1 + 0.01 * nodes) * (1 + repeat / 100)
            completed(results, seconds, accuracy, nodes=nodes, repeat=repeat, scaling="weak")
        reported(results)
    return there


@pytest.fixture
def repository(ready: Workspace, tmp_path: Path) -> Workspace:
    """A user's own repository, with a program and a batch script."""
    (tmp_path / "train.py").write_text(MEETING + PRINTING)
    (tmp_path / "job.sbatch").write_text(JOB)
    return Workspace(tmp_path, ready.environment)


def shell(there: Workspace, text: str) -> str:
    """Run a block of commands; its output."""
    done = subprocess.run(
        ("bash", "-ec", text),
        cwd=there.path,
        env=there.environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, f"{text}\n{done.stdout}{done.stderr}"
    return done.stdout


def result(there: Workspace, site: str, experiment: str) -> Path:
    return there.path / "results" / site / experiment / RUN


@each_of("sh", "shell")
def test_commands_run(block_of_page: Block, ready: Workspace, repository: Workspace) -> None:
    there = repository if IN_REPOSITORY.search(block_of_page.text) else ready
    if "argosy run --nodes" in block_of_page.text:
        shutil.copytree(ready.path / "slurm/kestrel", there.path / "slurm/kestrel")
    for line in block_of_page.text.splitlines():
        command = line.partition("  #")[0].replace("/path/to/your/repository", str(there.path))
        command = EDITED.get(command.strip(), PROBED.sub(r"\1", command))
        option = next((SHORTER[each] for each in SHORTER if each in command), "")
        if not any(re.search(pattern, command) for pattern in NOT_RUN):
            shell(there, f"{command} {option}")


@each_of("console")
def test_sessions_print_their_output(
    block_of_page: Block, ready: Workspace, repository: Workspace
) -> None:
    shutil.copytree(ready.path / "results/local", repository.path / "results/local")
    command, _, printed = block_of_page.text.removeprefix("$ ").partition("\n")
    assert repository.run("bash", "-c", command)[1] == printed


def test_programs_and_templates_do_as_their_pages_say(ready: Workspace) -> None:
    folder = result(ready, "local", "page")
    [records] = folder.glob("records/*/rank-0.jsonl")
    text = records.read_text()
    assert '"weights_identical"' in text and '"kind": "layers"' in text
    assert len([*folder.glob("checkpoints/*/step-*/state.pt")]) == 1

    lines = block("docs/porting.md", "{% extends").splitlines()
    assert f"\n{lines[3]}\n" in (result(ready, "kestrel", "digits") / "job.sbatch").read_text()


@each_of("python")
def test_python_runs(
    block_of_page: Block, ready: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    if block_of_page.page != "docs/writing-a-training-program.md":
        monkeypatch.chdir(ready.path)
        monkeypatch.setenv("ARGOSY_STORE", ready.environment["ARGOSY_STORE"])
        exec(block_of_page.text, {"project": ready.path, "log": ready.path / "build.log"})


def masked(text: str) -> set[str]:
    """Return the lines of a table with their numbers masked."""
    return {
        " ".join(re.sub(r"[\d.,]+", "N", line).split())
        for line in text.replace("─", "").splitlines()
    }


def unnamed(files: Iterable[Path], tree: str) -> set[str]:
    """Return the names of files that a tree does not show."""
    patterns = re.split(r"[\s/,;:]+", re.sub("<[^>]+>", "*", tree))
    return {f.name for f in files if not any(fnmatch(f.name, each) for each in patterns)}


@each_of("text")
def test_text_is_what_it_shows(block_of_page: Block, ready: Workspace) -> None:
    text = block_of_page.text
    if text.startswith("nodes  ranks"):
        assert masked(text) <= masked(shell(ready, "argosy summary results/mycluster"))
    elif text.startswith("results/<site>/\n"):
        shell(ready, "argosy figures results/local")
        assert unnamed(ready.path.glob("results/local/[a-z]*"), text) == set()
    elif text.startswith("results/<site>/<exp"):
        files = result(ready, "local", "page").rglob("*")
        own = (path for path in files if not {"output", "checkpoints"} & {*path.parts[:-1]})
        assert unnamed(own, text) == set()
    else:
        # The bytes of a record are checked by test_step_format.py; the other is a drawing.
        assert text.startswith("  0  89 53") or block_of_page.page == "docs/architecture.md"
