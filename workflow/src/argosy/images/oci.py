"""Words of the OCI image format: https://github.com/opencontainers/image-spec."""

import re

MANIFEST_TYPE = "application/vnd.oci.image.manifest.v1+json"
CONFIG_TYPE = "application/vnd.oci.image.config.v1+json"
CONFIG_TYPES = (CONFIG_TYPE, "application/vnd.docker.container.image.v1+json", "")
"""Of images; others are of artifacts, which have no file system. Nothing: as old tools write it."""
LAYER_TYPE = "application/vnd.oci.image.layer.v1.tar"
INDEX_TYPE = "application/vnd.oci.image.index.v1+json"
NAME_ANNOTATION = "org.opencontainers.image.ref.name"

LAYOUT_FILE = "oci-layout"
LAYOUT = {"imageLayoutVersion": "1.0.0"}

DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
