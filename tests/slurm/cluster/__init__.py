"""A real Slurm of several nodes on one machine, started by an ordinary user, for tests and work by hand."""

from cluster.cluster import Cluster
from cluster.errors import ClusterError
from cluster.requirements import missing

__all__ = ["Cluster", "ClusterError", "missing"]
