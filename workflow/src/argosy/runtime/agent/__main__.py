"""Entry point of ``python3 /argosy/agent``."""

import importlib
import os
import sys

sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True
package = importlib.import_module("started_by_path").PACKAGE
# Modules of this folder must not hide modules of the same name.
del sys.path[0]
sys.exit(importlib.import_module(f"{package}.agent.supervisor").main())
