"""The inventory of a store, and pruning."""
