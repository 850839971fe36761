"""Make this folder a package, for programs that are started by their path.

Such a program belongs to no package and could not import the modules beside it. It takes `PACKAGE` as its
`__package__` (PEP 366). Python 3.6, as some nodes have it.
"""

import os
import sys
import types

PACKAGE = "argosy_runtime"

_package = types.ModuleType(PACKAGE)
_package.__path__ = [os.path.dirname(os.path.abspath(__file__))]
sys.modules[PACKAGE] = _package
