"""What `bullpen demo` does: a stage with real processes, and the acts played on it."""
