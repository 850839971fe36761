"""Templates are compiled once for an environment, and pages are made where nothing may be kept."""

from pathlib import Path

import jinja2
import pytest

from argosy.report import kept
from argosy.report.comparison import compare
from argosy.report.html import rendered


def page() -> str:
    """A page of no sites at all; it has the layout and the macros of every other."""
    return rendered(
        "comparison.html.j2", comparison=compare({}), findings=lambda _: [], drawing=lambda _: None
    )


def test_a_template_is_compiled_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "folder_of_kept", lambda: tmp_path / "share")
    first = page()
    assert [*(tmp_path / "share").glob("template-*.bin")]

    def compile_again(*_: object) -> None:
        raise AssertionError("a template is compiled again")

    monkeypatch.setattr(jinja2.Environment, "compile", compile_again)
    assert page() == first


def test_a_page_is_made_where_nothing_can_be_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = page()
    (tmp_path / "share").write_text("a file")
    monkeypatch.setattr(kept, "folder_of_kept", lambda: tmp_path / "share")
    assert page() == expected


def test_other_options_are_other_templates() -> None:
    escaping, not_escaping = ({"autoescape": value, "trim_blocks": True} for value in (True, False))
    patterns = {kept.KeptTemplates(options).pattern for options in (escaping, not_escaping)}
    assert len(patterns) == 2


def test_damaged_templates_are_compiled_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept, "folder_of_kept", lambda: tmp_path)
    expected = page()
    templates = [*tmp_path.glob("template-*.bin")]
    assert templates
    for damaged in templates:
        damaged.write_bytes(damaged.read_bytes()[:40])
    assert page() == expected
