"""Pure functions on tables: from measurements to numbers with intervals."""
