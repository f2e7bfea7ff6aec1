"""Tests of the sidecar on a real socket, with an engine that is a fake."""
