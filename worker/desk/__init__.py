"""Work at a desk: submit documents, collect outcomes, send dead letters back."""
