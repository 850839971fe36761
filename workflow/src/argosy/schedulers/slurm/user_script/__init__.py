"""A user's own batch script, read as data: an experiment and a site are made of it."""
