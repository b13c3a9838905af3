"""Ways to tell people: one channel a file."""
