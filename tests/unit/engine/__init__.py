"""Unit tests of worker.engine."""
