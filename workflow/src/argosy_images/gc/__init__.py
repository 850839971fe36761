"""Inventory and pruning of a store."""
