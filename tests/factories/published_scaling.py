"""Throughputs that others have measured and published, and the speed-ups that they printed beside them."""

from collections.abc import Mapping
from dataclasses import dataclass

Size = tuple[int, int]
"""Nodes, and GPUs on each."""


@dataclass(frozen=True)
class Published:
    """Samples a second by size, and what the authors printed beside them.

    That are speed-ups against the first size, or the samples a second of each GPU, cut off to whole ones.
    """

    rates: Mapping[Size, float]
    speed_ups: tuple[str, ...] = ()
    of_a_gpu: tuple[int, ...] = ()


_DLPERF: tuple[Size, ...] = ((1, 1), (1, 4), (1, 8), (2, 8), (4, 8))
_K80: tuple[Size, ...] = ((1, 1), (1, 8), (2, 8), (4, 8), (8, 8))
_A100: tuple[Size, ...] = ((1, 8), (2, 8), (4, 8), (8, 8), (16, 8))


def _published(
    sizes: tuple[Size, ...], rates: str, speed_ups: str = "", of_a_gpu: str = ""
) -> Published:
    known = zip(sizes, map(float, rates.split()), strict=True)
    return Published(dict(known), tuple(speed_ups.split()), tuple(map(int, of_a_gpu.split())))


DLPERF = {
    "loader-8": _published(
        _DLPERF, "306.35 1079.19 1070.37 2093.53 4119.84", "3.52 3.49 6.83 13.45"
    ),
    "loader-48": _published(
        _DLPERF, "348.62 1226.38 2632.93 5115.4 10021.29", "3.52 7.55 14.67 28.75"
    ),
    "dali-8": _published(_DLPERF, "354.44 1367.67 2244.24 4372.33 8816.7", "3.86 6.33 12.34 24.88"),
    "dali-48": _published(
        _DLPERF, "350.66 1306.49 2707.42 5193.09 10032.72", "3.73 7.72 14.81 28.61"
    ),
}
"""ResNet-50 v1.5 in PyTorch on V100, by how images are loaded and by how many workers.

Medians of five runs: github.com/Oneflow-Inc/DLPerf, PyTorch/resnet50v1.5, 2020.
"""

TENSORFLOW_K80 = {
    "inception3": _published(_K80, "29.7 229 459 902 1783"),
    "resnet50": _published(_K80, "52.4 378 751 1388 2744"),
    "resnet152": _published(_K80, "19.4 146 291 565 981"),
    "inception3-32": _published(_K80, "29.2 219 427 820 1608"),
    "resnet50-32": _published(_K80, "48.4 333 667 1180 2315"),
}
"""Synthetic images on instances of 8 K80, by model, at the end with batches of 32 instead of 64.

Means of five runs: TensorFlow's benchmarks, May 2017 (tensorflow.org/performance/benchmarks).
"""

_MPT = {
    "125m": ("1090678 2088560 4067922 8015010 15863837", "136334 130535 127122 125234 123936"),
    "350m": ("447963 886622 1721978 3372118 6647647", "55995 55413 53811 52689 51934"),
    "760m": ("241389 473723 948745 1878030 3704382", "30173 29607 29648 29344 28940"),
    "1b": ("154171 305372 497782 1216104 2386897", "19271 19085 15555 19001 18647"),
    "3b": ("80520 156013 317261 623167 1220885", "10065 9750 9914 9736 9538"),
    "7b": ("29436 58322 119202 234614 463749", "3679 3645 3725 3665 3623"),
}
MPT = {
    name: _published(_A100, rates, of_a_gpu=of_a_gpu) for name, (rates, of_a_gpu) in _MPT.items()
}
"""Tokens of language models by their parameters, on A100 of 40 GB, 1.6 Tbit/s between nodes; single runs.

github.com/mosaicml/llm-foundry, scripts/train/benchmarking/README.md, 2023; sequences of 2,048 tokens.
"""
