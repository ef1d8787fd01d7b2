import re

import pytest

from electra_tf import errors
from electra_tf.text import tokenization, vocabulary
from electra_tf.text.vocabulary import Vocabulary
from tests import helpers, notices

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


@pytest.mark.parametrize("token", ["a\nb", "a\rb", "a ", "\x85", ""])
def test_refuses_to_write_a_token_that_would_shift_others(tmp_path, token):
    with pytest.raises(ValueError, match="with the id 20, which would be read"):
        vocabulary.write(Vocabulary((*TOKENS, token)), str(tmp_path))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("size", "said"),
    [
        (20, None),
        (24, "the last 4 rows .*: taken for padding, .unused0. to .unused3.$"),
        (23, "vocab_size=23, .* 20 entries; --gin_param=Enc.*vocab_size=20 "),
        (16, "--gin_param=EncoderConfig.vocab_size=20 takes all"),
        (152, "--gin_param=EncoderConfig.vocab_size=20 takes all"),
    ],
)
def test_a_table_may_be_padded_to_a_multiple_of_8(tmp_path, size, said):
    path = helpers.write_vocab(tmp_path)
    if size not in (20, 24):
        with pytest.raises(errors.ConfigError, match=said):
            vocabulary.load_of_size(path, size)
        return
    with notices.heard() as lines:
        tokens = vocabulary.load_of_size(path, size).tokens
    assert tokens[:20] == TOKENS and len(tokens) == size
    assert len(lines) == (said is not None)
    assert all(re.search(said, line) for line in lines)


def test_ids_of_the_special_tokens():
    found = Vocabulary(("a", "[MASK]", "[SEP]", "[CLS]", "[UNK]", "[PAD]"))
    assert (found.pad_token_id, found.unk_token_id) == (5, 4)
    assert (found.cls_token_id, found.sep_token_id) == (3, 2)
    assert found.mask_token_id == 1
