"""Detection of hanging jobs, and of the ranks that wait.

`node_watch` collects signs of life on each node, `inspection` inspects a node's ranks with `stacks` and
`processes`, and `judge` decides on the head for all nodes.
"""
