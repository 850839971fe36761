"""Which images each rank of the benchmarks trains on."""

import itertools
import runpy
from pathlib import Path
from typing import Any

import pytest

PROJECT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def image_files() -> dict[str, Any]:
    return runpy.run_path(str(PROJECT / "containers/workloads/image_benchmark/image_files.py"))


def test_ranks_take_other_images_and_each_epoch_has_another_order(
    image_files: dict[str, Any],
) -> None:
    count, batch_size, size = 41, 4, 3
    per_epoch = count // size // batch_size
    first, second = (
        [
            number
            for rank in range(size)
            for batch in itertools.islice(
                image_files["shares"](count, batch_size, rank, size, seed=1),
                epoch * per_epoch,
                (epoch + 1) * per_epoch,
            )
            for number in batch
        ]
        for epoch in (0, 1)
    )
    assert len(first) == per_epoch * batch_size * size == len(set(first)) == len(set(second))
    assert first != second
    again = image_files["shares"](count, batch_size, 0, size, seed=1)
    assert [*next(again), *next(again)] == first[: 2 * batch_size]


def test_classes_are_numbered_by_name(image_files: dict[str, Any], tmp_path: Path) -> None:
    for name in ("b/2.jpg", "b/1.JPEG", "a/3.png", "a/notes.txt", "c/4.jpg", "list.jpg"):
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.touch()
    found = image_files["find_images"](str(tmp_path), classes=3, least=4)
    assert [(Path(each.path).name, each.label) for each in found] == [
        ("3.png", 0),
        ("1.JPEG", 1),
        ("2.jpg", 1),
        ("4.jpg", 2),
    ]


@pytest.mark.parametrize(
    ("classes", "least", "problem"),
    [
        (1, 1, "has 2 classes, and --classes is 1"),
        (2, 4, "has 3 images (.jpg, .jpeg, .png in folders of classes), and one batch of all"),
    ],
)
def test_a_folder_that_does_not_do_is_said(
    image_files: dict[str, Any], tmp_path: Path, classes: int, least: int, problem: str
) -> None:
    for name in ("a/1.jpg", "b/2.jpg", "b/3.jpg"):
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.touch()
    with pytest.raises(SystemExit) as found:
        image_files["find_images"](str(tmp_path), classes, least)
    assert str(found.value).startswith(f"--images {tmp_path} {problem}")


def test_a_folder_that_is_not_there_is_said(image_files: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as found:
        image_files["find_images"](str(tmp_path / "none"), 2, 1)
    assert str(found.value).endswith("none: No such file or directory")
