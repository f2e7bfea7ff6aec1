"""`make bench`: how near the engine comes to llama.cpp's plain prompt speed on this machine."""

from tests.bench.engine import main

main()
