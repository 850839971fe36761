"""Frozen images on a node's own disk or in its memory, for sites whose shared file system is slow."""
