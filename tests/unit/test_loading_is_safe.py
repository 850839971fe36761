"""What is loaded from files in workloads, in the runtime and in the pages' examples is data, never code."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]

SAFE = {
    r"\btorch\.load\(": "weights_only=True",
    r"\bload_model\(": "safe_mode=True",
    r"\b(?:np|numpy)\.load\(": "allow_pickle=False",
    r"\b(?:c?[pP]ickle|dill|joblib|shelve)\.(?:loads?|open|Unpickler)\(": "nothing: it runs what it reads",
}


def calls(text: str) -> Iterator[tuple[str, str]]:
    """Each call that loads something, with what has to stand among its arguments."""
    for pattern, wanted in SAFE.items():
        for found in re.finditer(pattern, text):
            depth, end = 1, found.end()
            while depth and end < len(text):
                depth += {"(": 1, ")": -1}.get(text[end], 0)
                end += 1
            yield text[found.start() : end], wanted


def sources() -> list[Path]:
    folders = ("containers", "docs", "workflow/src/argosy/runtime", "tests/slurm/programs")
    found = [path for folder in folders for path in (PROJECT / folder).rglob("*")]
    return [PROJECT / "README.md", *(path for path in found if path.suffix in (".py", ".md"))]


def test_nothing_that_is_loaded_can_run() -> None:
    seen = [
        (str(path.relative_to(PROJECT)), call, wanted)
        for path in sources()
        for call, wanted in calls(path.read_text())
    ]
    assert len(seen) >= 3
    assert not [each for each in seen if each[2] not in each[1]]


@pytest.mark.parametrize(
    "text", ["torch.load(f(x), 1)", "np.load(a)", "keras.models.load_model(p)", "pickle.load(f)"]
)
def test_unsafe_calls_are_found(text: str) -> None:
    [(call, wanted)] = calls(f"x = {text} + 1")
    assert call in text
    assert wanted not in call


def test_a_package_that_comes_as_source_is_proved_before_its_setup_runs() -> None:
    files = (PROJECT / "containers").glob("*/Containerfile")
    commands = [each for file in files for each in file.read_text().replace("\\\n", "").split("&&")]
    from_source = [command for command in commands if "--no-binary" in command]
    assert from_source
    assert all("--require-hashes" in command for command in from_source)
