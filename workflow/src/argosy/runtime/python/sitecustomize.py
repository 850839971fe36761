"""Prepare this process, and give way.

Its Python stacks are at hand for the agent (argosy_stacks.py), and it ends well (argosy_exit.py).

Python imports the first `sitecustomize` of its path by itself, in every process of a rank. This one
leaves no trace: it is replaced by the one that Python would have found without it, or by none.
"""

import importlib.machinery
import os
import sys

try:
    import argosy_exit
    import argosy_stacks

    argosy_exit.register()
    argosy_stacks.register()
except Exception:  # of any Python, however old: what a program says and does must not change
    pass

_here = os.path.dirname(os.path.abspath(__file__))
_path = [entry for entry in sys.path if os.path.abspath(entry) != _here]
_spec = importlib.machinery.PathFinder.find_spec(__name__, _path)
if _spec is None or _spec.loader is None:
    # As site.py expects it where there is no such module.
    raise ImportError("No module named " + repr(__name__), name=__name__)
import importlib.util  # noqa: E402 - it takes a millisecond that most processes need not spend

_module = importlib.util.module_from_spec(_spec)
sys.modules[__name__] = _module
_spec.loader.exec_module(_module)
