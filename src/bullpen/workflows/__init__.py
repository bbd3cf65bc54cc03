"""The runs of a CI that has jobs of its own: given back when they end, and their lost jobs run again."""
