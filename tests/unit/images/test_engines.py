"""Which engine is chosen, by what was measured."""

import pytest

from argosy.errors import ArgosyError, plain
from argosy.images.engines.choice import Trial, best, caution


def test_the_quickest_of_those_that_work() -> None:
    broken = Trial("P1", said="no proot")
    # A start happens once on a node; the program's calls go on.
    slow_calls = Trial("crun", start_s=0.05, calls_s=3.0)
    slow_start = Trial("R1", start_s=0.30, calls_s=0.1)
    assert best([broken, slow_calls, slow_start]) == slow_start
    assert best([slow_start, Trial("runc", start_s=0.1, calls_s=0.1)]).engine == "runc"


def test_what_does_not_isolate_is_never_taken_for_its_speed() -> None:
    isolating = Trial("R1", start_s=9.0, calls_s=9.0)
    quick = Trial("P2", start_s=0.01, calls_s=0.01)
    assert best([quick, isolating]).engine == "R1"
    # Where nothing else works it is possible, and what it does not protect from is said.
    assert best([quick, Trial("R1", said="forbidden")]).engine == "P2"
    assert "P2 does not isolate" in caution("P2")
    assert caution("R1") == ""


def test_where_none_works_each_has_its_say() -> None:
    trials = [Trial("runc", said="forbidden"), Trial("P1", said="no proot")]
    with pytest.raises(
        ArgosyError, match=r"works on this host \(runc: forbidden; P1: no proot\); ask"
    ):
        best(trials)


def test_what_programs_say_is_quoted_without_colours() -> None:
    said = "\x1b[1;31m2026: cgroups in hybrid mode\x1b[0m \x1b]0;title\x07not \x1b(Bsup\x9bported\x08\r\n"
    assert plain(said) == "2026: cgroups in hybrid mode not supported\n"
    assert str(ArgosyError(f"crun: {said}")) == "crun: 2026: cgroups in hybrid mode not supported"
    assert plain("grüße ✓\tx") == "grüße ✓\tx"
