"""Templates: a site overrides blocks, values are quoted, faults are named. tests/golden has whole texts."""

import subprocess
from pathlib import Path

import pytest

from argosy.jobs.planning import TEMPLATE
from argosy.schedulers import find_batch_system
from argosy.schedulers.script_template import ScriptTemplate, lenient
from argosy_common.errors import ArgosyError

SLURM = find_batch_system("slurm")


@pytest.fixture
def slurm(tmp_path: Path) -> Path:
    (tmp_path / "templates").mkdir()
    (tmp_path / "site").mkdir()
    return tmp_path


def write_base(slurm: Path, text: str) -> None:
    (slurm / "templates/job.sbatch.j2").write_text(text)


def write_own(slurm: Path, text: str) -> None:
    (slurm / "site/job.sbatch.j2").write_text(text)


def test_a_site_overrides_a_block_and_may_keep_what_was_there(slurm: Path) -> None:
    write_base(
        slurm, "begin\n{% block a %}\nbase a\n{% endblock %}\n{% block b %}\nb\n{% endblock %}"
    )
    write_own(
        slurm, '{% extends "job.sbatch.j2" %}\n{% block a %}\nown a\n{{ super() }}{% endblock %}\n'
    )
    assert ScriptTemplate(SLURM, slurm / "site", TEMPLATE).render({}) == "begin\nown a\nbase a\nb\n"
    assert ScriptTemplate(SLURM, slurm / "other", TEMPLATE).render({}) == "begin\nbase a\nb\n"


def test_values_are_quoted_and_options_written(slurm: Path) -> None:
    write_base(
        slurm, "{{ 'mem' | directive('a b') }}\n{{ 'x' | directive(None) }}\n{{ '$(x)' | q }}"
    )
    assert (
        ScriptTemplate(SLURM, slurm / "site", TEMPLATE).render({})
        == "#SBATCH --mem='a b'\n#SBATCH --x\n'$(x)'"
    )


def test_a_template_that_asks_for_what_there_is_not_is_named(slurm: Path) -> None:
    write_base(slurm, "{{ no_such_value }}")
    with pytest.raises(ArgosyError, match=r"job.sbatch.j2: 'no_such_value' is undefined"):
        ScriptTemplate(SLURM, slurm / "site", TEMPLATE).render({})


def test_a_template_that_is_none_is_named_with_its_line(slurm: Path) -> None:
    write_base(slurm, "one\n{% block %}")
    with pytest.raises(ArgosyError, match=r"templates/job.sbatch.j2:2: "):
        ScriptTemplate(SLURM, slurm / "site", TEMPLATE).render({})
    write_own(slurm, '{% extends "nothing.j2" %}')
    with pytest.raises(ArgosyError, match=r"site/job.sbatch.j2: .*nothing.j2"):
        ScriptTemplate(SLURM, slurm / "site", TEMPLATE).render({})


CONDA = """\
[ -n "$PROJ_LIB" ] && old=$PROJ_LIB
false
[ -n "$PROJ_DATA" ]
"""


@pytest.mark.parametrize("flags", ["eu", "u"])
def test_a_sites_own_lines_run_as_in_any_script_and_the_rest_is_strict(
    tmp_path: Path, flags: str
) -> None:
    strict = f"set -{flags}o pipefail"
    (tmp_path / "activate.sh").write_text(CONDA)
    lines = f"""
source {tmp_path}/activate.sh || true
loaded() {{ false; echo "$UNSET"; }}
loaded
false | true
export VALUE=told
module-of-nobody load x
"""
    text = f"{strict}\n{lenient(lines, strict)}\necho $VALUE ${{-//[^eu]/}}\nfalse | true || echo strict\n"
    script = tmp_path / "job.sh"
    script.write_text(text + "echo $UNSET")
    done = subprocess.run(["bash", script], capture_output=True, text=True)
    assert done.stdout.splitlines()[-2:] == [f"told {flags}", "strict"]
    told = [line for line in done.stderr.splitlines() if line.startswith("argosy: ")]
    assert told == [
        'argosy: environment of the site: "module-of-nobody load x" ended with exit code 127'
    ]
    assert "UNSET: unbound variable" in done.stderr


def test_without_lines_of_a_site_nothing_is_written() -> None:
    assert lenient("\n", "set -eu") == ""


HOSTILE = "x$(touch canary)`touch canary`;touch canary;'\"touch canary\"' && touch canary # \\"


def test_whatever_a_template_prints_is_one_word_of_the_shell(slurm: Path, tmp_path: Path) -> None:
    """Also through macros, loops, concatenations and the parent's blocks, with no filter in sight."""
    write_base(
        slurm,
        "{% macro said(value) %}printf '%s\\n' {{ value }}{% endmacro %}\n"
        "# {{ evil }}\n{{ said(evil) }}\n{{ said(evil | q) }}\n"
        "{% block own %}{{ said(evil) }}{% endblock %}\n",
    )
    write_own(
        slurm,
        '{% extends "job.sbatch.j2" %}\n'
        "{% block own %}{{ super() }}\n"
        "{% for one in many %}printf '%s\\n' {{ one }} {{ 'a' ~ one }}{% endfor %}{% endblock %}\n",
    )
    values = {"evil": HOSTILE, "many": [HOSTILE]}
    script = ScriptTemplate(SLURM, slurm / "site", TEMPLATE).render(values)
    done = subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, cwd=tmp_path, check=True
    )
    assert done.stdout.splitlines() == [*[HOSTILE] * 4, f"a{HOSTILE}"]
    assert not (tmp_path / "canary").exists()


@pytest.mark.parametrize(
    "text",
    [
        "# {{ evil }}",
        "{{ 'name' | directive(evil) }}",
        'export TMPDIR="{{ evil | expanded }}"',
    ],
)
def test_a_line_break_begins_no_line_of_the_script(slurm: Path, text: str) -> None:
    write_base(slurm, text)
    template = ScriptTemplate(SLURM, slurm / "site", TEMPLATE)
    with pytest.raises(ArgosyError):
        template.render({"evil": "/x\ntouch canary"})


@pytest.mark.parametrize(
    "folder", ["/$(touch canary)", "/`touch canary`", '/"; touch canary; "', "x"]
)
def test_only_a_folder_is_expanded(slurm: Path, folder: str) -> None:
    write_base(slurm, 'cd "{{ evil | expanded }}"')
    template = ScriptTemplate(SLURM, slurm / "site", TEMPLATE)
    with pytest.raises(ArgosyError, match="is not an absolute path"):
        template.render({"evil": folder})


def test_no_template_calls_a_value_safe() -> None:
    """But for names of variables, which a pattern has found."""
    top = Path(__file__).parents[3]
    templates = [*top.glob("slurm/*/*.j2"), *top.glob("workflow/src/argosy/schedulers/**/*.j2")]
    assert len(templates) > 4
    found = [line for path in templates for line in path.read_text().splitlines() if "safe" in line]
    assert [line.strip() for line in found] == [
        'if [ -z "{{ ("${" ~ name ~ ":-}") | safe }}" ]; then'
    ]
