"""Prepares a rank's Python: stacks for the agent (argosy_stacks.py), and its exit (argosy_exit.py).

Python imports the first `sitecustomize` of its path in every process. This one then replaces itself by
the module that Python would have found otherwise, or by none.
"""

import importlib.machinery
import os
import sys

try:
    import argosy_exit
    import argosy_stacks

    argosy_exit.register()
    argosy_stacks.register()
except Exception:  # in any Python, even an old one: the program must not be affected
    pass

_here = os.path.dirname(os.path.abspath(__file__))
_path = [entry for entry in sys.path if os.path.abspath(entry) != _here]
_spec = importlib.machinery.PathFinder.find_spec(__name__, _path)
if _spec is None or _spec.loader is None:
    # site.py handles this error as a missing module.
    raise ImportError("No module named " + repr(__name__), name=__name__)
import importlib.util  # noqa: E402 - takes a millisecond, and most processes do not need it

_module = importlib.util.module_from_spec(_spec)
sys.modules[__name__] = _module
_spec.loader.exec_module(_module)
