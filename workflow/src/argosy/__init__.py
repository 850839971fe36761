"""Argosy: one experiment and one site become an image, batch scripts, finished runs and a report."""

__version__ = "0.2.0"
