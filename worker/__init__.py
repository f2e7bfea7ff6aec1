"""Turns tickets from a queue into scored decisions."""

__version__ = "0.1.0"
