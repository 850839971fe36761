"""Hides secrets in tables and reports: values of variables such as HF_TOKEN, and passwords in addresses."""

import re
from typing import Any

SECRET_NAME = re.compile(
    r"(?:^|_)(?:TOKEN|SECRET|PASSWORD|PASSWD|APIKEY|API_KEY|ACCESS_KEY|CREDENTIALS?)(?:_|$)", re.I
)
_PASSWORD = re.compile(r"(://[^\s/:@]*:)[^\s/@]+(?=@)")
HIDDEN = "hidden"


def without_secrets(value: Any) -> Any:
    """Return a JSON value with `hidden` in place of each secret: the text of such a key, or a password."""
    if isinstance(value, str):
        return _PASSWORD.sub(rf"\1{HIDDEN}", value)
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
