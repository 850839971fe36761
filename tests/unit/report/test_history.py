"""An experiment over time: what a newer report keeps of the one it replaces, and which changes it tells."""

import json
import math
import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from reports import reported, reported_summary
from study_files import STARTED, plan, write_json

from argosy.report import write_report
from argosy.report.kept_reports import report_called
from argosy.report.outputs.badge import badge_of
from argosy.report.outputs.comparison import compare, findings
from argosy.report.summary.models import ExperimentSummary, Summary, read_summary, summary_json
from argosy.report.summary.parts import History
from argosy.report.topics import to_know
from argosy.report.topics.history import says as words
from argosy.report.topics.history.measure import past_summary, with_history
from argosy_common.errors import ArgosyError

DAY = 86_400.0


class Site:
    """Results of a site that are measured again and again."""

    def __init__(self, results: Path) -> None:
        self.results = results
        self.jobs = 100
        self.chance = random.Random(1)

    def measure(
        self,
        step_s: float,
        *,
        day: int,
        sizes: tuple[int, ...] = (1, 2),
        repeats: int = 4,
        scatter: float = 0.005,
        commit: str | None = None,
        samples: int = 32,
        cpu: str | None = None,
        **asked: Any,
    ) -> None:
        """Measure each size, of `step_s` on one node, so many days after the first time."""
        for nodes in sizes:
            for repeat in range(1, repeats + 1):
                self.jobs += 1
                attempt, began = f"{self.jobs}.0", STARTED + day * DAY + self.jobs
                run = plan(self.results, "digits", nodes, 1, repeat, **asked)
                run.execute(attempt, started=began)
                run.steps(
                    attempt,
                    step_s=step_s / nodes * self.chance.gauss(1, scatter),
                    steps=30,
                    samples=samples,
                )
                if commit:
                    with changed(run.path / "provenance.json") as content:
                        content["argosy"]["git_commit"] = commit
                for node in range(nodes) if cpu else ():
                    with changed(run.records(attempt) / f"node-{node}.json") as content:
                        content["machine"]["cpu_model"] = cpu

    def report(self) -> Summary:
        return reported_summary(self.results)

    def measured(self, step_s: float, **more: Any) -> ExperimentSummary:
        """Measure, and return the only experiment of the new report."""
        self.measure(step_s, **more)
        [experiment] = self.report().experiments
        return experiment

    @property
    def kept(self) -> list[Path]:
        return sorted((self.results / "history").glob("*"))


@contextmanager
def changed(path: Path) -> Iterator[dict[str, Any]]:
    content = json.loads(path.read_text())
    yield content
    write_json(path, content)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path / "mycluster")


def history(experiment: ExperimentSummary) -> History:
    assert experiment.history
    return experiment.history


def test_a_first_report_has_no_history(site: Site) -> None:
    assert site.measured(0.1, day=0).history is None
    assert site.report().experiments[0].history is None
    assert site.kept == []


def test_a_slower_experiment_is_said_with_its_interval_and_what_differs(site: Site) -> None:
    site.measured(0.1, day=0, commit="a" * 40)
    slow = site.measured(0.108, day=3, commit="b" * 40)
    found = history(slow)
    assert [len(entry.points) for entry in found.entries] == [2, 2]
    assert [entry.commit for entry in found.entries] == ["a" * 40, "b" * 40]
    for change in found.changes:
        ratio = change.ratio
        assert ratio.low and ratio.high
        assert ratio.low < 1 / 1.08 < ratio.high < 1
    [sentence] = words.slower(slow)
    assert sentence.startswith("Slower than in the report of 2027-01-15: 1 node by 7.")
    assert "Differences since then: commit aaaaaaaa, now bbbbbbbb. Two days can differ" in sentence
    assert sentence in to_know(site.report(), slow)
    assert "7." in badge_of(site.report()) or "8 %" in badge_of(site.report())
    assert "slower" in badge_of(site.report())


def test_a_faster_one_and_one_that_is_alike(site: Site) -> None:
    site.measured(0.1, day=0)
    fast = site.measured(0.09, day=1)
    assert words.slower(fast) == []
    [sentence] = words.sentences(fast)
    assert sentence.startswith("Faster than in the report of 2027-01-15: 1 node by 1")
    assert "Argosy recorded no other difference" in sentence
    same = site.measured(0.09, day=2)
    [sentence] = words.sentences(same)
    assert sentence.startswith("No significant change since the report of 2027-01-16 (1 node: ")


def test_the_same_runs_are_kept_once(site: Site) -> None:
    """However often a report is made, before, between and after the runs of a new measurement."""
    site.measured(0.1, day=0)
    site.report()
    assert site.kept == []
    site.measure(0.1, day=1, sizes=(1,))
    site.report()
    assert len(site.kept) == 1
    site.measure(0.1, day=1, sizes=(2,))
    [experiment] = site.report().experiments
    assert len(site.kept) == 1
    entries = history(experiment).entries
    assert [[one.nodes for one in entry.points] for entry in entries] == [[1, 2], [1, 2]]
    assert all(len(one.runs_samples_per_s) == 4 for entry in entries for one in entry.points)


def test_half_of_the_runs_measured_again(site: Site) -> None:
    """Each run stands in one entry."""
    site.measured(0.1, day=0, repeats=4)
    again = site.measured(0.1, day=1, repeats=2)
    before, now = history(again).entries
    assert [len(one.runs_samples_per_s) for one in before.points] == [2, 2]
    assert [len(one.runs_samples_per_s) for one in now.points] == [4, 4]


def test_from_three_reports_on_their_own_scatter_counts(site: Site) -> None:
    """Days that differ by 5 % are no change, though each day's runs agree within half a per cent."""
    for day, speed in enumerate((1.0, 1.05, 0.96, 1.03)):
        site.measured(0.1 * speed, day=day)
    other = site.measured(0.1 * 1.05, day=5)
    for change in history(other).changes:
        assert change.reports == 4
        assert change.ratio.low and change.ratio.high
        assert change.ratio.low < 1 < change.ratio.high
    assert words.slower(other) == []
    slow = site.measured(0.14, day=6)
    [sentence] = words.slower(slow)
    assert sentence.startswith("Slower than in 5 earlier reports: 1 node by ")
    assert "Two days can differ" not in sentence


@pytest.mark.parametrize(
    ("other", "why"),
    [
        ({"command": "python3 train.py --batch 64"}, "another command"),
        ({"hardware": "a100"}, "other hardware"),
        ({"cpu": "Another CPU"}, "other processors"),
    ],
)
def test_other_work_and_other_nodes_are_not_compared(
    site: Site, other: Mapping[str, Any], why: str
) -> None:
    site.measured(0.1, day=0)
    found = site.measured(0.2, day=1, **other)
    assert [entry.not_compared for entry in history(found).entries] == [why, None]
    assert history(found).changes == []
    assert words.sentences(found) == ["No earlier report is compared with this one: see the table."]


def test_other_batches_are_not_compared(site: Site) -> None:
    """A program whose step has as many samples again is no faster one."""
    site.measured(0.1, day=0)
    assert history(site.measured(0.1, day=1, samples=64)).changes == []


def test_single_runs_show_no_change(site: Site) -> None:
    site.measured(0.1, day=0, repeats=1)
    found = site.measured(0.2, day=1, repeats=1)
    assert [change.ratio.low for change in history(found).changes] == [None, None]
    assert words.slower(found) == []
    [sentence] = words.sentences(found)
    assert sentence.startswith("Single runs")


def test_a_change_is_rarely_told_where_there_is_none(site: Site) -> None:
    """In at most 5 of 100 studies of four sizes; a loss of 10 % is told of all sizes in 95."""
    site.measure(0.1, day=0, sizes=(1, 2, 3, 4), repeats=3)
    summary = site.report()
    chance = random.Random(2)
    told = found = 0
    for study in range(200):
        past = [past_summary(json.loads(summary_json(_again(summary, chance, study, 1.0))))]
        [same] = with_history(_again(summary, chance, study + 500, 1.0), past).experiments
        [slow] = with_history(_again(summary, chance, study + 500, 0.9), past).experiments
        told += any(map(words.is_slower, history(same).changes))
        told += any(map(words.is_faster, history(same).changes))
        found += all(map(words.is_slower, history(slow).changes))
    assert told <= 10 + 2.5 * (200 * 0.05 * 0.95) ** 0.5
    assert found >= 190


def _again(summary: Summary, chance: random.Random, day: int, speed: float) -> Summary:
    """The same runs on another day; repeats scatter by 1 %."""
    return replace(
        summary,
        runs=[
            replace(
                run,
                started_unix_s=(run.started_unix_s or 0.0) + day * DAY,
                samples_per_s=speed * run.nodes * math.exp(chance.gauss(0, 0.01)),
            )
            for run in summary.runs
        ],
    )


def test_a_damaged_file_of_the_history_is_left_out_and_said(site: Site) -> None:
    site.measured(0.1, day=0)
    site.measured(0.1, day=1)
    (site.results / "history/0000.json").write_text("{")
    (site.results / "history/0001.json").symlink_to("/etc/passwd")
    site.measure(0.1, day=2)
    written = reported(site.results)
    assert written.left_out == [
        f"{site.results}/history/{name}.json: is left out, since it is not a summary"
        for name in ("0000", "0001")
    ]
    [experiment] = read_summary(json.loads(written.json.read_text())).experiments
    assert len(history(experiment).entries) == 3


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *(("samples_per_s", each) for each in (1e300, 1e-300, -1.0, 0.0, math.nan, "fast", [])),
        *(("started_unix_s", each) for each in (math.inf, -1e300, 1e13, "then")),
        *((key, each) for key in ("nodes", "ranks_per_node") for each in (0, 10**30, 1.5, None)),
        *(("attempt", each) for each in (7, {"a": 1})),
        *(("experiment", each) for each in ("</script><b>x", "\x1b[31m", "no such")),
    ],
)
def test_odd_values_in_the_history_end_no_report(site: Site, key: str, value: Any) -> None:
    """A file in which anybody wrote anything is left out, or read as what it says."""
    site.measured(0.1, day=0)
    site.measured(0.1, day=1)
    [kept] = site.kept
    with changed(kept) as content:
        for run in content["runs"]:
            run[key] = value
    text = write_report(site.results)
    summary = json.loads(text.json.read_text(), parse_constant=pytest.fail)
    assert summary["experiments"][0]["points"]
    page = text.html.read_text()
    assert "</script><b>x" not in page
    assert "\x1b" not in page


def test_a_damaged_summary_is_replaced(site: Site) -> None:
    site.measured(0.1, day=0)
    (site.results / "summary.json").write_text('{"experiments": 1}')
    assert site.measured(0.1, day=1).history is None
    assert site.kept == []


def test_summaries_of_another_version_are_in_the_history(site: Site) -> None:
    site.measured(0.1, day=0)
    with changed(site.results / "summary.json") as content:
        content["schema_version"] = 3
        content["new"] = content.pop("rates")
        for experiment in content["experiments"]:
            del experiment["advice"]
    assert len(history(site.measured(0.1, day=1)).entries) == 2
    with pytest.raises(ArgosyError, match="its schema_version is 3"):
        report_called(site.results, "2027-01-15")


def test_two_commits_and_two_images_of_one_site(site: Site) -> None:
    site.measured(0.1, day=0, commit="a1b2" * 10, digest="12")
    site.measured(0.05, day=1, commit="c3d4" * 10, digest="34")
    for old, new in (("a1b2", "c3d4"), ("1212", "sha256:3434"), ("2027-01-15", "c3d4c3d4")):
        summaries = {word: report_called(site.results, word) for word in (old, new)}
        [experiment] = compare(summaries).experiments
        ratio = experiment.points[1].ratio
        assert ratio
        assert ratio.mean == pytest.approx(2, rel=0.03)
        assert "image: torch-cpu sha256:3434" in " ".join(findings(experiment, old))
    with pytest.raises(ArgosyError, match=r"no report matches ffff; there are c3d4c3d4"):
        report_called(site.results, "ffff")


def test_two_images_in_one_report(site: Site) -> None:
    site.measure(0.1, day=0, sizes=(1,), digest="12")
    site.measure(0.05, day=0, sizes=(2,), digest="34")
    site.report()
    for word in ("1212", "3434"):
        [experiment] = report_called(site.results, word).experiments
        assert experiment.setup.image
        assert word in experiment.setup.image


def test_the_badge_says_the_efficiency_and_is_an_image(site: Site) -> None:
    for nodes in (1, 2, 4):
        site.measure(0.1 * nodes, day=0, sizes=(nodes,))
    badge = badge_of(site.report())
    assert "digits · mycluster: 4 nodes: 100 % efficiency" in badge
    ElementTree.fromstring(badge)
    with pytest.raises(ArgosyError, match="no such experiment; did you mean digits"):
        badge_of(site.report(), "digit")


def test_the_page_has_chart_and_table(site: Site) -> None:
    site.measured(0.1, day=0)
    site.measured(0.2, day=1)
    page = (site.results / "report.html").read_text()
    assert 'id="experiment-1-history"' in page
    assert "Line chart of the samples per second of digits over time: 2027-01-15" in page
