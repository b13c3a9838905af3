"""What touches the world: one port in one dialect a file. Foreign exceptions stop here; adapters don't know each other."""
