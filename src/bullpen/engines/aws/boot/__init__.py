"""How a machine gets its agent, and how it proves its identity."""
