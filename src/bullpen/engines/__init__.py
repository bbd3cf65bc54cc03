"""The ports kept by real and simulated things; each engine is a stranger to the others."""
