"""The agent on EC2."""
