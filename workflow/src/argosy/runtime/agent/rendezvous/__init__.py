"""The key-value store over which ranks find each other, kept alike on all nodes."""
