"""Text to token ids, in graph ops, equal to BERT's tokenizer.

The same ops build pre-training data, feed fine-tuning and sit inside an
exported model, so no two of them can disagree. Text is cleaned and split into
words by regular expressions over fixed character classes (Unicode 13.0, see
`text/unicode_13_0.py`), and the words are split into word pieces by tf_text's
longest-match op. tf_text's own BERT tokenizers are faster still, but fold case
with NFKC, keep unassigned characters, and limit words to 100 bytes, so their
ids differ on about one line in 600.

Shapes: B lines, L length of a packed input.
"""

import collections
import dataclasses
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence

import tensorflow as tf
import tensorflow_text as tf_text

from electra_tf.text import cleaning, unicode_13_0
from electra_tf.text import vocabulary as vocabulary_lib

# What a network reads of packed texts, each <int32>[B, L], in its order.
ENCODER_FEATURES = ("input_ids", "input_mask", "segment_ids")

# A word that no vocabulary entry can spell: every control character is
# removed from text before word pieces are looked up.
_UNSPELLABLE = "\x7f"
# What is no word, but a text of Thai, Lao, Burmese or Khmer without spaces.
_TOO_LONG = re.compile(
    rf"\S{{{vocabulary_lib.MAX_CHARS_PER_WORD + 1},}}|"
    "[\u0e01-\u0eff\u1000-\u109f\u1780-\u17ff]{21,}"
)
# Above this share of words that are changed, or lost, it is said.
_MAX_LOST = 0.01


def _character_class(*tables: str) -> str:
    """An RE2 class, from tables of hex ranges."""
    return f"[{cleaning.ranges(''.join(tables))}]"


_REMOVED = _character_class(unicode_13_0.REMOVED)
NON_ASCII_WHITESPACE = _character_class(unicode_13_0.NON_ASCII_WHITESPACE)
_NONSPACING_MARKS = _character_class(unicode_13_0.NONSPACING_MARK) + "+"
# RE2 class of the marks that are words by themselves.
PUNCTUATION = _character_class(unicode_13_0.PUNCTUATION)
_WORDS_BY_THEMSELVES = _character_class(
    unicode_13_0.PUNCTUATION, unicode_13_0.CJK
)

# What Turkish, Azerbaijani and Lithuanian lower in their own way, beside I and
# J (SpecialCasing.txt of Unicode).
_LOWERED_BY_LOCALE = ("\u0130", "\u00cc", "\u00cd", "\u0128", "\u012e")


def remove_control_characters(text: tf.Tensor) -> tf.Tensor:
    """Text without characters of the categories C*, <string>[B]."""
    return tf.strings.regex_replace(text, _REMOVED, "")


def _lower(text: tf.Tensor) -> tf.Tensor:
    """`str.lower`, where ICU makes "tıtle" of TITLE under LANG=tr_TR."""
    text = tf.strings.lower(text)  # ASCII alone, in any locale.
    for upper in _LOWERED_BY_LOCALE:
        text = tf.strings.regex_replace(text, upper, upper.lower())
    return tf.strings.lower(text, encoding="utf-8")


def _lower_without_accents(text: tf.Tensor) -> tf.Tensor:
    text = _lower(text)
    text = tf_text.normalize_utf8(text, "NFD")
    return tf.strings.regex_replace(text, _NONSPACING_MARKS, "")


def split_into_words(
    text: tf.Tensor, do_lower_case: bool = True, strip_accents: bool = True
) -> tf.RaggedTensor:
    """Normalises text and splits it into words and punctuation marks.

    The steps are BERT's: characters of the categories C* and invalid UTF-8
    vanish; white space separates; then, if lower-casing, upper case is lowered
    and, if accents are stripped, non-spacing marks of the canonical
    decomposition vanish; every punctuation mark and CJK ideograph is a word.

    Args:
      text: <string>[B].
      do_lower_case: Whether to lower upper case.
      strip_accents: Whether to drop accents too. Without lower-casing they
        are kept whatever this says, as in the original.

    Returns:
      <string>[B, (words)].
    """
    text = tf.strings.unicode_transcode(
        text, input_encoding="UTF-8", output_encoding="UTF-8", errors="ignore"
    )
    text = remove_control_characters(text)
    text = tf.strings.regex_replace(text, NON_ASCII_WHITESPACE, " ")
    if do_lower_case and strip_accents:
        text = _lower_without_accents(text)
    elif do_lower_case:
        text = _lower(text)
    text = tf.strings.regex_replace(text, _WORDS_BY_THEMSELVES, r" \0 ")
    return tf.strings.split(text)


def count_words(
    texts: Iterable[list[str]], do_lower_case: bool, strip_accents: bool
) -> collections.Counter[str]:
    """Counts words as `split_into_words` sees them, some lines at a time."""
    totals: collections.Counter[bytes] = collections.Counter()
    for lines in texts:
        words = split_into_words(
            tf.constant(lines, tf.string), do_lower_case, strip_accents
        )
        totals.update(words.flat_values.numpy().tolist())
    return collections.Counter(
        {word.decode("utf-8"): count for word, count in totals.items()}
    )


class FullTokenizer(tf.Module):
    """BERT's tokenizer: words, then the longest pieces in the vocabulary.

    Works eagerly, inside a `tf.function` and in an exported model.

    Attributes:
      vocabulary: The tokens, and what is done to text first; where nothing
        said whether text is lower-cased, see `Vocabulary.lower_cases`.
      vocab_size: The number of tokens.
      do_lower_case: Whether text is lower-cased.
      strip_accents: Whether accents are dropped, which lower-casing alone does.
      text_cleaning: What is done to text first, see `cleaning.clean`.
      pad_token_id, unk_token_id, cls_token_id, sep_token_id, mask_token_id:
        Ids of the special tokens. Text never gets those of [PAD], [CLS], [SEP]
        and [MASK]: "[MASK]" in text is punctuation around a word.
    """

    def __init__(self, vocabulary: vocabulary_lib.Vocabulary):
        """Prepares the look-up of word pieces.

        Args:
          vocabulary: Of `vocabulary.load`, or a checkpoint's.

        Raises:
          ValueError: If the vocabulary cannot be used.
        """
        super().__init__(name="full_tokenizer")
        cleaning.check(vocabulary.text_cleaning)
        vocabulary_lib.validate_vocab(vocabulary.tokens, "Vocabulary.tokens")
        self.vocabulary = vocabulary.settled()
        self.vocab_size = len(vocabulary.tokens)
        self.do_lower_case = bool(self.vocabulary.do_lower_case)
        self.strip_accents = bool(self.vocabulary.strip_accents)
        self.text_cleaning = vocabulary.text_cleaning
        self.pad_token_id = vocabulary.pad_token_id
        self.unk_token_id = vocabulary.unk_token_id
        self.cls_token_id = vocabulary.cls_token_id
        self.sep_token_id = vocabulary.sep_token_id
        self.mask_token_id = vocabulary.mask_token_id
        self._word_pieces = tf_text.FastWordpieceTokenizer(
            [
                # The op refuses some that text never has.
                token
                if vocabulary_lib.is_spelled(token)
                else f"{_UNSPELLABLE}{i}"
                for i, token in enumerate(vocabulary.tokens)
            ],
            suffix_indicator=vocabulary_lib.SUFFIX_INDICATOR,
            # No limit in bytes: `_hide_long_words` counts characters.
            max_bytes_per_word=2**31 - 1,
            token_out_type=tf.int32,
            unknown_token=vocabulary_lib.UNK_TOKEN,
            no_pretokenization=True,
        )

    def without_cleaning(self) -> "FullTokenizer":
        """That of cleaned text, which can say where its tokens are."""
        if self.text_cleaning == "none":
            return self
        vocabulary = dataclasses.replace(self.vocabulary, text_cleaning="none")
        return FullTokenizer(vocabulary)

    @property
    def vocab(self) -> list[str]:
        """The tokens; a token's id is its index."""
        return list(self.vocabulary.tokens)

    def tokenize(self, text: tf.Tensor) -> tf.RaggedTensor:
        """Turns lines of text into token ids, without [CLS] and [SEP].

        Args:
          text: <string>[B], UTF-8; invalid bytes are skipped.

        Returns:
          <int32>[B, (tokens)].
        """
        words = split_into_words(
            cleaning.clean(
                tf.convert_to_tensor(text, tf.string), self.text_cleaning
            ),
            self.do_lower_case,
            self.strip_accents,
        )
        return self._ids_of_words(words)

    def tokenize_uncased(self, text: tf.Tensor) -> tf.RaggedTensor:
        """Like `tokenize`, the way the original does for tagging.

        It lower-cases and strips accents whatever the vocabulary, and takes
        ideographs for parts of words.

        Args:
          text: <string>[B], UTF-8.

        Returns:
          <int32>[B, (tokens)].
        """
        text = remove_control_characters(tf.convert_to_tensor(text, tf.string))
        text = _lower_without_accents(text)
        text = tf.strings.regex_replace(text, PUNCTUATION, r" \0 ")
        return self._ids_of_words(tf.strings.split(text))

    def _ids_of_words(self, words: tf.RaggedTensor) -> tf.RaggedTensor:
        """<string>[B, (words)] to <int32>[B, (tokens)]."""
        pieces = self._word_pieces.tokenize(_hide_long_words(words.flat_values))
        # <int32>[B, (words), (pieces)] to <int32>[B, (tokens)].
        return tf.RaggedTensor.from_row_splits(
            pieces.values,
            tf.gather(pieces.row_splits, words.row_splits),
            validate=False,
        )

    def tokenize_with_offsets(
        self, text: tf.Tensor
    ) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]:
        """Like `tokenize`, and says which characters each token is made of.

        Args:
          text: <string>[B], UTF-8; invalid bytes are skipped, and do not count
            as characters.

        Returns:
          Token ids, the offset of each token's first character and that behind
          its last one, all <int32>[B, (tokens)]. Offsets count code points, as
          Python's strings do.

        Raises:
          ValueError: If text is cleaned first: then nothing says where its
            characters come from.
        """
        if self.text_cleaning != "none":
            raise ValueError(
                "Expected a tokenizer without text cleaning, which hides where "
                "tokens come from. Received: text_cleaning="
                f"{self.text_cleaning!r}."
            )
        text = tf.convert_to_tensor(text, tf.string)
        words = split_into_words(text, self.do_lower_case, self.strip_accents)
        num_bytes = tf.strings.length(words.flat_values)
        hidden = _hide_long_words(words.flat_values)
        pieces, starts, ends = self._word_pieces.tokenize_with_offsets(hidden)
        # A hidden word is one token, over all of it.
        is_hidden = tf.repeat(
            tf.equal(hidden, _UNSPELLABLE), pieces.row_lengths()
        )
        num_bytes_of_word = tf.repeat(num_bytes, pieces.row_lengths())
        ends_in_word = tf.where(
            is_hidden, num_bytes_of_word, tf.cast(ends.values, tf.int32)
        )
        # Bytes of the words of a row, counted without what is between them.
        before = tf.concat([[0], tf.cumsum(num_bytes)], axis=0)
        at_row = tf.repeat(
            tf.gather(before, words.row_starts()), words.row_lengths()
        )
        first_byte = tf.repeat(before[:-1] - at_row, pieces.row_lengths())
        row_splits = tf.gather(pieces.row_splits, words.row_splits)

        def by_row(values: tf.Tensor) -> tf.RaggedTensor:
            return tf.RaggedTensor.from_row_splits(
                values, row_splits, validate=False
            )

        characters, is_dropped_mark = self._bytes_of_characters(text)
        first, last = _characters_of_bytes(
            characters,
            by_row(first_byte + tf.cast(starts.values, tf.int32)),
            by_row(first_byte + ends_in_word - 1),
        )
        # The next character that is none of the marks on the last one.
        row_starts = tf.cast(characters.row_starts(), tf.int32)
        before = tf.gather(row_starts, by_row(last).value_rowids())
        order = tf.cumsum(tf.cast(~is_dropped_mark, tf.int32))
        same = tf.gather(order, before + last)
        behind = tf.searchsorted(order, same, side="right") - before
        return by_row(pieces.values), by_row(first), by_row(behind)

    def _bytes_of_characters(self, text: tf.Tensor) -> tuple:
        """Bytes <int32>[B, (characters)] that each leaves in the words, with a
        space at the end; <bool>[all], whether it is a mark that leaves none.
        """
        # Every step of `split_into_words` works on single characters, but for
        # the final sigma, which is as long as the other one.
        characters = tf.strings.unicode_decode(
            text + " ", "UTF-8", errors="ignore"
        )
        unique, index = tf.unique(characters.flat_values)
        texts = tf.strings.unicode_encode(unique[:, tf.newaxis], "UTF-8")
        words = split_into_words(texts, self.do_lower_case, self.strip_accents)
        num_bytes = tf.reduce_sum(
            words.with_flat_values(tf.strings.length(words.flat_values)),
            axis=-1,
        )
        is_mark = tf.strings.regex_full_match(texts, _NONSPACING_MARKS)
        return (
            characters.with_flat_values(tf.gather(num_bytes, index)),
            tf.gather(is_mark & (num_bytes == 0), index),
        )

    def convert_ids_to_tokens(self, ids: Iterable[int]) -> list[str]:
        """The tokens of some ids, <int>[(tokens)], e.g. a row of `tokenize`."""
        return [self.vocabulary.tokens[int(i)] for i in ids]

    def pack_inputs(
        self,
        segments: Sequence[tf.RaggedTensor],
        max_seq_length: int,
        pad_to_max: bool = False,
    ) -> dict[str, tf.Tensor]:
        """Packs one or two segments a row as `[CLS] first [SEP] second [SEP]`.

        Too long a row loses tokens from the end of its longer segment, one by
        one, from the second where both are equally long: the original's
        `_truncate_seq_pair`, here without a loop.

        Args:
          segments: One or two <int32>[B, (tokens)].
          max_seq_length: The longest L, [CLS] and [SEP] included.
          pad_to_max: Whether L is always `max_seq_length`, rather than the
            length of the longest row.

        Returns:
          `input_ids`, `input_mask` (1 on tokens, 0 on padding) and
          `segment_ids` (1 on the second segment and its [SEP]), each
          <int32>[B, L].

        Raises:
          ValueError: If `max_seq_length` has no room for a token of each.
        """
        num_special_tokens = 1 + len(segments)
        room = max_seq_length - num_special_tokens
        if room < len(segments):
            raise ValueError(
                "Expected max_seq_length of at least "
                f"{num_special_tokens + len(segments)} for {len(segments)} "
                f"segment(s). Received: max_seq_length={max_seq_length}."
            )
        if len(segments) == 1:
            segments = [segments[0][:, :room]]
        else:
            first, second = segments
            segments = _truncate_pair(first, second, room)
        input_ids, segment_ids = tf_text.combine_segments(
            segments, self.cls_token_id, self.sep_token_id
        )
        shape = [None, max_seq_length if pad_to_max else None]
        return {
            # Padding is 0, as in the original, whatever the id of [PAD] is.
            "input_ids": input_ids.to_tensor(shape=shape),
            "input_mask": tf.ones_like(input_ids).to_tensor(shape=shape),
            "segment_ids": segment_ids.to_tensor(shape=shape),
        }


def _hide_long_words(words: tf.Tensor) -> tf.Tensor:
    """Makes [UNK] of words of more than 200 characters; <string>[words]."""
    num_chars = tf.strings.length(words, unit="UTF8_CHAR")
    is_long = num_chars > vocabulary_lib.MAX_CHARS_PER_WORD
    return tf.where(is_long, _UNSPELLABLE, words)


def _characters_of_bytes(
    num_bytes: tf.RaggedTensor, *positions: tf.RaggedTensor
) -> list[tf.Tensor]:
    """Bytes of rows, <int32>[B, (n)] -> their characters, <int32>[all n]."""
    ends = tf.cumsum(num_bytes.flat_values)
    before = tf.concat([[0], ends], axis=0)
    first_byte = tf.gather(before, num_bytes.row_starts())
    first_character = tf.cast(num_bytes.row_starts(), tf.int32)
    characters = []
    for rows in positions:
        row_lengths = rows.row_lengths()
        byte = rows.flat_values + tf.repeat(first_byte, row_lengths)
        character = tf.searchsorted(ends, byte, side="right")
        characters.append(character - tf.repeat(first_character, row_lengths))
    return characters


def _truncate_pair(
    first: tf.RaggedTensor, second: tf.RaggedTensor, room: int
) -> list[tf.RaggedTensor]:
    """Cuts two <int32>[B, (tokens)] to `room` tokens together.

    Taking tokens from the longer one, and from the second at a tie, ends with
    the shorter segment whole or with both at half the room, the odd token
    going to the first.
    """

    def cut(segment: tf.RaggedTensor, num_kept: tf.Tensor) -> tf.RaggedTensor:
        position = tf.ragged.range(segment.row_lengths())
        keep = tf.less(
            position.flat_values,
            tf.repeat(num_kept, segment.row_lengths()),
        )
        return tf.ragged.boolean_mask(segment, segment.with_flat_values(keep))

    length_1, length_2 = first.row_lengths(), second.row_lengths()
    half = tf.constant(room // 2, length_1.dtype)
    return [
        cut(first, tf.maximum(room - half, room - length_2)),
        cut(second, tf.maximum(half, room - length_1)),
    ]


def _stripped(text: str) -> str:
    """Text decomposed and without its marks, as the tokenizer strips it."""
    return "".join(
        character
        for character in unicodedata.normalize("NFD", text)
        if unicodedata.category(character) != "Mn"
    )


def lost_text(lines: Iterable[str], strips_accents: bool) -> Iterator[str]:
    """Which share of the words loses marks, or all of its letters, in lines.

    Args:
      lines: Text as it is before it is lower-cased.
      strips_accents: Whether it loses its accents, in whatever script.
    """
    changed: collections.Counter[str] = collections.Counter()
    num_words = num_letters = 0
    too_long: list[int] = []
    for line in lines:
        words = line.split()
        num_words += len(words)
        num_letters += sum(map(len, words))
        too_long += map(len, _TOO_LONG.findall(line))
        if strips_accents and not line.isascii():
            changed.update(word for word in words if _stripped(word) != word)
    if changed.total() > _MAX_LOST * num_words:
        word = changed.most_common(1)[0][0][:20]
        yield (
            f"stripping accents changes {changed.total() / num_words:.1%} of "
            f"the words, such as {word!r} to {_stripped(word)!r}: where that "
            "is another word, use --no-strip-accents of build-vocab and "
            "build-data"
        )
    if sum(too_long) > _MAX_LOST * num_letters:
        yield (
            f"{sum(too_long) / num_letters:.1%} of the text is in "
            f"{len(too_long)} word(s) of more than 200 letters, in Thai of 20, "
            "each of which becomes [UNK] or odd pieces: put spaces between its "
            "words"
        )
