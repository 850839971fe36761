"""Messages between agents, and from a node's ranks: signed HTTP, accepted from the job's nodes only."""
