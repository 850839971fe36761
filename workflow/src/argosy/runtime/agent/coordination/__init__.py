"""What the nodes of a job decide together: when to start, when to stop, and how the job ended."""
