"""config.yaml and site.yaml in which anything may stand anywhere: runs and places of jobs, or one line."""

import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from fuzzing import fuzz
from garbled import garbled, garbled_text

from argosy.site.models import read_site
from argosy.site.placement import Request, place
from argosy.study.config import Source, parse_config
from argosy.study.runs import expand
from argosy.yaml_file import parse_yaml

CASES = 4_000
EVERYTHING = """\
site: local
hardware: cpu
only: [digits, weather]
budget: 200
experiments:
  digits:
    image: torch-cpu
    runtime: [container, native]
    command: python3 /workloads/torch/digits.py --lr {lr} --nodes {nodes} --batch {site.batch}
    launcher: horovod
    scale: {kind: strong, nodes: [1, 2], ranks_per_node: [1, 2], repeats: 3}
    resources: {cpus_per_rank: 1, memory_per_rank: 2G, time: 10m, time_from_nodes: {2: 1d12h}}
    environment: {HOROVOD_FUSION_THRESHOLD: 33554432, RATE: "{lr}"}
    sweep: {lr: [0.1, 1e-3]}
    checkpoints: {warning: 2m, requeues: 10}
    timeline: true
  weather:
    image: {from: torch-cpu, python: requirements.txt, system: [libgl1, git]}
    command: [python3, train.py]
    launcher: plain
    independent: true
    scale: {nodes: [1], repeats: 2}
    hang_timeout: 5m
    outputs: [output/a, b]
    data: {/data/era5: era5, /data/torch: {from: ~/torch, write: true, digest: true}}
    throughput: {pattern: 'step time: ([0-9.]+) ms', is: milliseconds, times: 64, of: rank}
    metrics: {loss: 'loss ([0-9.eE+-]+)'}
"""
PIECES = (
    *"\t\n\0\x85\ufeff\u202e\ud7ff:{}[]*%@`#'\"~",
    *("  ", "|\n", ": ", "- ", "? ", "&a ", "*a", "!x ", "<<: *a", "{lr", "{{", "$(x)", "../"),
    *("9" * 5000, "1d" * 9, "1e999", "1_0", "0x1", ".inf", ".nan", "2001-99-99", "docker://"),
    *("file://", "!!float a", "!!timestamp x", "!!binary a", "!!set {a}", "(((", "(?P<a>"),
    "(a{99999999999})",
)


def _config(text: str) -> None:
    values = parse_yaml(text, "config.yaml")
    if isinstance(values, dict):
        assert len(expand(parse_config(values, [Source("config.yaml", values)]))) < 1_000_000


def _site(folder: Path) -> Callable[[str], None]:
    def read(text: str) -> None:
        (folder / "site.yaml").write_text(text, encoding="utf-8")
        place(read_site(folder), Request(2, 2, 2, 1, 1024, 600), None, None)

    return read


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize("kind", ["config", "site"])
def test_garbled_files_are_taken_or_refused_in_a_line(
    project: Path, tmp_path: Path, kind: str
) -> None:
    read, pattern = (
        (_config, "config/*.yaml") if kind == "config" else (_site(tmp_path), "slurm/*/site.yaml")
    )
    texts = [path.read_text(encoding="utf-8") for path in sorted(project.glob(pattern))]
    texts += [EVERYTHING] * 3 if kind == "config" else []

    def taken(chance: random.Random) -> bool:
        text = chance.choice(texts)
        if chance.random() < 0.5:
            read(garbled_text(text, PIECES, chance))
        else:
            # Half surrogates are no text of a file.
            read(garbled(json.dumps(yaml.safe_load(text)), chance).replace("\\ud800", "?"))
        return True

    fuzz(taken, CASES)
