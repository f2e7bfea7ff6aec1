"""The HTTP face, for callers who wait."""
