"""What is taken for a number in what programs print."""

import re

import pytest

from argosy.runtime.agent.printed_numbers import NoNumberError, number_of


def found(pattern: str, line: str) -> float:
    match = re.search(pattern, line)
    assert match
    return number_of(match)


@pytest.mark.parametrize(
    ("pattern", "line", "number"),
    [
        (r"([0-9.]+) samples/s", "at 32.5 samples/s.", 32.5),
        (r"([0-9.]+) samples/s", "step 10: 32 samples/s", 32.0),
        (r"sec: (\S+)", "Img/sec: 1.5e3", 1500.0),
        (r"([\d.,]+) samples/s", "1,234.5 samples/s", 1234.5),
        (r"([\d.,]+) samples/s", "1,234,567 samples/s", 1234567.0),
        (r"([\d.,]+) samples/s", "12,345,678.25 samples/s", 12345678.25),
        # What the pattern matches beside its group is meant.
        (r",([0-9.]+)$", "7,234.5", 234.5),
        (r"^([0-9.]+),", "7,234.5", 7.0),
        (r"([0-9.]+)it/s", "7/9 [00:01<00:02, 3.25it/s]", 3.25),
    ],
)
def test_numbers(pattern: str, line: str, number: float) -> None:
    assert found(pattern, line) == number


@pytest.mark.parametrize(
    ("pattern", "line", "said"),
    [
        (r"([\d.,]+) samples/s", "1,234 samples/s", "1,234, whose comma may separate thousands or"),
        (r"([\d.,]+) samples/s", "12,5 samples/s", "12,5"),
        (r"sec: (\S+)", "Img/sec: many", "many"),
        (r"sec: (\d+)?", "Img/sec: many", "nothing"),
        (r"([\d.]+) samples", "1.2.3 samples", "1.2.3"),
    ],
)
def test_what_is_no_number(pattern: str, line: str, said: str) -> None:
    with pytest.raises(NoNumberError, match=re.escape(said)) as raised:
        found(pattern, line)
    assert not raised.value.cut


@pytest.mark.parametrize(
    ("pattern", "line", "part"),
    [
        (r"([0-9.]+) samples/s", "at 1,234.5 samples/s", "234.5"),
        (r"([0-9]+) samples/s", "at 1234.5 samples/s", "5"),
        (r"throughput: ([0-9.]+)", "throughput: 1,234.5", "1"),
        (r"throughput: ([0-9]+)", "throughput: 32.5", "32"),
        (r"throughput: ([0-9.]+)", "throughput: 1.5e+03", "1.5"),
        (r"([0-9]{3}) samples/s", "1234 samples/s", "234"),
    ],
)
def test_a_part_of_a_number_is_none(pattern: str, line: str, part: str) -> None:
    with pytest.raises(
        NoNumberError, match=f"^{part} of '.*{re.escape(line.rsplit(maxsplit=1)[-1])}'"
    ) as raised:
        found(pattern, line)
    assert raised.value.cut
