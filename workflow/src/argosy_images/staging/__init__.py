"""Keep frozen images on a node's disk or in its memory, for sites with a slow shared file system."""
