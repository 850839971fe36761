"""Finds out what a cluster is, and writes its folder below slurm/."""
