"""Every batch script, made the way a user's is; and what a shell says of it.

Those of the plain cluster are here as whole texts, one of each kind. A file of each site has what differs
from these, each difference once, with the cases that have it. UPDATE_GOLDEN=1 writes them anew; look at the
difference before it is kept.
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


def is_whole(case: Case) -> bool:
    return case.site == PLAIN and case.name in WHOLE


@cache
def plain_script(slurm_dir: Path, name: str) -> str:
    """The script of a case at the plain cluster."""
    [case] = [case for case in KEPT if (case.site, case.name) == (PLAIN, name)]
    return script_of(slurm_dir, case)


def differences(case: Case, text: str, slurm_dir: Path) -> list[str]:
    """What differs from the script of the same case, or of the first one, at the plain cluster.

    Names of the site in paths do not count, nor where in the script lines are.
    """
    base = FIRST if case.site == PLAIN else {"mig": "gpu"}.get(case.name, case.name)
    named_alike = re.sub(rf"(?<=/){re.escape(case.site)}(?=[/' ]|$)", PLAIN, text, flags=re.M)
    ends = without_description(plain_script(slurm_dir, base)).splitlines(), named_alike.splitlines()
    lines = [*unified_diff(*ends, n=0, lineterm="")][2:]
    kept = ("@@" if line.startswith("@@") else f"{line}\n" for line in lines)
    return "".join(kept).split("@@")[1:]


def without_description(script: str) -> str:
    """A script without the digest of its run's description, which each key of a run changes."""
    return re.sub(r'("\$ARGOSY_ATTEMPT" )[0-9a-f]{64}', r"\1DESCRIPTION", script)


@pytest.mark.parametrize("site", sorted({case.site for case in KEPT}))
def test_scripts(site: str, tmp_path: Path, project: Path) -> None:
    own = [case for case in KEPT if case.site == site]
    found: dict[str, list[str]] = {}
    for case in own:
        text = script_of(project / "slurm", case)
        subprocess.run(["bash", "-n"], input=text, text=True, check=True)
        if case.name == "odd-path" and site != "local":
            assert_path_stays_a_value(site, text, tmp_path)
        text = without_description(text)
        if is_whole(case):
            compare(GOLDEN / site / f"{case.name}.sbatch", text)
        else:
            for lines in differences(case, text, project / "slurm"):
                found.setdefault(lines, []).append(case.name)
    names = " ".join(case.name for case in own if not is_whole(case))
    parts = (f"@@ {' '.join(cases)}\n{lines}" for lines, cases in found.items())
    compare(GOLDEN / f"{site}.diff", f"{PLAIN} beside {site}: {names}\n{''.join(parts)}")


def compare(golden: Path, found: str) -> None:
    if UPDATE:
        assert os.environ.get("CI") != "true", "in CI the texts are compared"
        golden.write_text(found, encoding="utf-8")
    assert found == golden.read_text(encoding="utf-8")


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


@pytest.mark.parametrize(
    ("mpi", "as_user"),
    [("pmix_v4", True), ("pspmix", True), ("pmi2", False), ("cray_shasta", False)],
)
def test_ranks_of_pmix_are_the_users(
    project: Path, monkeypatch: pytest.MonkeyPatch, mpi: str, as_user: bool
) -> None:
    monkeypatch.setitem(SITES, "testbed", Kept(written={"mpi": mpi}))
    text = script_of(project / "slurm", Case("testbed", "mpi", launcher="srun"))
    assert f"\nmpi={mpi}\n" in text
    assert ("\n    --as-user\n" in text) == as_user
    subprocess.run(["bash", "-n"], input=text, text=True, check=True)


@pytest.mark.parametrize("case", REFUSED, ids=named)
def test_what_a_site_does_not_have_is_refused(case: Case, project: Path) -> None:
    with pytest.raises(ArgosyError) as problem:
        script_of(project / "slurm", case)
    assert str(problem.value).startswith(f"slurm/{case.site}/site.yaml: ")
    assert case.refused is not None
    assert case.refused in str(problem.value)
    assert "\n" not in str(problem.value)


def test_every_site_and_every_text_belongs_to_a_case(project: Path) -> None:
    folders = {path.parent.name for path in (project / "slurm").glob("*/site.yaml")}
    assert {*SITES, "local"} <= folders
    assert {path.stem for path in GOLDEN.glob("*.diff")} == {case.site for case in KEPT}
    assert {path.stem for path in GOLDEN.glob("*/*.sbatch")} == {*WHOLE}


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
