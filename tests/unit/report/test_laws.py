"""What the report says of scaling laws."""

from collections.abc import Callable, Sequence

import numpy as np

from argosy.analysis.measurements import Measurement, Point
from argosy.report.laws import LawSummary, MeasuredSizes, law_summaries
from argosy.report.laws import sentence as sentence_of

SIZES = (1, 2, 4, 8, 16, 32)

ALL = MeasuredSizes("1 to 32 nodes", 1, 32)


def sentence(laws: Sequence[LawSummary]) -> str | None:
    return sentence_of(laws, ALL)


def runs(rate_at: Callable[[int], float], sizes: tuple[int, ...] = SIZES) -> list[Measurement]:
    """Three runs of each size that scatter by half a per cent."""
    chance = np.random.default_rng(5)
    return [
        Measurement("e", f"{size}-{repeat}", "strong", Point(size, size, 1), rate, "steps")
        for size in sizes
        for repeat in range(3)
        for rate in [rate_at(size) * float(np.exp(0.005 * chance.standard_normal()))]
    ]


def test_amdahls_law() -> None:
    laws = law_summaries("strong", runs(lambda n: 100 * n / (1 + 0.05 * (n - 1))))
    assert [law.law for law in laws] == ["linear", "amdahl", "usl"]
    said = sentence(laws)
    assert said
    assert said.startswith("Amdahl's law describes its runs best: among 1 to 32 nodes it takes 5.")
    # Nobody measured what no number of ranks gives.
    assert "no number of ranks" not in said
    [best] = [law for law in laws if law.is_best]
    serial = best.parameters["serial fraction"]
    assert serial.low and serial.high
    assert serial.low < 0.05 < serial.high


def test_a_peak() -> None:
    laws = law_summaries(
        "strong", runs(lambda n: 100 * n / (1 + 0.02 * (n - 1) + 0.002 * n * (n - 1)))
    )
    said = sentence(laws)
    assert said
    assert said.startswith(
        "The universal scalability law describes its throughput best: it is highest"
    )
    [best] = [law for law in laws if law.is_best]
    assert best.peak_ranks and best.peak_ranks.low and best.peak_ranks.high
    assert best.peak_ranks.low < (0.98 / 0.002) ** 0.5 < best.peak_ranks.high


def test_a_peak_beyond_the_sizes_measured_is_not_said() -> None:
    sizes = (1, 2, 4, 8, 16)
    laws = law_summaries(
        "strong", runs(lambda n: 100 * n / (1 + 0.02 * (n - 1) + 0.002 * n * (n - 1)), sizes)
    )
    [best] = [law for law in laws if law.is_best]
    assert best.peak_ranks
    assert best.peak_ranks.mean > 16
    assert sentence_of(laws, MeasuredSizes("1 to 16 nodes", 1, 16)) == (
        "The universal scalability law describes its throughput best: it has no peak among 1 to 16 nodes."
    )


def test_gustafsons_law() -> None:
    laws = law_summaries("weak", runs(lambda n: 100 * (0.1 + 0.9 * n)))
    said = sentence(laws)
    assert said
    assert said.startswith("Gustafson's law describes its runs best: among 1 to 32 nodes it takes ")


def test_no_loss() -> None:
    said = sentence(law_summaries("strong", runs(lambda n: 100.0 * n)))
    assert said
    assert said.startswith("No loss by more ranks shows beyond the scatter")
    assert "among 1 to 32 nodes" in said


def test_runs_that_no_law_describes() -> None:
    said = sentence(law_summaries("strong", runs(lambda n: 100.0 * n**1.5)))
    assert said == (
        "No scaling law describes its runs: the best of them, linear, misses the means by more than "
        "the runs scatter."
    )


def test_two_sizes_say_nothing_and_the_table_says_why() -> None:
    laws = law_summaries("strong", runs(lambda n: 100.0 * n, sizes=(1, 2)))
    assert sentence(laws) is None
    assert [law.refused for law in laws[1:]] == [
        "The fit takes 3 different sizes, and there are 2.",
        "The fit takes 4 different sizes, and there are 2.",
    ]


def test_no_runs_at_all() -> None:
    laws = law_summaries("strong", [])
    assert sentence(laws) is None
    assert {law.refused for law in laws} == {"No run has a throughput."}
