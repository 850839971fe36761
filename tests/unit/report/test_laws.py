"""What the report says of scaling laws."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from argosy.report.runs.measurements import Measurement, Point
from argosy.report.topics.laws.says import Laws, MeasuredSizes, law_summaries
from argosy.report.topics.laws.says import sentence as sentence_of

SIZES = (1, 2, 4, 8, 16, 32)

ALL = MeasuredSizes("1 to 32 nodes", 1, 32)


def sentence(laws: Laws) -> str | None:
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
    assert [law.law for law in laws.laws] == ["linear", "amdahl", "usl"]
    said = sentence(laws)
    assert said
    assert said.startswith(
        "Its runs do not contradict Amdahl's law. By this law, for 1 to 32 nodes, the serial "
        "share of the smallest size's time is 5."
    )
    [best] = [law for law in laws.laws if law.is_best]
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
        "Its runs do not contradict the universal scalability law. By this law the throughput is "
        "highest"
    )
    [best] = [law for law in laws.laws if law.is_best]
    assert best.peak_ranks and best.peak_ranks.low and best.peak_ranks.high
    assert best.peak_ranks.low < (0.98 / 0.002) ** 0.5 < best.peak_ranks.high


def test_a_peak_beyond_the_sizes_measured_is_not_said() -> None:
    sizes = (1, 2, 4, 8, 16)
    laws = law_summaries(
        "strong", runs(lambda n: 100 * n / (1 + 0.02 * (n - 1) + 0.002 * n * (n - 1)), sizes)
    )
    [best] = [law for law in laws.laws if law.is_best]
    assert best.peak_ranks
    assert best.peak_ranks.mean > 16
    assert sentence_of(laws, MeasuredSizes("1 to 16 nodes", 1, 16)) == (
        "Its runs do not contradict the universal scalability law. By this law the throughput "
        "has no peak from 1 to 16 nodes."
    )


def test_gustafsons_law() -> None:
    laws = law_summaries("weak", runs(lambda n: 100 * (0.1 + 0.9 * n)))
    said = sentence(laws)
    assert said
    assert said.startswith(
        "Its runs do not contradict Gustafson's law. By this law, for 1 to 32 nodes, the serial "
        "share"
    )


def test_no_loss() -> None:
    said = sentence(law_summaries("strong", runs(lambda n: 100.0 * n)))
    assert said
    assert said == (
        "More ranks show no loss from 1 to 32 nodes: the efficiency at the largest is significantly "
        "above 95 %, and the runs do not contradict the linear law."
    )


def test_what_the_runs_cannot_tell() -> None:
    """Four sizes, a run each, at an efficiency of less than half; and repeats that scatter by a fifth."""
    single = [run for run in runs(lambda n: 100 * n**0.7, (1, 2, 4, 8)) if run.run_id[-1] == "0"]
    laws = law_summaries("strong", single)
    assert not any(law.is_best for law in laws.laws)
    assert sentence(laws) == (
        "No scaling law is chosen: the scatter of the runs is unknown. Measure at least 2 "
        "more runs than sizes (repeats in config.yaml)."
    )
    chance = np.random.default_rng(6)
    wild = [
        replace(run, samples_per_s=100 * run.point.ranks * float(np.exp(0.2 * chance.normal())))
        for run in runs(lambda n: 100.0 * n, (1, 2, 4))
    ]
    laws = law_summaries("strong", wild)
    assert not any(law.is_best for law in laws.laws)
    said = sentence(laws)
    assert said
    assert said.startswith(
        "No scaling law is chosen: the runs cannot show whether more ranks cause a loss"
    )


def test_three_sizes_do_not_tell_amdahl_from_a_peak() -> None:
    laws = law_summaries("strong", runs(lambda n: 100 * n / (1 + 0.05 * (n - 1)), (1, 2, 4)))
    said = sentence(laws)
    assert said
    assert said.startswith("Its runs do not contradict Amdahl's law. ")
    assert said.endswith(
        " The runs cannot distinguish it from at least one other curve: the universal law, which has a "
        "peak, or a cost that grows with the logarithm of the ranks."
    )


def test_a_cost_by_the_logarithm_may_be_the_universal_law() -> None:
    laws = law_summaries("strong", runs(lambda n: 1 / (1 / n + 0.005 * np.log2(n)), SIZES[:4]))
    assert [law.is_alone for law in laws.laws if law.is_best] == [False]
    assert str(sentence(laws)).endswith(
        " The runs cannot distinguish it from a cost that grows with the logarithm of the ranks."
    )


def test_runs_that_no_law_describes() -> None:
    said = sentence(law_summaries("strong", runs(lambda n: 100.0 * n**1.5)))
    assert said == (
        "Its runs contradict each scaling law, which deviates from the means of the sizes by more than the "
        "runs scatter."
    )


def test_two_sizes_say_nothing_and_the_table_says_why() -> None:
    laws = law_summaries("strong", runs(lambda n: 100.0 * n, sizes=(1, 2)))
    assert sentence(laws) is None
    assert [law.refused for law in laws.laws[1:]] == [
        "The fit needs 3 different sizes, but there are 2.",
        "The fit needs 4 different sizes, but there are 2.",
    ]


def test_no_runs_at_all() -> None:
    laws = law_summaries("strong", [])
    assert sentence(laws) is None
    assert {law.refused for law in laws.laws} == {"No run has a throughput."}
