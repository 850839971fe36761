"""Processes of a node's ranks: their start, output, memory and end."""
