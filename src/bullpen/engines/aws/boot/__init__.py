"""How a machine gets its agent, and how it proves who it is."""
