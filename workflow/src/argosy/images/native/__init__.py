"""The programs of an image on the host, without a container."""
