"""A frozen image as one file: made once, unpacked by many workers at once."""
