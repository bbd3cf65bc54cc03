"""Bullpen keeps CI runners warm: N verified runners for a run, reused where one fits, all or nothing."""

__version__ = "0.1.0"
