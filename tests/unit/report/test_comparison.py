"""Comparison of sites: common sizes, ratios, and reasons without a ratio."""

import random
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from reports import reported_summary
from study_files import plan, sample_study

from argosy.report import write_comparison
from argosy.report.outputs.comparison import compare, findings
from argosy.report.summary.models import Summary

HOSTILE = "<script>document.title='harmed'</script>"


def study(results: Path, step_s: float, *sizes: int, seed: int = 1) -> Summary:
    """Steps of a known time on one node, half of it on two, and so on."""
    chance = random.Random(seed)
    for nodes in sizes:
        for repeat in (1, 2, 3):
            run = plan(results, "digits", nodes, 1, repeat)
            run.execute()
            run.steps(step_s=step_s / nodes * chance.gauss(1, 0.01), steps=30)
    return reported_summary(results)


def test_sizes_that_both_have_give_a_ratio(tmp_path: Path) -> None:
    here, there = study(tmp_path / "a", 0.2, 1, 2, 4), study(tmp_path / "b", 0.1, 1, 2, seed=2)
    [experiment] = compare({"a": here, "b": there}).experiments
    assert experiment.sites == ["a", "b"]
    found = [(each.point.nodes, each.site) for each in experiment.points]
    assert found == [(1, "a"), (1, "b"), (2, "a"), (2, "b"), (4, "a")]
    ratios = [each.ratio for each in experiment.points]
    assert ratios[0] is ratios[2] is ratios[4] is None
    for ratio in (ratios[1], ratios[3]):
        assert ratio and ratio.low and ratio.high
        assert ratio.mean == pytest.approx(2, rel=0.03)
        assert ratio.low < ratio.mean < ratio.high
    [sentence] = findings(experiment, "a")
    assert sentence.startswith("On 2 nodes with 1 rank each, b has ")
    assert " times the throughput of a (" in sentence


def accurate(results: Path, *accuracies: float, steps: int = 30) -> Summary:
    """Measure one node and more, whose models reach these accuracies."""
    for nodes, accuracy in enumerate(accuracies, start=1):
        for repeat in (1, 2):
            run = plan(results, "digits", nodes, 1, repeat)
            run.execute()
            metrics = {"test_accuracy": accuracy, "weights_identical": True}
            run.steps(step_s=0.1 + repeat / 1e4, steps=steps, metrics=metrics)
    return reported_summary(results)


def test_models_as_good_in_as_many_steps(tmp_path: Path) -> None:
    here = accurate(tmp_path / "a", 0.97, 0.96)
    same = accurate(tmp_path / "b", 0.97, 0.9600004)
    [experiment] = compare({"a": here, "b": same}).experiments
    assert findings(experiment, "a")[1] == (
        "At each common size, models reach the same test accuracy in as many steps, "
        "within single precision."
    )
    longer = accurate(tmp_path / "c", 0.97, 0.96, steps=31)
    [experiment] = compare({"a": here, "c": longer}).experiments
    assert "models reach the same test accuracy, within" in findings(experiment, "a")[1]
    other = accurate(tmp_path / "d", 0.97, 0.95)
    [experiment] = compare({"a": here, "d": other}).experiments
    assert findings(experiment, "a")[1] == (
        "Models trained on 2 nodes have a test accuracy of 0.9500 at d, 0.9600 at a."
    )


def test_whether_all_were_asked_for_the_same(tmp_path: Path) -> None:
    here, same = study(tmp_path / "a", 0.2, 1), study(tmp_path / "b", 0.1, 1)
    more = study(tmp_path / "c", 0.1, 1, 2)
    assert compare({"a": here, "b": same}).has_same_inputs
    assert not compare({"a": here, "c": more}).has_same_inputs
    write_comparison({"a": here, "b": same}, tmp_path / "same.html")
    assert f"<code>{here.inputs}</code>" in (tmp_path / "same.html").read_text()
    write_comparison({"a": here, "c": more}, tmp_path / "other.html")
    assert "All sites ran the same study" not in (tmp_path / "other.html").read_text()


def test_what_cannot_be_compared_is_said(tmp_path: Path) -> None:
    here, there = study(tmp_path / "a", 0.2, 1), study(tmp_path / "b", 0.1, 2)
    run = plan(tmp_path / "b", "only-here")
    run.execute()
    run.steps(step_s=0.1, steps=30)
    there = reported_summary(tmp_path / "b")
    one, other = compare({"a": here, "b": there}).experiments
    assert findings(one, "a") == ["b and a have no measured size in common."]
    assert (other.experiment, findings(other, "a")) == ("only-here", ["Measured at b only."])


def test_names_on_the_page_are_only_names(tmp_path: Path) -> None:
    summary = study(tmp_path / "a", 0.2, 1)
    write_comparison({HOSTILE: summary, "b": summary}, tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert HOSTILE not in page
    assert "harmed" in page


def argosy(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "argosy.cli", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_the_command(tmp_path: Path) -> None:
    for name in ("a", "b"):
        sample_study(tmp_path / name)
        reported_summary(tmp_path / name)
    page = tmp_path / "both.html"
    done = argosy("compare", tmp_path / "a", tmp_path / "b", "--output", page)
    assert (done.returncode, done.stdout) == (0, f"{page}\n")
    text = page.read_text()
    assert "Scaling at a, b" in text
    assert text.count("<figure") == 2


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "this is a folder without a site's results\nhint: name results/SITE"),
        ("{", "is damaged\nhint: run: argosy report"),
        ('{"schema_version": 1}', "its schema_version is 1; this Argosy reads"),
    ],
)
def test_a_site_without_a_good_summary(tmp_path: Path, content: str | None, says: str) -> None:
    study(tmp_path / "a", 0.2, 1)
    (tmp_path / "b").mkdir()
    if content is not None:
        (tmp_path / "b/summary.json").write_text(content)
    done = argosy("compare", tmp_path / "a", tmp_path / "b", "--output", tmp_path / "page.html")
    assert done.returncode == 2
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "page.html").exists()


@pytest.mark.slow
def test_one_site_is_not_several(tmp_path: Path) -> None:
    study(tmp_path / "a", 0.2, 1)
    assert "one site is given\nhint: give two or more" in argosy("compare", tmp_path / "a").stderr
    again = argosy("compare", tmp_path / "a", tmp_path / "a")
    assert "results of a are already given" in again.stderr
    other, page = tmp_path / "other/a", tmp_path / "page.html"
    study(other, 0.1, 1)
    assert not argosy("compare", tmp_path / "a", other, "--output", page).returncode
    assert f"a ({other}) has " in page.read_text()


def one_size(results: Path, step_s: float = 0.1, samples: int = 32, **asked: Any) -> Summary:
    for repeat in (1, 2, 3):
        run = plan(results, "digits", 1, 1, repeat, **asked)
        run.execute()
        run.steps(step_s=step_s * (1 + 0.01 * repeat), steps=30, samples=samples)
    return reported_summary(results)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (
            {"command": "python3 train.py --steps 20"},
            "command: python3 train.py --steps 20 at b, python3 train.py at a.",
        ),
        ({"environment": {"BATCH": "64"}}, "variable BATCH: 64 at b, none at a."),
        ({"scaling": "weak"}, "kind of scaling: weak at b, strong at a."),
        ({"timeline": True}, "timeline: written by Horovod at b, none at a."),
        ({"samples": 64}, "a rank's step has 64.0 samples at b, 32.0 at a."),
    ],
)
def test_other_work_gives_no_ratio_and_it_is_said_why(
    tmp_path: Path, changed: dict[str, Any], said: str
) -> None:
    here, there = one_size(tmp_path / "a"), one_size(tmp_path / "b", 0.05, **changed)
    [experiment] = compare({"a": here, "b": there}).experiments
    assert [each.ratio for each in experiment.points] == [None, None]
    assert findings(experiment, "a") == [
        f"b and a did different work, so no ratio is given: {said}"
    ]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (
            {"digest": "cd"},
            "image: torch-cpu sha256:cdcdcdcdcdcd at b, torch-cpu sha256:abababababab at a",
        ),
        ({"hardware": "gpu"}, "hardware: gpu at b, none at a"),
        ({"resources": {"gpus_per_rank": 1}}, "gpus_per_rank: 1 at b, 0 at a"),
        ({"site_environment": {"NCCL_DEBUG": "INFO"}}, "variable NCCL_DEBUG: INFO at b, none at a"),
    ],
)
def test_the_same_work_by_other_means_gives_a_ratio_and_what_differs(
    tmp_path: Path, changed: dict[str, Any], said: str
) -> None:
    here, there = one_size(tmp_path / "a"), one_size(tmp_path / "b", 0.05, **changed)
    [experiment] = compare({"a": here, "b": there}).experiments
    ratio, differs = findings(experiment, "a")
    assert "b has 2.00 times the throughput of a" in ratio
    assert differs == f"Other differences: {said}."


def test_the_lengths_of_runs_are_said(tmp_path: Path) -> None:
    here = one_size(tmp_path / "a")
    run = plan(tmp_path / "b", "digits")
    run.execute()
    run.steps(step_s=0.05, steps=250)
    there = reported_summary(tmp_path / "b")
    [sentence] = findings(*compare({"a": here, "b": there}).experiments, "a")
    assert sentence.endswith(" A run made 250 steps at b, 30 at a.")


def test_of_several_setups_that_of_the_reference_is_compared(tmp_path: Path) -> None:
    here = one_size(tmp_path / "a", digest="cd")
    for repeat, digest, step_s in ((1, "ab", 0.2), (2, "cd", 0.05), (3, "ef", 0.4)):
        run = plan(tmp_path / "b", "digits", repeat=repeat, digest=digest)
        run.execute()
        run.steps(step_s=step_s, steps=30)
    there = reported_summary(tmp_path / "b")
    [experiment] = compare({"a": here, "b": there}).experiments
    ratio, aside = findings(experiment, "a")
    assert "b has 2.04 times the throughput of a (no interval: a site has one run" in ratio
    assert aside == "b also has digits #1, digits #3, with other setups: see its own report."


def test_links_lead_to_the_experiment_that_they_name(tmp_path: Path) -> None:
    """Links are right even after an experiment without a section."""
    plan(tmp_path / "a", "a-nothing-yet").execute(state="failed")
    here = study(tmp_path / "a", 0.2, 1)
    write_comparison({"a": here, "b": here}, tmp_path / "comparison.html")
    html = (tmp_path / "comparison.html").read_text()
    links = re.findall(r'href="#(experiment-\d+)">([^<]*)<', html)
    headings = re.findall(r'<h2 id="(experiment-\d+)">([^<]*)<', html)
    # Links are in the contents and in the summary.
    assert links == headings * 2
    assert [name for _, name in headings] == ["digits"]
    # Runs may exist: allreduce benchmarks have no throughput either.
    assert "No throughput was measured at any site." in html
