"""Words of the OCI image format: https://github.com/opencontainers/image-spec."""

import re

MANIFEST_TYPE = "application/vnd.oci.image.manifest.v1+json"
CONFIG_TYPE = "application/vnd.oci.image.config.v1+json"
LAYER_TYPE = "application/vnd.oci.image.layer.v1.tar"
INDEX_TYPE = "application/vnd.oci.image.index.v1+json"
NAME_ANNOTATION = "org.opencontainers.image.ref.name"

LAYOUT_FILE = "oci-layout"
LAYOUT = {"imageLayoutVersion": "1.0.0"}

DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
