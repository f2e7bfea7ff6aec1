"""The only owner of llama.cpp."""
