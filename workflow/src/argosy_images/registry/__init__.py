"""Images from registries, by the OCI distribution protocol; knows nothing of building or unpacking."""
