"""Measurements of this machine; nothing here is a test."""
