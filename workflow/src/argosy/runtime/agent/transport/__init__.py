"""How agents, and the ranks of a node, exchange messages: HTTP, signed, from the job's own nodes alone."""
