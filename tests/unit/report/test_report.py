"""The files of a report agree, and the page is self-contained."""

import base64
import csv
import hashlib
import io
import json
import math
import re
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import jsonschema
import pytest
from planned_studies import allreduce_s, network, training
from reports import reported, reported_json
from rich.console import Console
from step_files import change_clock, rows, write_rows
from study_files import STARTED, completed, plan, sample_study

from argosy.report import ReportFiles, make_report, write_report
from argosy.report.drawing import Drawing
from argosy.report.outputs.terminal import print_summary
from argosy.report.page.html import chart_data
from argosy.report.page.page import page as render_page
from argosy.report.summary.models import read_summary, summary_json, summary_schema
from argosy.results import ResultsError


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> ReportFiles:
    results = tmp_path_factory.mktemp("with 'quotes' and spaces") / "local"
    sample_study(results)
    return reported(results)


def heat_rows(html: str) -> list[list[str]]:
    """Return the cells of factors with their tags, by size."""
    [table] = re.findall(r'<table class="heat">(.*?)</table>', html, re.DOTALL)
    rows = re.findall(r"<tr>(.*?)</tr>", table, re.DOTALL)
    return [re.findall(r"<td[^>]*>.*?</td>", row, re.DOTALL)[1:] for row in rows[1:]]


def test_the_greatest_loss_of_each_size_is_marked(tmp_path: Path) -> None:
    """Nothing is marked without a significant loss, as on three nodes."""
    for nodes, communication in ((1, 0.0), (2, 0.4), (3, 0.0)):
        for repeat in range(1, 5):
            waited = communication + repeat / 1000
            shares = {"forward": 0.5 - waited / 2, "backward": 0.5 - waited / 2}
            run = plan(tmp_path, "digits", nodes, 1, repeat, scaling="weak")
            run.execute()
            run.steps(
                step_s=(0.1 + repeat / 1e4) / (1 - communication),
                steps=30,
                phases=shares | {"communication": waited},
            )
    rows = heat_rows(reported(tmp_path).html.read_text())
    assert [sum('class="worst"' in cell for cell in row) for row in rows] == [1, 0]
    [worst] = [cell for cell in rows[0] if 'class="worst"' in cell]
    assert 0.55 < float(re.findall(r'<data value="([0-9.]+)">', worst)[0]) < 0.65
    shades = [int(shade) for row in rows for shade in re.findall(r"--loss: (\d+)%", str(row))]
    assert max(shades) == int(re.findall(r"--loss: (\d+)%", worst)[0]) > 20


class Page(HTMLParser):
    """The elements of a page, their attributes, and its text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]

    def attributes(self, name: str) -> list[str]:
        return [attributes[name] or "" for _, attributes in self.elements if name in attributes]


def without_scripts(html: str) -> str:
    """Remove scripts from a page, except the data of charts."""
    return re.sub(r"<script>.*?</script>", "", html, flags=re.DOTALL)


@pytest.fixture(scope="module")
def page(sample: ReportFiles) -> Page:
    return Page(sample.html.read_text())


@pytest.fixture(scope="module")
def summary(sample: ReportFiles) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(sample.json.read_text())
    return content


def test_the_page_asks_nothing_of_the_network(sample: ReportFiles, page: Page) -> None:
    links = [link for name in ("href", "src", "xlink:href") for link in page.attributes(name)]
    assert not [link for link in links if re.match(r"\s*(\w+:)?//|\s*https?:", link)]
    assert not re.search(r"https?://|@import|url\(", without_scripts(sample.html.read_text()))
    assert not [tag for tag, _ in page.elements if tag in ("iframe", "object", "img")]
    assert not [script for script in page.all("script") if "src" in script]


def test_no_script_runs_but_those_of_the_report(sample: ReportFiles, page: Page) -> None:
    [policy] = [one["content"] or "" for one in page.all("meta") if "http-equiv" in one]
    assert "default-src 'none'" in policy
    # `default-src` does not cover these two.
    assert "base-uri 'none'" in policy
    assert "form-action 'none'" in policy
    assert "unsafe" not in policy.replace("style-src 'unsafe-inline'", "")
    html = sample.html.read_text()
    scripts = re.findall(r"<script>(.*?)</script>", html, flags=re.DOTALL)
    assert len(scripts) == html.count("<script>") == 3
    for script in scripts:
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy


def test_ids_are_unique_and_references_lead_somewhere(sample: ReportFiles, page: Page) -> None:
    ids = page.attributes("id")
    assert len(ids) == len(set(ids))
    references = [link[1:] for link in page.attributes("href") if link.startswith("#")]
    references += re.findall(r"url\(#([^)]+)\)", without_scripts(sample.html.read_text()))
    references += page.attributes("aria-labelledby")
    assert references
    assert set(references) <= set(ids)


def test_links_lead_to_log_files(sample: ReportFiles, page: Page) -> None:
    links = [link for link in page.attributes("href") if link.endswith(".log")]
    assert len(links) > 50
    for link in links:
        assert (sample.html.parent / unquote(link)).is_file()


def test_links_lead_from_another_folder_too(sample: ReportFiles, tmp_path: Path) -> None:
    results = sample.html.parent
    moved = make_report(results / "tables", results, tmp_path / "elsewhere")
    page = Page(moved.html.read_text())
    [first, *_] = [link for link in page.attributes("href") if link.endswith(".log")]
    assert first.startswith("../")
    assert (moved.html.parent / unquote(first)).is_file()


def test_tables_and_charts_can_be_read_without_eyes(page: Page) -> None:
    tables = page.all("table")
    assert len(tables) == len(page.all("caption")) > 5
    assert all(header.get("scope") in ("col", "row") for header in page.all("th"))
    charts = [one for one in page.all("div") if one.get("class") == "chart"]
    assert len(charts) == len(page.all("figure")) == 1 + 4 + 3
    for chart in charts:
        assert (chart["role"], chart["tabindex"]) == ("img", "0")
        assert chart["aria-label"]
    assert page.text.count("the table has the numbers.") == len(charts)


def test_html_json_and_csv_agree(sample: ReportFiles, page: Page, summary: dict[str, Any]) -> None:
    shown = {float(value["value"] or "nan") for value in page.all("data")}
    rows = list(csv.DictReader(io.StringIO(sample.csv.read_text())))
    keys = {
        "throughput": "throughput_samples_per_s",
        "speed_up": "speed_up",
        "efficiency": "efficiency",
        "test_accuracy": "test_accuracy",
    }
    seen = 0
    for experiment in summary["experiments"]:
        for point in experiment["points"]:
            mine = {
                row["quantity"]: row
                for row in rows
                if row["experiment"] == experiment["experiment"]
                and (int(row["nodes"]), int(row["ranks"])) == (point["nodes"], point["ranks"])
            }
            for quantity, key in keys.items():
                if (estimate := point[key]) is None:
                    assert quantity not in mine
                    continue
                seen += 1
                assert estimate["mean"] in shown
                row = mine[quantity]
                assert int(row["n"]) == estimate["n"]
                assert float(row["mean"]) == estimate["mean"]
                for end in ("low", "high"):
                    assert (float(row[end]) if row[end] else None) == estimate[end]
            for phase, seconds in point["phases_s_per_step"].items():
                assert seconds in shown
                assert float(mine[f"phase_{phase}"]["mean"]) == seconds
    assert seen == 3 * 4 + 2 * 3


def test_the_summary_says_what_was_measured(summary: dict[str, Any]) -> None:
    assert summary["schema_version"] == 7
    assert summary["sites"] == ["local"]
    assert summary["method"] == {"confidence": 0.95}
    strong, weak = summary["experiments"]
    assert (strong["experiment"], strong["scaling"]) == ("digits-mlp", "strong")
    assert strong["states"] == {"cancelled": 1, "completed": 9, "pending": 1}
    assert strong["base"] == {"ranks": 2, "nodes": 1, "ranks_per_node": 2}
    assert [point["ranks"] for point in strong["points"]] == [2, 4, 8]
    assert all(point["weights_identical"] for point in strong["points"])
    assert weak["points"][1]["speed_up"]["low"] is None
    assert len(summary["runs"]) == 13
    assert [failure["cause"] for failure in summary["failures"]] == [
        "killed by signal 9",
        "cancelled",
    ]
    [provenance] = summary["provenance"]
    assert len(provenance["runs"]) == 13
    assert provenance["content"]["software"]["snakemake"] == "9.27.1"


def test_the_summary_can_be_read_back(sample: ReportFiles, summary: dict[str, Any]) -> None:
    assert summary_json(read_summary(summary)) == sample.json.read_text()


def test_the_page_says_it_in_plain_words(page: Page) -> None:
    text = " ".join(page.text.split())
    assert "2 nodes give 1.65 times the throughput of 1 node (95 % interval" in text
    assert "Runs: 9 completed, 1 cancelled and 1 pending." in text
    assert "yes, in 3 of 3 runs" in text
    assert "Throughput as printed by the program." in text
    for said in ("node 1, rank 3", "killed by signal 9", "10 min 00 s", "Test CPU <1>", "16.0 GiB"):
        assert said in text
    for said in ("sha256:" + "ab" * 32, "RUN pip install torch", "9.27.1", "0123abc"):
        assert said in text


def test_names_are_text_and_never_markup(page: Page) -> None:
    assert "resnet <b>50 &" in page.text
    assert "b" not in {tag for tag, _ in page.elements}


def test_no_name_ends_the_data_of_a_chart() -> None:
    hostile = "</script><!--<script>\u2028\x00"
    data = str(chart_data(Drawing("a", "scaling", "", "", {"data": hostile})))
    assert not set(data) & set("<>&\u2028\x00")
    assert json.loads(data)["spec"] == {"data": hostile}


def test_the_same_tables_give_the_same_files(sample: ReportFiles) -> None:
    before = [path.read_bytes() for path in (sample.html, sample.json, sample.csv)]
    again = write_report(sample.html.parent)
    assert [path.read_bytes() for path in (again.html, again.json, again.csv)] == before
    left = {path.name for path in sample.html.parent.iterdir() if path.is_file()}
    assert left == {"report.html", "summary.json", "summary.csv"}


def test_the_terminal_shows_the_same_numbers(summary: dict[str, Any]) -> None:
    out = io.StringIO()
    print_summary(summary, Console(file=out, width=80))
    text = out.getvalue()
    assert "…" not in text
    rate = summary["experiments"][0]["points"][2]["throughput_samples_per_s"]["mean"]
    assert f"{round(rate, -1):,.0f}" in text
    assert "resnet <b>50 &, weak scaling: 2 completed" in text


def test_wide_numbers_fit_the_terminal(tmp_path: Path) -> None:
    for repeat, spread in ((1, 1.0), (2, 1.1), (3, 0.9)):
        for nodes, step_s in ((1, 0.0005), (2, 0.0015)):
            metrics = {"test_accuracy": 1.0}
            completed(tmp_path, step_s * spread, metrics, nodes=nodes, repeat=repeat)
    out = io.StringIO()
    print_summary(reported_json(tmp_path), Console(file=out, width=80))
    assert "0.531 to 0.837" in out.getvalue()
    assert "…" not in out.getvalue()


def test_a_study_without_a_completed_run(tmp_path: Path) -> None:
    plan(tmp_path / "site")
    page = Page(reported(tmp_path / "site").html.read_text())
    assert "No throughput was measured; runs: 1 pending." in page.text
    assert page.all("figure") == []


def test_a_site_without_runs(tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    files = reported(tmp_path / "site")
    assert "There are no runs yet." in files.html.read_text()
    assert json.loads(files.json.read_text())["experiments"] == []
    assert len(files.csv.read_text().splitlines()) == 1


def test_remarks_say_what_was_left_out(tmp_path: Path) -> None:
    run = completed(tmp_path / "site", nodes=2)
    path = run.steps_file("100.0", 1)
    path.write_bytes(path.read_bytes()[:50])
    text = Page(reported(tmp_path / "site").html.read_text()).text
    assert "Excluded from throughput: no steps of 1 of its 2 ranks." in text
    assert "Records that could not be read: 1." in text


def test_points_of_several_widths_are_held_apart(tmp_path: Path) -> None:
    for ranks_per_node in (1, 2):
        for nodes in (1, 2):
            completed(tmp_path / "site", nodes=nodes, ranks_per_node=ranks_per_node)
    html = reported(tmp_path / "site").html.read_text()
    assert "2 nodes with 4 ranks give 4.00 times the throughput of 1 node with 1 rank" in html
    assert "ranks per node" in html


def test_without_tables_the_error_names_the_file(tmp_path: Path) -> None:
    with pytest.raises(ResultsError, match=r"runs\.parquet: no such table"):
        write_report(tmp_path)


def test_a_folder_that_cannot_be_read_is_told_first(tmp_path: Path) -> None:
    results = tmp_path / "site"
    completed(results)
    broken = completed(results, nodes=2)
    (broken.path / "run.json").write_text("<b>no JSON</b>")
    written = reported(results)
    text = " ".join(Page(written.html.read_text()).text.split())
    assert "1 folder could not be read and is in none of these numbers" in text
    assert "run.json: cannot be read as JSON" in text
    [problem] = json.loads(written.json.read_text())["problems"]
    assert (problem["experiment"], problem["run_id"]) == ("digits", broken.run_id)


def test_what_is_odd_about_records_is_told(tmp_path: Path) -> None:
    results = tmp_path / "site"
    run = completed(results, nodes=2)
    path = run.steps_file("100.0", 1)
    change_clock(path, 1, STARTED + 3602, 1001.0)
    write_rows(path, [*rows(path), rows(path)[-1]])
    text = Page(reported(results).html.read_text()).text
    assert "Steps recorded twice (the first counts): 1." in text
    assert "Its nodes' clocks differ by 1 h 00 min." in text


def test_how_much_was_left_out_as_warm_up_is_told(tmp_path: Path) -> None:
    results = tmp_path / "site"
    completed(results)
    short = plan(results, nodes=2)
    short.execute()
    short.steps(steps=6)
    text = " ".join(Page(reported(results).html.read_text()).text.split())
    assert "Too few steps to judge: 1 run." in text
    assert "Excluded from each run: 3 to 5 steps." in text
    assert "Excluded: the first 3 steps; too few steps to judge: 6, at least 10 are needed." in text


def test_what_most_is_lost_by_is_told_and_the_factors_multiply(
    page: Page, summary: dict[str, Any]
) -> None:
    assert "Communication is the main loss with 4 nodes: an efficiency factor of 0." in page.text
    assert "On 4 nodes the main loss is communication." in page.text
    [points] = [
        experiment["points"]
        for experiment in summary["experiments"]
        if experiment["experiment"] == "digits-mlp"
    ]
    assert points[0]["factors"] == {}
    for point in points[1:]:
        means = {name: estimate["mean"] for name, estimate in point["factors"].items()}
        whole = means.pop("efficiency")
        assert math.prod(means.values()) == pytest.approx(whole, rel=1e-9)
        # One is a geometric mean of runs, the other a ratio of arithmetic means.
        assert whole == pytest.approx(point["efficiency"]["mean"], rel=5e-3)


def test_what_nodes_used_is_told_and_what_was_not_read(tmp_path: Path) -> None:
    results = tmp_path / "site"
    completed(results).telemetry(0, gpus=2, interval_s=0.25, cpu_energy_j="permission <denied>")
    written = reported(results)
    text = " ".join(Page(written.html.read_text()).text.split())
    assert "50 % 0.986 KiB 2.86 MiB/s 80 % 4.88 KiB not read 6,000 J 1.87 J of GPUs" in text
    assert "cpu_energy_j, on 1 node: permission <denied>" in text
    [used] = [
        point["usage"]
        for experiment in json.loads(written.json.read_text())["experiments"]
        for point in experiment["points"]
    ]
    assert used["cpu_energy_j"] is None
    assert used["gpu_energy_j"]["mean"] == 6000
    assert "gpu_energy,J,1,6000.0,," in written.csv.read_text()


def test_a_run_far_off_its_repeats_is_marked_and_counted(tmp_path: Path) -> None:
    results = tmp_path / "site"
    for repeat, step_s in enumerate((0.100, 0.101, 0.099, 0.1005, 0.140), start=1):
        completed(results, step_s=step_s, repeat=repeat)
    written = reported(results)
    content = json.loads(written.json.read_text())
    assert [run["is_far_off"] for run in content["runs"]] == [False] * 4 + [True]
    assert content["experiments"][0]["points"][0]["throughput_samples_per_s"]["n"] == 5
    assert "Its throughput is far from the other repeats" in Page(written.html.read_text()).text


def test_the_summary_is_as_its_schema_says(project: Path, summary: dict[str, Any]) -> None:
    text = (project / "docs/summary.schema.json").read_text()
    assert text == summary_schema(), "run `make schema`"
    jsonschema.Draft202012Validator(json.loads(text)).validate(summary)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**summary, "runs": [{}]}, json.loads(text))


def report_of_slow_ranks(results: Path, slow: Callable[[int], int | None]) -> ReportFiles:
    """Report on eight runs of three ranks; `slow` has a run's rank that takes 1.5 times as long."""
    for repeat in range(1, 9):
        hosts = ("host0", "host1" if repeat % 2 else "host3", "host2")
        run = replace(plan(results, nodes=3, repeat=repeat), hosts=hosts)
        run.execute()
        for rank in range(3):
            busy = 0.9 if rank == slow(repeat) else 0.6
            shares = {"backward": busy, "communication": 1 - busy}
            run.steps(steps=40, phases=shares, ranks=[rank])
    return reported(results)


def test_a_slow_host_is_named_where_others_are_not_slow(tmp_path: Path) -> None:
    written = report_of_slow_ranks(tmp_path / "site", lambda repeat: 1 if repeat % 2 else None)
    text = " ".join(Page(written.html.read_text()).text.split())
    assert "host1 was slow in 4 of its 4 runs; other hosts in the same position were not." in text
    assert "Rank 1 on node 1 (host1) is slow: its own work takes 1.50" in text
    assert "as long as on the other ranks; 100 % of its steps are slow." in text
    runs = json.loads(written.json.read_text())["runs"]
    assert [len(run["stragglers"]) for run in runs] == [1, 0] * 4
    assert "Rank 1 was slow in" not in text


def test_a_rank_that_is_slow_on_all_hosts_has_more_to_do(tmp_path: Path) -> None:
    written = report_of_slow_ranks(tmp_path / "site", lambda _: 1)
    text = " ".join(Page(written.html.read_text()).text.split())
    assert "Rank 1 was slow in 8 of 8 runs, on host1, host3: these runs cannot show" in text


def test_a_list_of_contents_leads_to_all_sections(page: Page, sample: ReportFiles) -> None:
    [contents] = re.findall(r"<nav.*?</nav>", sample.html.read_text(), flags=re.DOTALL)
    links = [link.removeprefix("#") for link in Page(contents).attributes("href")]
    headings = [heading["id"] for heading in page.all("h2")]
    assert links == headings
    assert len(links) == 7


def test_many_experiments_are_one_table(tmp_path: Path) -> None:
    for name in range(20):
        for nodes in (1, 2):
            completed(tmp_path / "site", experiment=f"study-{name}", nodes=nodes)
    html = reported(tmp_path / "site").html.read_text()
    [in_short] = re.findall(r'<h2 id="experiments">.*?</section>', html, flags=re.DOTALL)
    assert Page(in_short).all("ul") == Page(in_short).all("h3") == []
    assert len(Page(in_short).all("tr")) == 1 + 20
    text = " ".join(Page(in_short).text.split())
    assert "study-19 strong scaling 2 nodes are 2.00 times as fast as 1 node (single runs," in text
    assert text.endswith("2 nodes 100 % 2 completed")
    assert len(Page(in_short).all("polyline")) == 20
    # Findings are only in the section of their experiment.
    assert html.count("2 nodes give 2.00 times the throughput of 1 node") == 20


def test_allreduces_alone_have_a_table_and_no_empty_scaling(tmp_path: Path) -> None:
    network(tmp_path / "site")
    training(tmp_path / "site", {1: 0.1, 2: 0.2})
    written = reported(tmp_path / "site")
    text = " ".join(Page(written.html.read_text()).text.split())
    assert "No throughput was measured" not in text
    assert "It benchmarks allreduces and trains nothing" in text
    assert (
        "4 nodes: an allreduce of 4 KiB takes 6.06 ms and an allreduce of 16 MiB takes 258 ms."
        in text
    )
    assert 'aria-label="Scaling of network"' not in written.html.read_text()
    assert 'aria-label="Scaling of training"' in written.html.read_text()
    times, none = (one["allreduces"] for one in json.loads(written.json.read_text())["experiments"])
    assert none == []
    assert [(one["nodes"], one["bytes"], one["seconds"]["n"]) for one in times][:5] == [
        (2, 4096, 2),
        (2, 65536, 2),
        (2, 1 << 20, 2),
        (2, 1 << 24, 2),
        (4, 4096, 2),
    ]
    assert times[0]["seconds"]["mean"] == pytest.approx(allreduce_s(4096, 2))


def test_charts_say_in_words_what_they_show(page: Page) -> None:
    together, *said = [
        one["aria-label"] or "" for one in page.all("div") if one.get("class") == "chart"
    ]
    assert together == (
        "Line chart of the efficiency of all experiments: digits-mlp, 1 node 100 %; digits-mlp, 2 nodes "
        "82 %; digits-mlp, 4 nodes 66 %; resnet <b>50 &, 1 node 100 %; resnet <b>50 &, 2 nodes 95 %."
    )
    assert said[0].startswith(
        "Line chart of the samples per second of digits-mlp: 1 node 1,080 (1,050 to"
    )
    assert said[0].endswith("; and a dashed line for the ideal and a curve for the fit: Amdahl.")
    assert "4 nodes 66 % (61 to 72 %)" in said[3]
    assert said[1].startswith(
        "Bar chart of the milliseconds per step of digits-mlp in each phase: 1 node data "
    )
    assert len(set(said)) == len(said)


def test_a_law_is_said_of_the_sizes_measured(page: Page) -> None:
    text = " ".join(page.text.split())
    assert (
        "Its runs do not contradict Amdahl's law. By this law, for 1 to 4 nodes, the serial share"
        in text
    )
    # Sentence and table have the same share, which the runs do not determine.
    assert text.count("of the smallest size's time") == 2
    assert text.count("not determined (0.0 to 52.4 %)") == 2
    # The smallest size has two ranks.
    assert "one rank, not measured, " in text


def test_runs_without_a_container_are_said_to_have_none(
    summary: dict[str, Any], tmp_path: Path
) -> None:
    [provenance] = summary["provenance"]
    native = {**provenance, "content": {**provenance["content"], "image": None}}
    html = render_page(read_summary({**summary, "provenance": [native]}), tmp_path, tmp_path)
    assert "<summary>no container," in html
    assert "unknown image" not in html
