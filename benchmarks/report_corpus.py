"""`make corpus`: the digest of every output of the report, over some twenty studies, to compare revisions.

The first argument is a folder. Studies are made in it where it is empty, and reported from their tables by
the code at hand; keep the folder, check out another revision, run it again, and compare what it prints.
White space between the page's elements is left out of its digest.
"""

import dataclasses
import hashlib
import io
import json
import random
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from garbled import garbled, garbled_lines
from horovod_timelines import add_timeline, fused
from planned_studies import network, training
from rich.console import Console
from stalled_studies import STEP_S, stalled
from study_files import STARTED, completed, plan, sample_study
from ugly_studies import Ugliness, rank_times, write_run

from argosy.report import Rates, make_report, write_comparison
from argosy.report.outputs.badge import badge_of
from argosy.report.outputs.paper import latex_tables
from argosy.report.outputs.terminal import prediction_table, print_summary
from argosy.report.summary.models import Summary, read_summary, summary_schema
from argosy.report.topics import drawings
from argosy.results import collect

RATES = Rates(
    price_per_node_hour=1.5,
    currency="EUR",
    carbon_g_per_kwh=300.0,
    pue=1.2,
    source="a table",
    peak_tflops_per_node=0.5,
)
SIZES = tuple((nodes, repeat) for nodes in (1, 2, 4) for repeat in (1, 2, 3))
BLOCKS = "table|thead|tbody|tr|th|td|caption|div|details|summary|section|ul|ol|li|p|figure|h2|h3"


def damaged(seed: int) -> Callable[[Path], None]:
    """Return the study of samples with files damaged by chance."""

    def made(site: Path) -> None:
        sample_study(site)
        chance = random.Random(seed)
        files = sorted(path for path in site.rglob("*.json*") if path.is_file())
        for path in chance.sample(files, 10):
            change = garbled_lines if path.suffix == ".jsonl" else garbled
            path.write_text(change(path.read_text(), chance))

    return made


def ugly(kind: Ugliness) -> Callable[[Path], None]:
    def made(site: Path) -> None:
        chance = np.random.default_rng(1)
        for nodes in (1, 2):
            work = rank_times(kind, 6, 200, 2 * nodes, chance)
            for run in range(6):
                write_run(site, kind, work[run], nodes, run + 1)

    return made


def predicted(slower: float = 1.0) -> Callable[[Path], None]:
    def made(site: Path) -> None:
        network(site, (2, 4), repeats=3)
        for repeat, factor in enumerate((0.99, 1.0, 1.01), 1):
            steps = {1: 0.15 * factor, 2: 0.17 * factor, 4: 0.19 * factor * slower}
            training(site, steps, repeat=repeat, scaling="weak")

    return made


def extrapolated(site: Path) -> None:
    chance = random.Random(6)
    for nodes in (1, 2, 4, 8, 16):
        for repeat in (1, 2, 3):
            seconds = 0.1 * (1 + 0.03 * (nodes - 1) + 0.001 * nodes * (nodes - 1))
            completed(
                site, seconds * chance.gauss(1, 0.03), nodes=nodes, repeat=repeat, scaling="weak"
            )


def timelines(site: Path) -> None:
    for nodes, repeat in SIZES:
        run = plan(site, nodes=nodes, repeat=repeat, timeline=True, scaling="weak")
        run.execute()
        run.steps(steps=15, warm_up_s=0.1, step_s=0.1 + repeat / 1e3)
        add_timeline(run, [event for k in range(1, 16) for event in fused(100_000 * k, 3)])


def telemetry(site: Path) -> None:
    """Telemetry with GPUs, metrics and accuracies; jobs that waited in two queues."""
    for nodes, repeat in SIZES:
        asked = {"gpus_per_rank": 1}
        run = plan(
            site,
            nodes=nodes,
            repeat=repeat,
            ranks_per_node=2,
            scaling="weak",
            resources=asked,
            queue="long" if repeat == 1 else "short",
        )
        run.execute(seconds=30.0 + repeat, started=STARTED)
        run.submitted(300.0 * nodes * repeat)
        metrics = {
            "test_accuracy": 0.9 - nodes / 50 + repeat / 1000,
            "weights_identical": repeat != 2,
            "flops_per_sample": 1e9,
            "peak_memory_bytes": 1e9,
        }
        run.steps(step_s=0.1 + nodes / 100 + repeat / 1e3, steps=60, metrics=metrics)
        for node in range(nodes):
            run.telemetry(node, gpus=2 if nodes > 1 else 0)


def containers(site: Path) -> None:
    for name, is_native, slower in (("inside", False, 1.03), ("outside", True, 1.0)):
        for nodes, repeat in SIZES:
            run = plan(site, name, nodes, repeat=repeat, native=is_native, scaling="weak")
            run.execute(started=STARTED + 100_000 * repeat + nodes)
            chance = random.Random(f"{name}{nodes}{repeat}")
            run.steps(step_s=0.1 * slower * chance.gauss(1, 0.01), steps=30)


def printed(site: Path) -> None:
    for nodes, repeat in SIZES:
        run = plan(site, nodes=nodes, repeat=repeat, scaling="weak")
        run.execute()
        chance = random.Random(f"{nodes}{repeat}")
        run.printed([360.0 * nodes * chance.gauss(1, 0.02) for _ in range(20)])


def scaled(step_s: float) -> Callable[[Path], None]:
    def made(site: Path) -> None:
        for nodes, repeat in SIZES:
            seconds = step_s * random.Random(f"{nodes}{repeat}").gauss(1, 0.01) + nodes / 1e3
            completed(site, seconds, nodes=nodes, repeat=repeat, scaling="weak")

    return made


STUDIES: dict[str, Callable[[Path], object]] = {
    "empty": lambda site: None,
    "sample": sample_study,
    **{f"damaged-{seed}": damaged(seed) for seed in (1, 2, 3)},
    "stalled": stalled,
    "stalled-cold": lambda site: stalled(site, {k: v for k, v in STEP_S.items() if k != "warm"}),
    "stalled-not": lambda site: stalled(site, {k: v for k, v in STEP_S.items() if k != "alone"}),
    "predicted": predicted(),
    "predicted-misses": predicted(2.0),
    "allreduces": lambda site: network(site, (2, 4, 8), repeats=3),
    "extrapolated": extrapolated,
    "straggler": ugly(Ugliness(straggler=1.3, scatter=0.02)),
    "drift": ugly(Ugliness(drift=0.1, scatter=0.02)),
    "slow-jobs": ugly(Ugliness(slow_jobs=0.3, scatter=0.02)),
    "never-steady": ugly(Ugliness(warm_up="never steady")),
    "missing-rank": ugly(Ugliness(missing_ranks=1, clock_offset_s=5.0)),
    "timelines": timelines,
    "telemetry": telemetry,
    "containers": containers,
    "printed": printed,
    "alpha": scaled(0.1),
    "beta": scaled(0.08),
}


def make_studies(folder: Path) -> None:
    """Make the studies with their tables."""
    for name, make in STUDIES.items():
        site = folder / name / "site"
        site.mkdir(parents=True)
        make(site)
        collect(site, site / "tables")


def outputs(site: Path, out: Path, rates: Rates) -> Iterator[tuple[str, str]]:
    """Write a report to `out`; yield the name and text of each output."""
    for kept in (site / "tables").glob("step_findings*"):
        kept.unlink()
    files = make_report(site / "tables", site, out, rates)
    summary = summary_of(out)
    yield "report.html", squeezed(files.html.read_text())
    yield "summary.json", files.json.read_text()
    yield "summary.csv", files.csv.read_text()
    console = Console(file=io.StringIO(), width=140, force_terminal=True)
    print_summary(json.loads(files.json.read_text()), console)
    for place, each in enumerate(summary.experiments):
        for table in latex_tables(each):
            yield f"{place}-{table.name}.tex", table.text
        for drawing in drawings(each, "EUR"):
            yield f"{place}-{drawing.name}.chart", json.dumps(dataclasses.asdict(drawing))
        yield f"{place}.svg", badge_of(summary, each.experiment)
        if each.prediction:
            console.print(prediction_table(each.experiment, each.prediction, "EUR"))
    assert isinstance(console.file, io.StringIO)
    yield "terminal", console.file.getvalue()


def summary_of(out: Path) -> Summary:
    return read_summary(json.loads((out / "summary.json").read_text()))


def squeezed(html: str) -> str:
    """Return a page without scripts and without white space at the edges of blocks."""
    html = re.sub(r"<script>.*?</script>", "", html, flags=re.S)
    return re.sub(rf"\s*(</?(?:{BLOCKS})\b[^>]*>)\s*", r"\1", re.sub(r"\s+", " ", html))


def main(folder: Path) -> None:
    """Print the digest of each output."""
    studies = folder / "studies"
    if not studies.exists():
        make_studies(studies)
    found = {"schema": summary_schema()}
    for place, name in enumerate(STUDIES):
        rates = RATES if place % 2 == 0 or name == "telemetry" else Rates()
        out = folder / "reports" / name
        for kind, text in outputs(studies / name / "site", out, rates):
            found[f"{name}/{kind}"] = text
    pair = {name: summary_of(folder / "reports" / name) for name in ("alpha", "beta")}
    write_comparison(pair, folder / "comparison.html")
    found["comparison.html"] = squeezed((folder / "comparison.html").read_text())
    for name, text in found.items():
        print(hashlib.sha256(text.encode()).hexdigest()[:16], name)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
