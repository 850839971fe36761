"""The agent of one node: it starts the node's ranks, watches them and reports how they ended."""

import warnings

# As in argosy_common: users' regular expressions raise this warning.
warnings.filterwarnings("ignore", "Possible (nested )?set", FutureWarning)
