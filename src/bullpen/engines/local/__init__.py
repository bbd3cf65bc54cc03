"""Machines that are processes on this one, each running the real agent."""

from bullpen.engines.local.compute import LocalCompute

__all__ = ["LocalCompute"]
