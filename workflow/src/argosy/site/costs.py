"""Costs of computing on a site: slurm/<site>/costs.yaml, for the report alone.

It stands beside site.yaml and not in it, so that another price plans no run anew.
"""

from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from argosy.site.values import Text
from argosy.validation import describe
from argosy.yaml_file import read_yaml
from argosy_common.errors import ArgosyError

NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Costs(BaseModel):
    """Prices and carbon; missing values are left out of the report."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    price_per_node_hour: NotNegative | None = None
    currency: Text | None = None
    carbon_g_per_kwh: NotNegative | None = None
    peak_tflops_per_node: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    """Peak in the precision of the training."""
    pue: Annotated[float, Field(ge=1, allow_inf_nan=False)] | None = None
    """Power usage effectiveness: the site's energy divided by its computers' energy."""
    source: Text | None = None
    """Where these numbers come from, for the report."""

    @model_validator(mode="after")
    def price_in_a_currency(self) -> "Costs":
        """Refuse a number alone, which is no price."""
        if self.price_per_node_hour is not None and self.currency is None:
            raise ValueError("price_per_node_hour needs a currency")
        return self


def read_costs(path: Path) -> Costs:
    """Read and validate costs.yaml.

    Raises:
        ArgosyError: when it cannot be read, is not YAML, or holds wrong keys or values.
    """
    try:
        return Costs.model_validate(read_yaml(path) or {})
    except ValidationError as problem:
        raise ArgosyError(describe(problem, path, Costs)) from None
