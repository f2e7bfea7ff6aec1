"""Own llama.cpp's native handles: load, tokenise, decode, fork, park, read logits.

The only package that imports ``llama_cpp``. A model may be shared by threads; a context belongs to
one thread at a time. Every native return code is checked: some wrong arguments abort the process
inside llama.cpp, so they are refused here first.
"""

from worker.engine.llama.backend import Build, describe_build
from worker.engine.llama.context import Context
from worker.engine.llama.model import Model

__all__ = ["Build", "Context", "Model", "describe_build"]
