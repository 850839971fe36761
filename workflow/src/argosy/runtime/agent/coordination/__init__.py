"""Coordination of a job's nodes: when to start, when to stop, and how the job ended."""
