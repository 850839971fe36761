"""Reasons why a step has to run again."""

from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from argosy.cli.image_tables import of_findings
from argosy_images.builder import history
from argosy_images.builder.history import History, compare, explain
from argosy_images.builder.recipe import Chain, plan
from argosy_images.store.store import Store

TEXT = """\
FROM scratch AS tools
COPY tool /tool
FROM debian:bookworm
ENV MODE=fast
RUN echo one
COPY src /src/
COPY --from=tools /tool /bin/tool
RUN echo two
"""


class Project:
    """An image whose build is only recorded."""

    def __init__(self, folder: Path) -> None:
        self.store = Store(folder / ".argosy")
        self.folder = folder / "containers" / "image"
        (self.folder / "src").mkdir(parents=True)
        (self.folder / "tool").write_text("tool")
        (self.folder / "src" / "a.py").write_text("a")
        self.write(TEXT)
        self.cached: set[str] = set()

    def write(self, text: str) -> None:
        (self.folder / "Containerfile").write_text(text)

    def plan(self) -> Chain:
        return plan(self.folder).final

    def build(self, *, fails_at: str | None = None) -> None:
        history.record(self.store, "image", self.plan())
        for chain in reversed(self.plan().with_used()):
            for step in chain.steps:
                if step.entry.text == fails_at:
                    return
                self.cached.add(step.key)

    def why(self) -> dict[str, tuple[str, ...]]:
        last = history.read(self.store, "image")
        found = explain(self.plan(), last, self.cached.__contains__)
        return {finding.instruction: finding.reasons for finding in found if finding.reasons}


@pytest.fixture
def image(tmp_path: Path) -> Project:
    project = Project(tmp_path)
    project.build()
    return project


ABOVE = "a step above it has to run again"


def test_after_a_build_all_is_cached(image: Project) -> None:
    assert image.why() == {}


def test_before_the_first_build_it_says_so(tmp_path: Path) -> None:
    found = Project(tmp_path).why()
    assert len(found) == 6
    assert set(found.values()) == {("it has never been built",)}


def test_a_changed_a_new_and_a_missing_file_are_named(image: Project) -> None:
    (image.folder / "src" / "a.py").write_text("other")
    (image.folder / "src" / "b.py").write_text("b")
    found = image.why()
    assert found["COPY src /src/"] == ("file src/a.py changed", "file src/b.py is new")
    assert found["RUN echo two"] == (ABOVE,)
    assert "RUN echo one" not in found
    image.build()
    (image.folder / "src" / "b.py").unlink()
    assert image.why()["COPY src /src/"] == ("file src/b.py is gone",)


def test_a_changed_variable_is_named_where_a_step_sees_it(image: Project) -> None:
    image.write(TEXT.replace("MODE=fast", "MODE=slow"))
    found = image.why()
    assert found["RUN echo one"] == ("variable MODE changed",)
    assert found["COPY src /src/"] == (ABOVE,)
    assert found["RUN echo two"] == ("variable MODE changed", ABOVE)


def test_a_changed_command_is_told_from_a_new_one(image: Project) -> None:
    image.write(
        TEXT.replace("echo one", "echo 1").replace("RUN echo two", "RUN true\nRUN echo two")
    )
    found = image.why()
    assert found["RUN echo 1"] == ("command changed",)
    assert found["RUN true"] == ("it was not in the last build",)
    assert found["RUN echo two"] == (ABOVE,)


def test_a_changed_stage_is_named(image: Project) -> None:
    (image.folder / "tool").write_text("better")
    found = image.why()
    assert found["COPY tool /tool"] == ("file tool changed",)
    assert found["COPY --from=tools /tool /bin/tool"] == ("stage tools changed",)


def test_a_step_taken_away_is_told_to_the_next(image: Project) -> None:
    image.write(TEXT.replace("COPY src /src/\n", ""))
    found = image.why()
    copy = found["COPY --from=tools /tool /bin/tool"]
    assert copy == ("the steps above it differ from those of the last build",)


def test_another_base_is_named_and_hides_what_it_would_set(image: Project) -> None:
    image.write(TEXT.replace("bookworm", "trixie"))
    found = image.why()
    assert found["FROM debian:trixie"] == ("reference changed",)
    assert found["RUN echo one"] == (ABOVE,)


def test_a_failed_build_explains_what_it_left(image: Project) -> None:
    image.write(TEXT.replace("echo two", "false"))
    image.build(fails_at="RUN false")
    assert image.why() == {
        "RUN false": ("the last build did not finish it, or it has been pruned since",)
    }


def test_many_changes_are_counted() -> None:
    now = {f"file {number}": "" for number in range(8)}
    assert compare({}, now)[-1] == "and 3 more"
    assert len(compare({}, now)) == 6


def test_a_damaged_record_is_as_good_as_none(image: Project) -> None:
    image.store.history("image").write_text('{"chains": 3}')
    assert history.read(image.store, "image") is None
    assert isinstance(history.read(image.store, "other"), History | None)


def test_a_step_of_another_image_is_named_by_that_images_file(tmp_path: Path) -> None:
    for name, text in (
        ("wheel", "FROM scratch\nCOPY a /\n"),
        ("mine", "FROM localhost/wheel\nCOPY a /b\n"),
    ):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a").write_text(name)
        (tmp_path / name / "Containerfile").write_text(text)
    final = plan(tmp_path / "mine").final
    found = [(each.image, each.line) for each in explain(final, None, lambda _: True)]
    assert found == [("wheel", 2), ("mine", 2)]
    shown = StringIO()
    table = of_findings("mine", explain(final, None, lambda _: True))
    Console(file=shown, width=100).print(*table, sep="\n")
    assert "wheel:2  COPY" in shown.getvalue()
