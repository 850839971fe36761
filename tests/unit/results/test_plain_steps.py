"""The compiled reader of steps against Python's own reader of JSON."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from argosy.results.plain_steps import Place, PlainSteps, is_compiled, read_plain_steps
from argosy.results.records import MOST_SAMPLES, MOST_STEP
from argosy.results.tables import PHASES

NUMBER = st.integers(0, MOST_STEP)
SAMPLES = st.integers(0, MOST_SAMPLES)
REAL = st.floats(0, 1e300) | st.integers(0, 10**18).map(float)
KEYS = ("kind", "step", "epoch", "start", "seconds", "samples", "phases")
STEPS = st.builds(
    lambda *values: dict(zip(KEYS, values, strict=True)),
    *(st.just("step"), NUMBER, NUMBER, REAL, REAL, SAMPLES),
    st.dictionaries(st.sampled_from(PHASES), REAL),
)
STEP = {"kind": "step", "step": 1, "epoch": 0, "start": 1.5, "seconds": 0.25, "samples": 32}


def read(path: Path, text: bytes, begin: int = 0, end: int | None = None) -> PlainSteps:
    path.write_bytes(text)
    return read_plain_steps([Place(str(path), begin, len(text) if end is None else end)])


def rows(read: PlainSteps) -> list[dict[str, Any]]:
    """As the lines were before they were written."""
    names = ("step", "epoch", "start", "seconds", "samples")
    return [
        {"kind": "step"}
        | {name: getattr(read, name)[row].item() for name in names}
        | {
            "phases": {
                name: values[row].item()
                for name, values in read.phases.items()
                if not math.isnan(values[row])
            }
        }
        for row in range(len(read.step))
    ]


def test_it_was_compiled() -> None:
    assert is_compiled()


@settings(deadline=None)
@given(steps=st.lists(STEPS))
def test_what_the_recorder_writes_is_read_to_the_last_digit(
    tmp_path_factory: pytest.TempPathFactory, steps: list[dict[str, Any]]
) -> None:
    text = "".join(json.dumps(step) + "\n" for step in steps)
    found = read(tmp_path_factory.getbasetemp() / "steps", text.encode())
    assert rows(found) == steps
    assert found.others.tolist() == [0]


@settings(deadline=None)
@given(
    digits=st.integers(0, 10**24), point=st.integers(0, 24), power=st.none() | st.integers(-330, 30)
)
def test_a_number_of_any_length_is_the_nearest_double(
    tmp_path_factory: pytest.TempPathFactory, digits: int, point: int, power: int | None
) -> None:
    text = f"{digits:0{point + 1}d}"
    text = f"{text[: len(text) - point]}.{text[len(text) - point :]}" if point else text
    text += "" if power is None else f"e{power}"
    line = json.dumps({**STEP, "phases": {}}).replace("0.25", text)
    found = read(tmp_path_factory.getbasetemp() / "number", line.encode())
    assert found.seconds.tolist() == [float(text)]


@pytest.mark.parametrize(
    "text",
    [
        # In the middle between two doubles, and a little beside it.
        "9007199254740993.0",
        "9007199254740995.0",
        "9007199254740993.00000000000000000001",
        "9007199254740992.99999999999999999999",
        "1.00000000000000011102230246251565404236316680908203125",
        "1.00000000000000011102230246251565404236316680908203124",
        "0.500000000000000055511151231257827021181583404541015625",
        "5e-324",
        "1e300",
        "0.0",
        "0.1",
        "1E5",
        "1e+5",
    ],
)
def test_a_number_that_is_hard_to_round(tmp_path: Path, text: str) -> None:
    line = json.dumps({**STEP, "phases": {}}).replace("0.25", text)
    assert read(tmp_path / "number", line.encode()).seconds.tolist() == [float(text)]


@pytest.mark.parametrize(
    "number", ["-1.0", "NaN", "Infinity", "1.", ".5", "01.5", "1e", "1e+", "0x1p1", "1e301", "null"]
)
def test_what_is_no_number_makes_no_step(tmp_path: Path, number: str) -> None:
    line = json.dumps({**STEP, "phases": {}}).replace("0.25", number)
    found = read(tmp_path / "number", line.encode())
    assert (len(found.step), found.others.tolist()) == (0, [1])


@pytest.mark.parametrize("key", ["step", "epoch"])
def test_a_step_of_more_than_31_bits_is_left_to_others(tmp_path: Path, key: str) -> None:
    line = json.dumps({**STEP, key: MOST_STEP + 1, "phases": {}})
    assert read(tmp_path / "number", line.encode()).others.tolist() == [1]


@pytest.mark.parametrize(
    "number", [str(MOST_SAMPLES + 1), "99999999999999999999", "01", "1.0", "-5", "32.5", "NaN"]
)
def test_what_is_no_whole_number_of_15_digits_makes_no_step(tmp_path: Path, number: str) -> None:
    line = json.dumps({**STEP, "phases": {}}).replace("32", number)
    assert read(tmp_path / "number", line.encode()).others.tolist() == [1]


@pytest.mark.parametrize(
    "phases", ['{"data": 1, "data": 2}', '{"data": 1, }', '{"data": 1', '{"dat": 1}', "null", "[]"]
)
def test_what_are_no_phases_makes_no_step(tmp_path: Path, phases: str) -> None:
    line = json.dumps({**STEP, "phases": {}}).replace("{}", phases)
    assert read(tmp_path / "phases", line.encode()).others.tolist() == [1]


def test_where_other_lines_are(tmp_path: Path) -> None:
    step = json.dumps({**STEP, "phases": {"update": 0.125}}).encode() + b"\n"
    others = b"\n" + b"\0\xff\n" + b'{"kind": "metric"}\n'
    long = b"x" * 1_000_000 + b"\n"
    text = others + step + long + step + b'{"cut off'
    found = read(tmp_path / "mixed", text)
    assert rows(found) == [json.loads(step)] * 2
    assert found.others.tolist() == [5]
    places = [text[begin:end] for begin, end in found.other_runs[0].tolist()]
    assert places == [others, long, b'{"cut off']


@pytest.mark.parametrize("is_ended", [True, False])
def test_each_line_is_in_one_part_wherever_the_parts_begin(tmp_path: Path, is_ended: bool) -> None:
    lines = [json.dumps({**STEP, "step": number, "phases": {}}) for number in range(5)]
    lines.insert(2, "other")
    text = ("\n".join(lines) + "\n" * is_ended).encode()
    path = tmp_path / "parts"
    for middle in range(len(text) + 1):
        parts = [read(path, text, 0, middle), read(path, text, middle, len(text))]
        assert [step for part in parts for step in part.step.tolist()] == [*range(5)]
        [place] = [place for part in parts for place in part.other_runs[0].tolist()]
        assert text[slice(*place)] == b"other\n"


def test_parts_of_a_file_larger_than_the_window(tmp_path: Path) -> None:
    lines = [json.dumps({**STEP, "step": number, "phases": {}}) for number in range(10_000)]
    lines[5000] = "x" * 600_000
    text = ("\n".join(lines) + "\n").encode()
    path = tmp_path / "parts"
    for size in (100_000, 262_144, 700_000):
        parts = [
            read(path, text, begin, min(begin + size, len(text)))
            for begin in range(0, len(text), size)
        ]
        found = [step for part in parts for step in part.step.tolist()]
        assert found == [*range(5000), *range(5001, 10_000)]
        [place] = [place for part in parts for place in part.other_runs[0].tolist()]
        assert place[1] - place[0] == 600_001


def test_several_files_at_once(tmp_path: Path) -> None:
    step = json.dumps({**STEP, "phases": {"data": 0.125}}) + "\n"
    # What is other in the third ends where it begins in the fourth.
    long = "b" * (len(step) - 1) + "\n"
    texts = ("a\n" + step, "", long, step + "cc\n" + step * 2)
    places = []
    for number, text in enumerate(texts):
        path = tmp_path / str(number)
        path.write_text(text)
        places.append(Place(str(path), 0, len(text)))
    found = read_plain_steps(places)
    assert rows(found) == [json.loads(step)] * 4
    assert found.counts.tolist() == [1, 0, 0, 3]
    assert found.others.tolist() == [1, 0, 1, 1]
    others = [
        text[begin:end]
        for text, runs in zip(texts, found.other_runs, strict=True)
        for begin, end in runs.tolist()
    ]
    assert others == ["a\n", long, "cc\n"]


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nothing"):
        read_plain_steps([Place(str(tmp_path / "nothing"), 0, 10)])
