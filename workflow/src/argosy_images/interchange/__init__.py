"""Export images to other tools, and import their archives, which are untrusted."""
