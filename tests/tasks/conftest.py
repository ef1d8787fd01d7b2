"""What the tests of tasks and of fine-tuning share."""

import pytest

from tests import helpers

VOCAB = (
    "[PAD] [UNK] [CLS] [SEP] [MASK] a b c d e f g h ##x ##y , . ( ) - Ab 1 2 中"
)


@pytest.fixture(scope="session")
def tokenizer(tmp_path_factory):
    """Ids: [CLS] 2, [SEP] 3, a 5, b 6, ... h 12, ##x 13, ##y 14, "," 15."""
    path = tmp_path_factory.mktemp("vocab") / "vocab.txt"
    path.write_text(VOCAB.replace(" ", "\n"), encoding="utf-8")
    return helpers.make_tokenizer(path)


@pytest.fixture
def write(tmp_path):
    """Writes a file into a temporary folder and returns its path."""

    def write_file(name: str, content: str) -> str:
        path = tmp_path / name
        path.write_text(content, encoding="utf-8")
        return str(path)

    return write_file
