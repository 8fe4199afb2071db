"""What a graph is like, before and after a model has learned on it."""
