"""The tests of the decision worker."""
