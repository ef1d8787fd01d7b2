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


@pytest.mark.parametrize("size", [20, 24, 23, 16, 152])
def test_a_table_may_be_padded_to_a_multiple_of_8(tmp_path, size):
    path = helpers.write_vocab(tmp_path)
    if size not in (20, 24):
        flag = "--gin_param=EncoderConfig.vocab_size=20 takes all"
        with pytest.raises(errors.ConfigError, match=f"size={size},.*{flag}"):
            vocabulary.load_of_size(path, size)
        return
    with notices.heard() as lines:
        tokens = vocabulary.load_of_size(path, size).tokens
    assert tokens == TOKENS + tuple(f"[unused{i}]" for i in range(size - 20))
    assert len(lines) == (size == 24)
    assert all("last 4 rows" in x and "to [unused3]" in x for x in lines)


def test_ids_of_the_special_tokens():
    found = Vocabulary(("a", "[MASK]", "[SEP]", "[CLS]", "[UNK]", "[PAD]"))
    assert (found.pad_token_id, found.unk_token_id) == (5, 4)
    assert (found.cls_token_id, found.sep_token_id) == (3, 2)
    assert found.mask_token_id == 1
