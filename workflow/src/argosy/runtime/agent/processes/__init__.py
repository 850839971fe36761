"""The ranks of a node as processes: their start, output, memory and end."""
