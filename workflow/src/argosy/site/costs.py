"""slurm/<site>/costs.yaml: prices and carbon of a site, for the report.

It is separate from site.yaml so that a changed price reruns nothing.
"""

from pathlib import Path
from typing import Annotated

from pydantic import Field, model_validator

from argosy.site.values import Text
from argosy.validation import Model, validated
from argosy.yaml_file import read_yaml

NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Costs(Model):
    """Prices and carbon; the report omits missing values."""

    price_per_node_hour: NotNegative | None = None
    currency: Text | None = None
    carbon_g_per_kwh: NotNegative | None = None
    peak_tflops_per_node: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    """Peak TFLOP/s of a node in the training's precision."""
    pue: Annotated[float, Field(ge=1, allow_inf_nan=False)] | None = None
    """Power usage effectiveness: the site's energy divided by its computers' energy."""
    source: Text | None = None
    """Source of these numbers, for the report."""

    @model_validator(mode="after")
    def price_in_a_currency(self) -> "Costs":
        if self.price_per_node_hour is not None and self.currency is None:
            raise ValueError("price_per_node_hour needs a currency")
        return self


def read_costs(path: Path) -> Costs:
    """Read and validate costs.yaml.

    Raises:
        ArgosyError: if it is unreadable, not YAML, or has wrong keys or values.
    """
    return validated(read_yaml(path) or {}, path, Costs)
