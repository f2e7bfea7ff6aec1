"""Measuring decisions."""
