"""Implementations of the ports, real and simulated. No engine imports another, except that local uses SQLite."""
