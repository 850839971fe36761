"""costs.yaml: valid values, and errors."""

from pathlib import Path

import pytest

from argosy.site.costs import Costs, read_costs
from argosy_common.errors import ArgosyError


def read(folder: Path, text: str) -> Costs:
    path = folder / "costs.yaml"
    path.write_text(text)
    return read_costs(path)


def test_all_keys(tmp_path: Path) -> None:
    text = (
        "{price_per_node_hour: 1.5, currency: EUR, carbon_g_per_kwh: 250, pue: 1.3, source: a page}"
    )
    assert read(tmp_path, text) == Costs(
        price_per_node_hour=1.5, currency="EUR", carbon_g_per_kwh=250, pue=1.3, source="a page"
    )


def test_an_empty_file_says_nothing(tmp_path: Path) -> None:
    assert read(tmp_path, "# nothing yet\n") == Costs()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("price_per_node_hour: 1.5", "price_per_node_hour needs a currency"),
        ("pue: 0.9", "pue"),
        ("carbon_g_per_kwh: -1", "carbon_g_per_kwh"),
        ("carbon_g_per_kwh: .inf", "carbon_g_per_kwh"),
        ("carbon: 300", "carbon"),
        ("[", "is not YAML"),
    ],
)
def test_mistakes_name_file_and_key(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ArgosyError) as caught:
        read(tmp_path, text)
    assert "costs.yaml" in str(caught.value)
    assert message in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ArgosyError, match=r"costs\.yaml: No such file"):
        read_costs(tmp_path / "costs.yaml")
