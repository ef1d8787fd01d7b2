import pytest

from electra_tf.text import tokenization, vocabulary
from electra_tf.text.vocabulary import Vocabulary
from tests import helpers

TOKENS = tuple(helpers.VOCAB)


@pytest.mark.parametrize("cleaning", ["none", "kcelectra"])
def test_text_cleaning_travels(tmp_path, cleaning):
    written = Vocabulary(TOKENS, False, False, cleaning)
    vocabulary.write(written, str(tmp_path))
    assert vocabulary.read(tmp_path / vocabulary.VOCAB_FILE) == written
    tokenizer = tokenization.FullTokenizer(written)
    assert tokenizer.text_cleaning == cleaning
    assert tokenizer.do_lower_case is False


def test_a_tokenizer_where_nothing_says_the_case():
    cased = tokenization.FullTokenizer(Vocabulary((*TOKENS, "Capital")))
    assert cased.do_lower_case is False
    uncased = tokenization.FullTokenizer(Vocabulary(TOKENS))
    assert (uncased.do_lower_case, uncased.strip_accents) == (True, True)
