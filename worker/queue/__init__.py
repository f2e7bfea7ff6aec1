"""The queue face: receive, hold, publish, delete."""
