"""Checks a site's folder, its cluster and its nodes, and says what is wrong and what to do."""
