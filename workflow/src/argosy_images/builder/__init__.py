"""Builds images: steps with keys, file systems one above the other, and what is cached of them."""
