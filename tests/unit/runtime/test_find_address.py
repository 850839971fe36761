"""A node's address in the job's network."""

import pytest

from argosy.runtime.find_address import main


def test_an_interface_has_its_address(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lo"]) == 0
    assert main(["lo", ""]) == 0
    assert capsys.readouterr().out == "127.0.0.1\n127.0.0.1\n"


def test_an_interface_that_there_is_not_names_those_that_there_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["ib7"]) == 2
    said = capsys.readouterr().err
    assert "the site's `interface` is ib7, but node" in said
    assert "lo" in said.partition("it has")[2]


def test_a_suffixed_name_without_an_address_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lo", "-nowhere.invalid"]) == 2
    assert "the site's `host_suffix` makes this node's name" in capsys.readouterr().err
