"""Serving GitHub's jobs: the runner application of GitHub as a child of the agent. Standard library only."""
