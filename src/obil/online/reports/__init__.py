"""What to tell about a stream: performance without labels, and what changed."""
