"""Make this folder a package, for programs that are started by their path.

Such a program belongs to no package and cannot import the modules beside it. It sets its `__package__`
to `PACKAGE` (PEP 366). Python 3.6, since some nodes have it.
"""

import os
import sys
import types

PACKAGE = "argosy_runtime"

_package = types.ModuleType(PACKAGE)
_package.__path__ = [os.path.dirname(os.path.abspath(__file__))]
sys.modules[PACKAGE] = _package
