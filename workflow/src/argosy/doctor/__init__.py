"""Checks a site's folder, its cluster and its nodes, and reports faults with remedies."""
