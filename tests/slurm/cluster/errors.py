"""What goes wrong with the cluster itself."""


class ClusterError(Exception):
    """The cluster could not do what was asked of it."""
