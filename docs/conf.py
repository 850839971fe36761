"""The documentation site: `make docs` builds it from the pages where they stand in the repository."""

import sys
from pathlib import Path

from argosy import __version__

sys.path.insert(0, str(Path(__file__).parent))

project = "Argosy"
release = __version__
extensions = ["myst_parser", "made_pages"]
root_doc = "docs/index"
# Links lead where they lead in the repository, so its root is the source folder.
include_patterns = [
    *("*.md", "docs/*.md"),
    *("config/README.md", "benchmarks/README.md", "workflow/rules/README.md"),
]
# Folders that are not even listed: images have a hundred thousand files.
exclude_patterns = [
    ".*",
    "results",
    "resources",
    "logs",
    "site",
    "tests",
    "containers",
    "workflow/src",
]
myst_heading_anchors = 4
html_theme = "furo"
html_title = "Argosy"
html_show_copyright = False
