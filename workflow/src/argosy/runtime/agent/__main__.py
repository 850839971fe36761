"""Entry point of ``python3 /argosy/agent``."""

import importlib
import os
import sys

# Started as a folder, this file belongs to no package; with the folder above it on the path the
# modules beside it are the package `agent`, and import each other as they do in the tests.
sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True
sys.exit(importlib.import_module("agent.supervisor").main())
