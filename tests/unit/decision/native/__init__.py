"""Unit tests of worker.decision."""
