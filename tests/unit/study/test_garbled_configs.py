"""Garbled users' files are accepted, or refused in one line."""

import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from fuzzing import fuzz, write
from garbled import garbled, garbled_text

from argosy.jobs.launchers import read_launcher
from argosy.runtime.contract.placeholders import as_format
from argosy.site.data import read_data
from argosy.site.models import read_site
from argosy.site.placement import Request, place
from argosy.study.built_images import BuiltImage
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
THROUGHPUT = """\
experiments:
  digits:
    image: torch-cpu
    command: python3 train.py
    scale: {kind: strong, nodes: [1, 2], ranks_per_node: [1, 2]}
    throughput: {pattern: '(?P<number>[0-9.]+) (?:(?P<seconds>s)|(?P<milliseconds>ms))/it', is: seconds,
      per: step, times: 64, of: rank, rank: last}
    metrics: {loss: 'loss ([0-9.eE+-]+)', accuracy: '^acc=(\\S+)$'}
"""
DATA = "era5: /data/era5\nother: {from: $SCRATCH/other, stage: node}\nthird: {from: ~/third}\n"
ENVIRONMENT = """\
name: study
channels: [conda-forge, https://example.org/channel]
dependencies:
  - python=3.11
  - conda-forge::numpy>=2,<3
  - "pytorch=2.*=cpu_*"
  - pip:
    - flwr==1.20
    - -r other.txt
"""
REQUIREMENTS = """\
# Packages.
numpy>=2 ; python_version > "3.8"
--index-url https://example.org/simple
-r other.txt
torch @ https://example.org/torch.whl --hash=sha256:00 \\
    --hash=sha256:01
-c ./other.txt
"""
PYPROJECT = """\
[project]
name = "study"
version = "1.0"
requires-python = ">=3.11"
dependencies = ["numpy>=2", "torch[a,b]==2.4 ; python_version > '3.8'"]
[project.optional-dependencies]
dev = ["pytest"]
[[tool.x]]
a = {b = 1979-05-27T07:32:00Z, c = 1e3, d = 0x10}
"""
PIECES = (
    *"\t\n\0\x85\ufeff\u202e\ud7ff:{}[]*%@`#'\"~",
    *("  ", "|\n", ": ", "- ", "? ", "&a ", "*a", "!x ", "<<: *a", "{lr", "{{", "$(x)", "../"),
    *("9" * 5000, "1d" * 9, "1e999", "1_0", "0x1", ".inf", ".nan", "2001-99-99", "docker://"),
    *("file://", "!!float a", "!!timestamp x", "!!binary a", "!!set {a}", "(((", "(?P<a>"),
    *(
        "(a{99999999999})",
        "bash -c ",
        "eval ",
        "-r a.txt\n",
        "{rank}",
        "{x_port}",
        "{rank[0]}",
        "}",
    ),
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


def _launcher(folder: Path) -> Callable[[str], object]:
    def read(text: str) -> object:
        write(folder / "own.yaml", text)
        return [as_format(each) for each in read_launcher(folder / "own.yaml").texts]

    return read


def _data(folder: Path) -> Callable[[str], object]:
    def read(text: str) -> object:
        write(folder / "data.yaml", text)
        return read_data(folder / "data.yaml")

    return read


def _list(folder: Path, name: str) -> Callable[[str], object]:
    write(folder / "other.txt", "numpy\n")

    def read(text: str) -> object:
        write(folder / name, text)
        image = BuiltImage.model_validate({"from": "debian", "python": name})
        return image.write(folder)

    return read


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize(
    "kind",
    [
        "config",
        "throughput",
        "site",
        "launcher",
        "data",
        "environment.yml",
        "a.txt",
        "pyproject.toml",
    ],
)
def test_garbled_files_are_taken_or_refused_in_a_line(
    project: Path, tmp_path: Path, kind: str
) -> None:
    def texts_of(pattern: str) -> list[str]:
        return [path.read_text(encoding="utf-8") for path in sorted(project.glob(pattern))]

    read, texts = {
        "config": (_config, [*texts_of("config/*.yaml"), *[EVERYTHING] * 3]),
        "throughput": (_config, [THROUGHPUT]),
        "site": (_site(tmp_path), texts_of("slurm/*/site.yaml")),
        "launcher": (_launcher(tmp_path), texts_of("launchers/*.yaml")),
        "data": (_data(tmp_path), [DATA]),
        "environment.yml": (_list(tmp_path, kind), [ENVIRONMENT]),
        "a.txt": (_list(tmp_path, kind), [REQUIREMENTS]),
        "pyproject.toml": (_list(tmp_path, kind), [PYPROJECT]),
    }[kind]
    is_yaml = kind not in ("a.txt", "pyproject.toml")
    values = [json.dumps(yaml.safe_load(text)) for text in texts if is_yaml]

    def taken(chance: random.Random) -> bool:
        if values and chance.random() < 0.5:
            # Lone surrogates cannot be in a text file.
            read(garbled(chance.choice(values), chance).replace("\\ud800", "?"))
        else:
            read(garbled_text(chance.choice(texts), PIECES, chance))
        return True

    fuzz(taken, CASES if kind in ("config", "site") else CASES // 4)
