"""Values of variables that are secret by their names: they are in no table, and so in no report."""

import re
from typing import Any

SECRET_NAME = re.compile(
    r"(?:^|_)(?:TOKEN|SECRET|PASSWORD|PASSWD|APIKEY|API_KEY|ACCESS_KEY|CREDENTIALS?)(?:_|$)", re.I
)
HIDDEN = "hidden"


def without_secrets(value: Any) -> Any:
    """Return a value of JSON with `hidden` in place of each text whose key is a secret's name."""
    if isinstance(value, list):
        return [without_secrets(each) for each in value]
    if isinstance(value, dict):
        return {
            key: HIDDEN
            if SECRET_NAME.search(key) and isinstance(each, str)
            else without_secrets(each)
            for key, each in value.items()
        }
    return value
