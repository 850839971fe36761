"""Finding a job in which nothing happens any more, and saying who waits for whom.

`node_watch` sees signs of life on each node, `inspection` looks at the ranks of a node by `stacks` and
`processes`, and `judge`, on the head, decides over all nodes.
"""
