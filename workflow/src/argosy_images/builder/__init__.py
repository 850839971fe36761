"""Build images: steps with keys, their file systems, and the cache of layers."""
