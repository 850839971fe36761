"""What is in the store, how large it is, and what goes when room is needed."""
