"""A node's address in the job's network."""

import pytest

from argosy.runtime.find_address import main


def test_an_interface_has_its_address(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["1", "lo"]) == 0
    assert main(["1", "lo", ""]) == 0
    assert capsys.readouterr().out == "127.0.0.1\n127.0.0.1\n"


def test_an_interface_that_there_is_not_names_those_that_there_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["2", "ib7"]) == 2
    said = capsys.readouterr().err
    assert "the site's `interface` is ib7, but node" in said
    assert "lo" in said.partition("it has")[2]


def test_a_suffixed_name_without_an_address_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["1", "lo", "-nowhere.invalid"]) == 2
    assert "the site's `host_suffix` makes this node's name" in capsys.readouterr().err


def test_an_address_that_leads_to_no_other_node_is_refused(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ARGOSY_SITE_FILE", "slurm/kestrel/site.yaml")
    assert main(["2", "lo"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("argosy: slurm/kestrel/site.yaml: `interface` gives node ")
    assert "127.0.0.1, which leads to no other node, and the job has 2" in captured.err
