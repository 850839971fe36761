"""Reading files that say nobody may, as images hold them."""

import os
from collections.abc import Callable

from argosy.errors import ArgosyError
from argosy.images.namespaces import in_own_namespaces


def unhindered(function: Callable[[], str]) -> str:
    """Call it where permissions of our own files stand in nobody's way, as far as this host lets us.

    Raises:
        ArgosyError: as the function raises it.
    """
    if os.geteuid() == 0:
        return function()
    try:
        in_own_namespaces(lambda: "")
    except ArgosyError:
        # Most images have no such file.
        return function()
    return in_own_namespaces(function)
