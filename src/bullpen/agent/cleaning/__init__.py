"""Cleaning: everything that brings an instance back to what it was at boot."""
