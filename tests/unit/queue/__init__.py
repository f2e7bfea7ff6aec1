"""Unit tests of worker.queue."""
