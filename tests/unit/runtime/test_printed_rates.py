"""Of what a program prints, only samples per second are taken for such."""

import re

import pytest

from argosy.runtime.agent.printed_numbers import NoNumberError, rate_record, refused

PLAIN = r"([0-9.]+) samples/s"
ANY = r"(\S+) samples/s"


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
    ("pattern", "text", "refused"),
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
def test_a_piece_of_a_number_is_refused(pattern: str, text: str, refused: str) -> None:
    assert records(pattern, text) == [refused]


def test_what_is_refused_is_told_in_short() -> None:
    [text] = records(r"x*(?:rate) (\S+)", "x" * 1000 + "rate nan")
    assert text == "x" * 100
