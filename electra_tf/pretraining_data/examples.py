"""Documents to pre-training examples to TFRecords.

Consecutive lines of a document are gathered until they fill an example, which
is then cut into one or two segments:

  lines -> [sentence ids, ...] -> [CLS] first [SEP] second [SEP] padding

For a given `random.Random` the examples, and the number of draws, are those
of the original's builder; `parts` writes them.

Token ids are kept *packed*, as protocol buffers write them: a varint for each,
one after the other in `bytes`. That is what ends up in the file, a word's ids
are one object however many they are, and no loop runs over ids.

Shapes: L length of an example.
"""

import random
from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf

from electra_tf.pretraining_data import records
from electra_tf.pretraining_data.manifest import MIN_SEQ_LENGTH
from electra_tf.text import tokenization

# Chances and lengths of the original's builder.
_ONE_SEGMENT_PROBABILITY = 0.1
_OVERFILL_FIRST_SEGMENT_PROBABILITY = 0.5
_RANDOM_LENGTH_PROBABILITY = 0.05
_NO_LENGTH_LIMIT = 100_000

# From lines to the packed token ids of each.
PackedLineTokenizer = Callable[[list[str]], list[bytes]]


class Segments(NamedTuple):
    """What an example is packed from; the second may be empty.

    Attributes:
      first: Packed ids.
      second: Packed ids.
      num_first: Number of the first ones.
      num_second: Number of the second ones.
    """

    first: bytes
    second: bytes
    num_first: int
    num_second: int

    @property
    def num_tokens(self) -> int:
        """With [CLS] and [SEP]."""
        num_second = self.num_second
        return self.num_first + 2 + (num_second + 1 if num_second else 0)


class ExampleBuilder:
    """Gathers sentences into examples of at most `max_length` tokens."""

    def __init__(
        self,
        tokenizer: tokenization.FullTokenizer,
        max_length: int,
        rng: random.Random,
    ):
        """Starts without a sentence.

        Args:
          tokenizer: Supplies the ids of [CLS] and [SEP].
          max_length: L, at least `MIN_SEQ_LENGTH`.
          rng: All randomness; drawn from in the original's order.
        """
        self._packed_cls = records.varint(tokenizer.cls_token_id)
        self._packed_sep = records.varint(tokenizer.sep_token_id)
        self._max_length = max_length
        self._rng = rng
        self._sentences: list[tuple[bytes, int]] = []
        self._length = 0
        self._target_length = max_length

    def add(self, packed: bytes, num_ids: int) -> Segments | None:
        """Adds a line that is not blank; the segments, if it fills them."""
        self._sentences.append((packed, num_ids))
        self._length += num_ids
        if self._length >= self._target_length:
            return self._cut()
        return None

    def end(self) -> Segments | None:
        """Ends a document; the segments of what it has left, if anything."""
        return self._cut() if self._length else None

    def _cut(self) -> Segments:
        draw = self._rng.random
        if draw() < _ONE_SEGMENT_PROBABILITY:
            first_target_length = _NO_LENGTH_LIMIT
        else:
            # [CLS] and two [SEP] are still to come.
            first_target_length = (self._target_length - 3) // 2
        first: list[bytes] = []
        second: list[bytes] = []
        num_first = num_second = 0
        for sentence, length in self._sentences:
            # The order of the tests decides how many draws are made.
            if (
                not num_first
                or num_first + length < first_target_length
                or (
                    not num_second
                    and num_first < first_target_length
                    and draw() < _OVERFILL_FIRST_SEGMENT_PROBABILITY
                )
            ):
                first.append(sentence)
                num_first += length
            else:
                second.append(sentence)
                num_second += length
        packed_first, packed_second = b"".join(first), b"".join(second)
        if num_first > (room := self._max_length - 2):
            packed_first = records.first_ids(packed_first, room)
            num_first = room
        if num_second > (room := max(0, self._max_length - num_first - 3)):
            packed_second = records.first_ids(packed_second, room)
            num_second = room

        self._sentences = []
        self._length = 0
        if draw() < _RANDOM_LENGTH_PROBABILITY:
            self._target_length = self._rng.randint(
                MIN_SEQ_LENGTH, self._max_length
            )
        else:
            self._target_length = self._max_length
        return Segments(packed_first, packed_second, num_first, num_second)

    def serialize(self, segments: Segments) -> bytes:
        """Adds the special tokens and padding.

        Returns:
          A `tf.train.Example` with int64 lists of L:
          input_ids: `[CLS] first [SEP] second [SEP]` and padding.
          input_mask: 1 on tokens, 0 on padding.
          segment_ids: 1 on the second segment and its [SEP].
        """
        first, second, num_first, num_second = segments
        parts = [self._packed_cls, first, self._packed_sep]
        num_first += 2
        if num_second:
            num_second += 1
            parts += [second, self._packed_sep]
        num_padding = self._max_length - num_first - num_second
        # Of all three 0, as in the original, whatever the id of [PAD] is.
        padding = b"\0" * num_padding
        parts.append(padding)
        return records.serialize_features(
            b"".join(parts),
            b"\1" * (num_first + num_second) + padding,
            b"\0" * num_first + b"\1" * num_second + padding,
        )


class CachingLineTokenizer:
    """Tokenizes lines, and remembers what each word of theirs becomes.

    The tokenizer looks at nothing beyond a space, so the ids of a line are
    those of what lies between its spaces. Most of that was seen before.
    """

    # Of some 200 bytes each.
    MAX_WORDS = 1 << 18
    # Longer ones hardly come twice.
    MAX_CHARACTERS = 32

    def __init__(self, tokenizer: tokenization.FullTokenizer):
        self._tokenizer = tokenizer
        self._memory: dict[str, bytes] = {}
        self._older: dict[str, bytes] = {}

    def __call__(self, lines: list[str]) -> list[bytes]:
        """The packed token ids of each line."""
        if len(self._memory) > self.MAX_WORDS:
            # What is still needed comes back from the older one.
            self._older, self._memory = self._memory, {}
        look_up = self._memory.__getitem__
        sentences: list[bytes] = []
        unfinished = []
        for number, line in enumerate(lines):
            try:
                sentences.append(b"".join(map(look_up, line.split(" "))))
            except KeyError:
                sentences.append(b"")
                unfinished.append(number)
        if unfinished:
            words = {word for i in unfinished for word in lines[i].split(" ")}
            packed = self._look_up(words)
            for i in unfinished:
                pieces = map(packed.__getitem__, lines[i].split(" "))
                sentences[i] = b"".join(pieces)
        return sentences

    def _look_up(self, words: set[str]) -> dict[str, bytes]:
        """The packed ids of words, of which some are new."""
        known: dict[str, bytes] = {}
        for memory in (self._older, self._memory):
            known |= {word: memory[word] for word in words & memory.keys()}
        new = list(words - known.keys())
        tokens = self._tokenizer.tokenize(tf.constant(new, tf.string))
        for word, ids in zip(new, tokens.to_list(), strict=True):
            known[word] = b"".join(map(records.varint, ids))
        self._memory |= {
            word: packed
            for word, packed in known.items()
            if len(word) <= self.MAX_CHARACTERS
        }
        return known
