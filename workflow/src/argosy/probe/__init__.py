"""Surveys a cluster, and writes its folder below slurm/."""
