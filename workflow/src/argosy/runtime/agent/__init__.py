"""The agent of one node: it starts the node's ranks, watches them and says how they ended."""

import warnings

# As in argosy_common: of users' patterns.
warnings.filterwarnings("ignore", "Possible (nested )?set", FutureWarning)
