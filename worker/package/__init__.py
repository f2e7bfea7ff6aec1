"""Model packages: a GGUF with what it is, what it is asked and when it is trusted."""
