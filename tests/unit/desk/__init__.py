"""Work at a desk: documents in, outcomes and dead letters out."""
