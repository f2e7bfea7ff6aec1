"""Everything that goes wrong on a queue, for minutes, and a count of what became of each ticket."""
