"""What the tests of fine-tuning share with those of tasks."""

from tests.tasks.conftest import tokenizer, write  # noqa: F401
