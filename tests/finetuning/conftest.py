"""What the tests of fine-tuning share with those of tasks, and a model."""

import pytest

from tests.finetuning import runs
from tests.tasks.conftest import tokenizer, write  # noqa: F401


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory):
    """A folder with a pre-trained model, its vocabulary and a labelled set."""
    return runs.write_data(tmp_path_factory.mktemp("pretrained"), runs.MANY)
