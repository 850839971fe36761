"""The agent of one node: it starts the node's ranks, watches them and says how they ended."""
