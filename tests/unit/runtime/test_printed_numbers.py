"""Parsing of numbers and rates in printed lines."""

import math
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from argosy.runtime.agent.processes.printed_numbers import (
    NoNumberError,
    number_of,
    rate_of,
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
        (r"([0-9.]+)it/s", "7/9 [00:01<00:02, 3.25it/s]", 3.25),
        (r"([\d,]+) samples/s", "12,34,567 samples/s", 1234567.0),
        (r"([\d._']+) samples/s", "1_234.5 samples/s", 1234.5),
        (r"([\d._']+) samples/s", "1'234.5 samples/s", 1234.5),
        (r"([\d\s]+) samples/s", "1\u202f234 samples/s", 1234.0),
        (r"(\d+) samples/s", "１２３ samples/s", 123.0),
        (r"(\S+) img/s", "1.2k img/s", 1200.0),
        (r"([0-9.]+ ?[kKMG]?)", "14.5K tks/s", 14500.0),
        (r"([0-9.]+ ?[kKMG]?)", "12.3 M img/s", 12.3e6),
        # Lists, tables, times and names beside a number do not belong to it.
        (r",([0-9.]+)$", "0,10,2.3026,812.4", 812.4),
        (r"\[([0-9]+)", "[1, 234]", 1.0),
        (r"([0-9.]+)$", "1, 234", 234.0),
        (r"([0-9.]+) img", "2026-11-28 12:30:45,123 512.5 img/s", 512.5),
        (r"([0-9.]+) img", "2026-11-28 123.4 img/s", 123.4),
        (r"([0-9.]+) img", "loss 0.5 100 img/s", 100.0),
        (r"([0-9.]+) img", "0 512.5 img/s", 512.5),
        (r"([0-9.]+) img", "step 100 512.5 img/s", 512.5),
        (r"([0-9.]+) img", "Epoch: 3 512.5 img/s", 512.5),
        (r"([0-9.]+) img", "gpu0 512.5 img/s", 512.5),
        (r"([0-9.]+) img", "lr 1e-3 512.5 img/s", 512.5),
        (r"([0-9.]+) img", "100/500 512.5 img/s", 512.5),
        (r":([0-9.]+) img", "gpu0:51.3 img/s", 51.3),
        (r"second': '?([0-9.]+)", "{'train_samples_per_second': '81.001'}", 81.001),
        (r"ips: ([0-9.]+)", "ips: 512.3 Time 0.5", 512.3),
        (r"ips: ([0-9.]+)", "ips: 512.3 G: 0.5 D: 0.7", 512.3),
        (r"([0-9.]+)", "1234 Tokens/s", 1234.0),
        (r"([0-9.]+) ?k", "250 keys/s", 250.0),
        (r"([0-9.]+)", "100 GPUs", 100.0),
        (r"([0-9.]+) B/s", "512 B/s", 512.0),
        (r"rate is ([0-9.]+)", "The rate is 512.5.", 512.5),
        (r"ips ([0-9.]+)", "ips 512 B 64", 512.0),
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
        (r"throughput.*([0-9.]+) samples/s", "throughput 1234.5 samples/s", "5"),
        (r"throughput.*([0-9.]+) samples/s", "throughput 201.0 samples/s", "0"),
        (r"\d*([0-9.]+) samples/s", "throughput 1234.5 samples/s", ".5"),
        (r"(\d+)\S* samples/s", "throughput 1234.5 samples/s", "1234"),
        (r"(?<=\.)(\d+) samples/s", "1234.5 samples/s", "5"),
        (r"(\d+)(?=\.).* samples/s", "1234.5 samples/s", "1234"),
        (r",([0-9.]+) samples/s", "7,234.5 samples/s", "234.5"),
        (r"^([0-9.]+),.* samples/s", "7,234.5 samples/s", "7"),
        (r"([0-9.]+) samples/s", "12,34,567.8 samples/s", "567.8"),
        (r"([0-9.]+) samples/s", "1_234.5 samples/s", "234.5"),
        (r"([0-9.]+) samples/s", "at 1 234.5 samples/s", "234.5"),
        (r"([0-9.]+) samples/s", "rate:1 234.5 samples/s", "234.5"),
        (r"([0-9.]+) samples/s", "1'234.5 samples/s", "234.5"),
        (r"([0-9.]+) samples/s", "1’234.5 samples/s", "234.5"),
        (r"([0-9.]+) samples/s", "at 1\u066c234 samples/s", "234"),
        (r"([0-9]+) samples/s", "１２34 samples/s", "34"),
        (r"([0-9.]+)k? img/s", "1.2k img/s", "1.2"),
        (r"([0-9.]+) ?k? img/s", "1.2 k img/s", "1.2"),
        (r"([0-9.]+) *M? img/s", "12.3 M img/s", "12.3"),
        (r"([0-9.]+).*it/s", "1.20kit/s", "1.20"),
        (r"([0-9.]+).*img/s", "2.05Mimg/s", "2.05"),
        (r"([0-9.]+[kKMT]?).*ens/s", "250Tokens/s", "250T"),
        (r"([0-9.]+).*img/s", "1.2万 img/s", "1.2"),
        (r"([0-9.]+).*tok", "1.5m tok/s", "1.5"),
        (r"([0-9.]+).*tok", "1.5B tok/s", "1.5"),
        (r"([0-9.]+).*tok", "1.2 ktok/s", "1.2"),
        (r"([0-9.]+)", "12.3 MB/s", "12.3"),
        (r"([0-9.]+)", "85.2%", "85.2"),
        (r"([0-9.]+)", "85.2 %", "85.2"),
        (r"([0-9.]+)", "3/7", "3"),
        (r"/([0-9.]+)", "3/7", "7"),
        (r"([0-9.]+)", "1:02", "1"),
        (r":([0-9.]+)", "1:02", "02"),
        (r"([0-9.]+)", "1m30s", "1"),
        (r"([0-9.]+)", "0x1f4", "0"),
        (r"x([0-9a-f]+)", "0x1f4", "1f4"),
        (r"([0-9]\.[0-9])", "1.2.3", "1.2"),
        (r"([0-9.]+)", "1½", "1"),
        (r"([0-9.]+).*", "1.5×10³", "1.5"),
        (r"\^([0-9]+)", "1.5x10^3", "3"),
        (r"-([0-9]+)", "100-200", "200"),
        (r"([0-9]+) samples/s", ".5 samples/s", "5"),
    ],
)
def test_a_part_of_a_number_is_none(pattern: str, line: str, part: str) -> None:
    with pytest.raises(
        NoNumberError,
        match=f"^{re.escape(part)} of ['\"].*{re.escape(line.rsplit(maxsplit=1)[-1])}['\"]",
    ) as raised:
        found(pattern, line)
    assert raised.value.cut


def records(pattern: str, text: str) -> list[float | str]:
    """Return the rates, and the reasons against unreadable ones."""
    found: list[float | str] = []
    for match in re.finditer(pattern, text):
        try:
            found.append(rate_of(match))
        except NoNumberError as problem:
            found.append(str(problem))
    return found


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        (PLAIN, "100.5 samples/s", [100.5]),
        (PLAIN, "step 7: 100 samples/s, then 0 samples/s", [100.0, 0.0]),
        (ANY, "many samples/s", ["many"]),
        (ANY, "1e3 samples/s", [1000.0]),
        # A hyphen is no minus sign.
        (PLAIN, "rate-5 samples/s", [5.0]),
        (r"rate=([0-9.]+)", "rate=100.5, loss=3", [100.5]),
        (r"\$,?(\d+)", "$,100", [100.0]),
    ],
)
def test_rates(pattern: str, text: str, found: list[float | str]) -> None:
    assert records(pattern, text) == found


@pytest.mark.parametrize("text", ["-5", "\u22125", "nan", "NaN", "inf", "-Infinity", "1e999"])
def test_a_number_that_is_no_rate_is_refused(text: str) -> None:
    assert records(ANY, f"{text} samples/s") == [f"{text}, which is not a throughput"]


@pytest.mark.parametrize("text", ["-5 samples/s", "rate: −5 samples/s", "[10]-5 samples/s"])
def test_a_sign_outside_of_the_group_is_no_rate(text: str) -> None:
    assert records(PLAIN, text) == [f"5 of {text!r}"]


# Separators of thousands in numbers of people and programs.
GROUPED = [",", "_", "'", "’", " ", "\u00a0", "\u202f", "\u2009", "\u066c", "˙", "ʼ"]
FULL_WIDTH = str.maketrans("0123456789.", "０１２３４５６７８９．")
ARABIC = str.maketrans("0123456789.", "٠١٢٣٤٥٦٧٨٩٫")


def written(number: float) -> st.SearchStrategy[str]:
    """Return notations of a number; each has this value or is unreadable."""
    plain, fixed = f"{number:g}", f"{number:.2f}"
    return st.sampled_from(
        [
            *(plain, fixed, f"{number:e}", f"{number:.6E}", f"+{fixed}"),
            *(f"{number:,.2f}".replace(",", sign) for sign in GROUPED),
            *(fixed.translate(FULL_WIDTH), fixed.translate(ARABIC), fixed.replace(".", ",")),
            f"{number:,.2f}".translate(str.maketrans(",.", ".,")),
            *(f"{number / 1000:.6g}k", f"{number / 1000:.6g}K", f"{number / 1e6:.9g} M"),
            *(f"{number / 1000:.6g}k", f"{number / 1e9:.12g}G"),
        ]
    )


# Texts that contain no rate.
NO_RATES = ["-1234.5", "−1234.5", "12.5%", "12.5 %", "123/456", "1:02:03", "0x4d2", "1.2.3", "12½"]
BEFORE = [
    "",
    ".*",
    ".*?",
    ".+",
    r"\d*",
    r"\S*",
    "[^ ]*",
    "rate[ =:]*",
    r"(?<=[ ,.=])",
    "^.",
    ".*[ ,.]",
]
BEFORE += [r"(?:\d+[ ,._'])?", r"(?:rate )?\d?", "(?:.*(?=[0-9]{2}))?", r"[\d,.]*?"]
GROUPS = [
    "[0-9.]+",
    "[0-9]+",
    r"\d+",
    r"[\d.,]+",
    r"\S+",
    "[0-9.]+?",
    "[0-9]{1,3}",
    "[0-9.]+k?",
    ".+?",
]
GROUPS += [r"[\d.,'’_ ]+", "[-+0-9.e]+", "[0-9.]*", "[0-9]+[.][0-9]"]
AFTER = [
    "",
    " samples/s",
    ".*",
    r"\S*",
    ".*?s",
    r"(?=\D)",
    r"\d*",
    "k?.*",
    r"[^a-z]*",
    "[ ,.]?",
    r"(?!\d)",
]
LINES = [
    "rate {} samples/s",
    "{} samples/s",
    "rate={}img/s",
    "rate: '{}'",
    "[{}]",
    "rate {}, loss",
    "({})",
]


PATTERNS = st.builds(
    "{}({}{}){}".format,
    st.sampled_from(BEFORE),
    st.sampled_from(["", "?P<rate>"]),
    st.sampled_from(GROUPS),
    st.sampled_from(AFTER),
)


@settings(max_examples=1500, deadline=None)
@given(st.data(), st.floats(1, 9_999_999), PATTERNS, st.sampled_from(LINES))
def test_whatever_the_pattern_the_number_is_the_printed_one_or_none(
    data: st.DataObject, number: float, pattern: str, line: str
) -> None:
    number = round(number, 2)
    text = line.format(data.draw(written(number)))
    for match in re.finditer(pattern, text):
        try:
            found = number_of(match)
        except NoNumberError:
            continue
        assert math.isclose(found, number, rel_tol=1e-4), (pattern, text, found)


@settings(max_examples=1000, deadline=None)
@given(st.sampled_from(NO_RATES), PATTERNS, st.sampled_from(LINES))
def test_whatever_the_pattern_what_is_no_rate_gives_none(
    text: str, pattern: str, line: str
) -> None:
    for match in re.finditer(pattern, line.format(text)):
        with pytest.raises(NoNumberError):
            rate_of(match)


def test_what_is_shown_of_a_long_line_is_short() -> None:
    [said] = records(r"x*(?:rate) (\S+)", "x" * 1000 + "rate 5-7" + "y" * 1000)
    assert len(said) < 1200
    [said] = records(r".*rate.*([0-9])", "x" * 1000 + "rate 57 " + "y" * 1000)
    assert len(said) < 80
