"""Decision models that llama.cpp itself knows how to ask, read as its own server reads them."""
