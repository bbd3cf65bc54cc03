"""Tokens: how they are made, checked and stored."""
