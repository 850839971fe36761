"""Vista's own way of starting a node's command: which number a node gets, whatever ibrun hands on."""

import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from site_cases import cases
from site_scripts import script_of

import argosy
from argosy_common.errors import ArgosyError

RUNTIME = Path(argosy.__file__).parent / "runtime"
[VISTA] = [case for case in cases() if (case.site, case.name) == ("vista", "many-nodes")]

IBRUN = """#!/bin/bash
# One task on each node; all of them inherit the first node's SLURM_NODEID.
for number in 0 1 2; do
    if [ -n "$WITH_RANKS" ]; then export PMI_RANK=$number; fi
    FAKE_HOST=c30$number bash -c 'exec "$@"' task "$@"
done
"""


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    folder = tmp_path / "bin"
    folder.mkdir()
    write(folder / "ibrun", IBRUN)
    write(
        folder / "scontrol",
        "#!/bin/bash\nprintf '%s\\n' Welcome to vista argosy-begin $NODES argosy-end Goodbye\n",
    )
    write(folder / "hostname", "#!/bin/bash\necho $FAKE_HOST\n")
    return folder


def write(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


@pytest.fixture
def script(project: Path) -> str:
    return script_of(project / "slurm", VISTA)


def numbers(
    text: str, programs: Path, nodes: str, with_ranks: str
) -> subprocess.CompletedProcess[str]:
    begin, end = text.index('ARGOSY_NODE_NAMES="$('), text.index('launched=("$!")')
    words = """node_command=(bash -c 'echo "$ARGOSY_NODE: $1"' node "a 'b'; \\$(c)")"""
    script = f"set -euo pipefail\nruntime={RUNTIME}\n{words}\n{text[begin:end]}\nwait $!\n"
    variables = {
        "PATH": f"{programs}:{os.environ['PATH']}",
        "SLURM_JOB_NODELIST": "c[300-302]",
        "SLURM_NODEID": "0",
        "NODES": nodes,
        "WITH_RANKS": with_ranks,
    }
    command = ["bash", "-c", script]
    return subprocess.run(command, env=variables, capture_output=True, text=True)


EACH = "0: a 'b'; $(c)\n1: a 'b'; $(c)\n2: a 'b'; $(c)\n"


def test_a_node_knows_its_place_among_the_names(script: str, programs: Path) -> None:
    assert numbers(script, programs, "c300 c301 c302", "").stdout == EACH
    assert numbers(script, programs, "c300.site c301.site c302.site", "").stdout == EACH


def test_the_rank_counts_where_the_names_do_not_help(script: str, programs: Path) -> None:
    assert numbers(script, programs, "login1 login2", "yes").stdout == EACH


def test_a_node_without_a_number_says_so(script: str, programs: Path) -> None:
    done = numbers(script, programs, "login1 login2", "")
    assert done.stdout == ""
    assert (
        "argosy: c302 is not among the job's nodes, and the launcher set no rank\n" in done.stderr
    )
    assert done.returncode == 2


def test_a_run_that_is_to_go_on_with_fewer_nodes_is_refused(project: Path) -> None:
    with pytest.raises(ArgosyError, match="its launcher starts all nodes of a job") as problem:
        script_of(project / "slurm", replace(VISTA, restarts=1, least_nodes=2))
    assert problem.value.hint == "write experiments.digits.scale.nodes: 4"
    assert "node_names" in script_of(project / "slurm", replace(VISTA, restarts=1))
