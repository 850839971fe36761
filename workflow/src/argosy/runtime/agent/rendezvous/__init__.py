"""Rendezvous of ranks: a key-value store replicated on all nodes, PMI, and ports of programs."""
