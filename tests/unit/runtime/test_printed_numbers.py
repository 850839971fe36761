"""What is taken for a number, and for samples per second, in what programs print."""

import re

import pytest

from argosy.runtime.agent.processes.printed_numbers import (
    NoNumberError,
    number_of,
    rate_record,
    refused,
)

PLAIN = r"([0-9.]+) samples/s"
ANY = r"(\S+) samples/s"


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


def records(pattern: str, text: str) -> list[float | str]:
    """Rates that are taken, and texts that are refused."""
    found: list[float | str] = []
    for match in re.finditer(pattern, text):
        try:
            record = rate_record(match)
        except NoNumberError as problem:
            if not problem.cut:
                continue
            record = refused(match)
        found.append(record.get("samples_per_second", record.get("text")))
    return found


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        (PLAIN, "100.5 samples/s", [100.5]),
        (PLAIN, "step 7: 100 samples/s, then 0 samples/s", [100.0, 0.0]),
        (ANY, "many samples/s", []),
        (ANY, "1e3 samples/s", [1000.0]),
        # A hyphen is no minus.
        (PLAIN, "rate-5 samples/s", [5.0]),
        (r"rate=([0-9.]+)", "rate=100.5, loss=3", [100.5]),
        (r"rate,(\d+)", "rate,100,32", [100.0]),
        (r"(\d+)\.\d+ samples/s", "100.5 samples/s", [100.0]),
        (r"\$,?(\d+)", "$,100", [100.0]),
    ],
)
def test_rates(pattern: str, text: str, found: list[float]) -> None:
    assert records(pattern, text) == found


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (ANY, "-5 samples/s"),
        (ANY, "nan samples/s"),
        (ANY, "NaN samples/s"),
        (ANY, "inf samples/s"),
        (ANY, "-Infinity samples/s"),
        (ANY, "1e999 samples/s"),
    ],
)
def test_a_number_that_is_no_rate_is_refused(pattern: str, text: str) -> None:
    assert records(pattern, text) == [text]


@pytest.mark.parametrize(
    ("pattern", "text", "piece"),
    [
        (PLAIN, "-5 samples/s", "5 samples/s"),
        (PLAIN, "rate: −5 samples/s", "5 samples/s"),
        (PLAIN, "1,234.5 samples/s", "234.5 samples/s"),
        (PLAIN, "12,345,678 samples/s", "678 samples/s"),
        (r"(\d+) samples/s", "1234.5 samples/s", "5 samples/s"),
        (r"(\d+) samples/s", "1e5 samples/s", "5 samples/s"),
        (r"rate: (\d+)", "rate: 1,234.5", "rate: 1"),
        (r"rate: (\d+)", "rate: 1234.5", "rate: 1234"),
        (r"rate: ([0-9.]+)", "rate: 1.5e3", "rate: 1.5"),
    ],
)
def test_a_piece_of_a_number_is_refused(pattern: str, text: str, piece: str) -> None:
    assert records(pattern, text) == [piece]


def test_what_is_refused_is_told_in_short() -> None:
    [text] = records(r"x*(?:rate) (\S+)", "x" * 1000 + "rate nan")
    assert text == "x" * 100
