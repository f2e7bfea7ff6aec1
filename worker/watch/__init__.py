"""Watch a running worker from outside: read its figures, show them."""
