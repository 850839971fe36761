"""Every batch script, made the way a user's is; and what a shell says of it.

Those of the plain cluster are here as whole texts, one of each kind, and of all other cases and sites what
differs from these. UPDATE_GOLDEN=1 writes them anew; look at the difference before it is kept.
"""

import os
import re
import shutil
import subprocess
from difflib import unified_diff
from functools import cache
from pathlib import Path

import pytest
from site_cases import ODD_FOLDER, SITES, Case, Kept, cases
from site_scripts import script_of, write_all

from argosy_common.errors import ArgosyError

GOLDEN = Path(__file__).parent
UPDATE = os.environ.get("UPDATE_GOLDEN") == "1"
KEPT = [case for case in cases() if case.refused is None]
REFUSED = [case for case in cases() if case.refused is not None]
PLAIN, FIRST = "mycluster", "one-node"
WHOLE = (FIRST, "native", "build", "allocation")
"""Cases of the plain cluster that are here as whole texts."""


def named(case: Case) -> str:
    return f"{case.site}/{case.name}"


def golden_of(case: Case) -> Path:
    ending = "sbatch" if case.site == PLAIN and case.name in WHOLE else "diff"
    return GOLDEN / case.site / f"{case.name}.{ending}"


@cache
def plain_script(slurm_dir: Path, name: str) -> str:
    """The script of a case at the plain cluster."""
    [case] = [case for case in KEPT if (case.site, case.name) == (PLAIN, name)]
    return script_of(slurm_dir, case)


def kept_text(case: Case, text: str, slurm_dir: Path) -> str:
    """What is kept of a script: all of it, or what differs from that of the plain cluster.

    Names of the site in paths do not count, nor where in the script lines are.
    """
    text = without_description(text)
    if golden_of(case).suffix == ".sbatch":
        return text
    base = FIRST if case.site == PLAIN else {"mig": "gpu"}.get(case.name, case.name)
    named_alike = re.sub(rf"(?<=/){re.escape(case.site)}(?=[/' ]|$)", PLAIN, text, flags=re.M)
    ends = without_description(plain_script(slurm_dir, base)).splitlines(), named_alike.splitlines()
    lines = [*unified_diff(*ends, n=0, lineterm="")][2:]
    kept = ("@@" if line.startswith("@@") else line for line in lines)
    return "".join(f"{line}\n" for line in (f"{PLAIN}/{base}", *kept))


def without_description(script: str) -> str:
    """A script without the digest of its run's description, which each key of a run changes."""
    return re.sub(r'("\$ARGOSY_ATTEMPT" )[0-9a-f]{64}', r"\1DESCRIPTION", script)


@pytest.mark.parametrize("case", KEPT, ids=named)
def test_script(case: Case, tmp_path: Path, project: Path) -> None:
    text = script_of(project / "slurm", case)
    subprocess.run(["bash", "-n"], input=text, text=True, check=True)
    golden = golden_of(case)
    found = kept_text(case, text, project / "slurm")
    if UPDATE:
        assert os.environ.get("CI") != "true", "in CI the texts are compared"
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(found, encoding="utf-8")
    assert found == golden.read_text(encoding="utf-8")
    if case.name == "odd-path" and case.site != "local":
        assert_path_stays_a_value(case.site, text, tmp_path)


def assert_path_stays_a_value(site: str, text: str, folder: Path) -> None:
    """The shell that reads the script assigns the odd path, and runs nothing of it."""
    assigned = next(line for line in text.splitlines() if line.startswith("run_dir="))
    command = ["bash", "-c", f'{assigned}\nprintf %s "$run_dir"']
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    assert done.stdout == f"/project/{ODD_FOLDER}/results/{site}/digits/nodes1-ranks1-repeat1"
    assert list(folder.iterdir()) == []


def test_an_image_in_memory_is_asked_for(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    changed = Kept(written={"images": {"stage": "memory"}})
    monkeypatch.setitem(SITES, "testbed", changed)
    text = script_of(project / "slurm", Case("testbed", "memory"))
    assert "\n    --stage memory\n    --bind " in text
    subprocess.run(["bash", "-n"], input=text, text=True, check=True)


@pytest.mark.parametrize("case", REFUSED, ids=named)
def test_what_a_site_does_not_have_is_refused(case: Case, project: Path) -> None:
    with pytest.raises(ArgosyError) as problem:
        script_of(project / "slurm", case)
    assert str(problem.value).startswith(f"slurm/{case.site}/site.yaml: ")
    assert case.refused is not None
    assert case.refused in str(problem.value)
    assert "\n" not in str(problem.value)
    assert not golden_of(case).exists()


def test_every_site_and_every_text_belongs_to_a_case(project: Path) -> None:
    folders = {path.parent.name for path in (project / "slurm").glob("*/site.yaml")}
    assert {*SITES, "local"} <= folders
    texts = {path for path in GOLDEN.glob("*/*") if path.suffix in (".sbatch", ".diff")}
    assert texts == {golden_of(case) for case in KEPT}


@pytest.mark.thorough
@pytest.mark.slow
def test_shellcheck_finds_nothing(project: Path, tmp_path: Path) -> None:
    if not shutil.which("shellcheck"):
        pytest.skip("the program shellcheck is not installed (Debian package shellcheck)")
    scripts = write_all(project / "slurm", tmp_path)
    # Single quotes are meant where a text is for the shells of the nodes.
    command = ["shellcheck", "--exclude=SC2016", *map(str, scripts)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stdout == ""
    assert done.returncode == 0
