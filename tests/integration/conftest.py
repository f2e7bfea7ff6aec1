"""Models that the tests of the engine share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.models import QUANTISED_OPTIONS, TinyModels, sample_model_path
from worker.engine.llama import Model


@pytest.fixture(scope="session")
def tiny_models(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TinyModels]:
    """Tiny models of every kind."""
    models = TinyModels(tmp_path_factory.mktemp("models"))
    yield models
    models.close()


@pytest.fixture(scope="session")
def sample_model_file() -> Path:
    """The file of gemma-3-270m, Q4_K_M."""
    return sample_model_path()


@pytest.fixture(scope="session")
def sample_model(sample_model_file: Path) -> Iterator[Model]:
    """Gemma-3-270m, Q4_K_M, loaded."""
    with Model.load(sample_model_file, QUANTISED_OPTIONS) as model:
        yield model
