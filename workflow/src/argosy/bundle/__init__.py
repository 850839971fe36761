"""Packs a study into one archive, a Provenance Run Crate, for another machine or for readers."""
