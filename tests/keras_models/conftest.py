"""What the tests of the Keras models share."""

import pytest

from tests.keras_models import tasks


@pytest.fixture(scope="session")
def pretrained(tmp_path_factory):
    """The model directory of a small pre-training run."""
    return tasks.write_pretrained(tmp_path_factory.mktemp("keras_models"))
