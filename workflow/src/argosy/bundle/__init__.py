"""Carries a study to another machine, or to readers: one archive, which is a Provenance Run Crate."""
