"""Building pre-training data the original's way, as a yardstick.

The algorithm of BERT's tokenizer in plain Python (a loop over the characters of
every line, then greedy longest-match pieces of every word), the gathering of
sentences into examples, and `tf.train.Example` for writing them. Written to be
as fast as the original, not faster. `tests/reference_builder_test.py` holds it
to the product, record for record; `bench.py data` times the two.
"""

import collections
import random
import unicodedata

import tensorflow as tf


def _is_whitespace(char):
    if char in (" ", "\t", "\n", "\r"):
        return True
    return unicodedata.category(char) == "Zs"


def _is_control(char):
    if char in ("\t", "\n", "\r"):
        return False
    return unicodedata.category(char).startswith("C")


def _is_punctuation(char):
    code = ord(char)
    if (
        33 <= code <= 47
        or 58 <= code <= 64
        or 91 <= code <= 96
        or 123 <= code <= 126
    ):
        return True
    return unicodedata.category(char).startswith("P")


def _is_ideograph(code):
    return (
        0x4E00 <= code <= 0x9FFF
        or 0x3400 <= code <= 0x4DBF
        or 0x20000 <= code <= 0x2A6DF
        or 0x2A700 <= code <= 0x2B73F
        or 0x2B740 <= code <= 0x2B81F
        or 0x2B820 <= code <= 0x2CEAF
        or 0xF900 <= code <= 0xFAFF
        or 0x2F800 <= code <= 0x2FA1F
    )


class ReferenceTokenizer:
    """Lines to tokens, a character at a time."""

    def __init__(self, vocab_file, do_lower_case=True, strip_accents=True):
        self.vocab = collections.OrderedDict()
        with open(vocab_file, encoding="utf-8") as reader:
            for line in reader:
                self.vocab[line.strip()] = len(self.vocab)
        self._do_lower_case = do_lower_case
        self._strip_accents = strip_accents

    def tokenize(self, text):
        pieces = []
        for word in self._words(text):
            pieces.extend(self._pieces(word))
        return pieces

    def convert_tokens_to_ids(self, tokens):
        return [self.vocab[token] for token in tokens]

    def _words(self, text):
        text = self._space_ideographs(self._clean(text))
        words = []
        for word in text.strip().split():
            if self._do_lower_case:
                word = word.lower()
                if self._strip_accents:
                    word = self._without_accents(word)
            words.extend(self._split_on_punctuation(word))
        return " ".join(words).strip().split()

    @staticmethod
    def _clean(text):
        output = []
        for char in text:
            code = ord(char)
            if code == 0 or code == 0xFFFD or _is_control(char):
                continue
            if _is_whitespace(char):
                output.append(" ")
            else:
                output.append(char)
        return "".join(output)

    @staticmethod
    def _space_ideographs(text):
        output = []
        for char in text:
            if _is_ideograph(ord(char)):
                output.append(" ")
                output.append(char)
                output.append(" ")
            else:
                output.append(char)
        return "".join(output)

    @staticmethod
    def _without_accents(text):
        text = unicodedata.normalize("NFD", text)
        output = []
        for char in text:
            if unicodedata.category(char) == "Mn":
                continue
            output.append(char)
        return "".join(output)

    @staticmethod
    def _split_on_punctuation(text):
        output = []
        starts_word = True
        for char in text:
            if _is_punctuation(char):
                output.append([char])
                starts_word = True
            else:
                if starts_word:
                    output.append([])
                starts_word = False
                output[-1].append(char)
        return ["".join(chars) for chars in output]

    def _pieces(self, word):
        chars = list(word)
        if len(chars) > 200:
            return ["[UNK]"]
        pieces = []
        start = 0
        while start < len(chars):
            end = len(chars)
            found = None
            while start < end:
                piece = "".join(chars[start:end])
                if start > 0:
                    piece = "##" + piece
                if piece in self.vocab:
                    found = piece
                    break
                end -= 1
            if found is None:
                return ["[UNK]"]
            pieces.append(found)
            start = end
        return pieces


class ReferenceBuilder:
    """Sentences to serialized examples."""

    def __init__(self, tokenizer, max_length, rng):
        self._tokenizer = tokenizer
        self._max_length = max_length
        self._rng = rng
        self._sentences = []
        self._length = 0
        self._target_length = max_length
        self.num_tokens = 0

    def add_line(self, line):
        line = line.strip().replace("\n", " ")
        if not line:
            return self.end_document()
        tokens = self._tokenizer.tokenize(line)
        ids = self._tokenizer.convert_tokens_to_ids(tokens)
        self.num_tokens += len(ids)
        self._sentences.append(ids)
        self._length += len(ids)
        if self._length >= self._target_length:
            return self._make_example()
        return None

    def end_document(self):
        return self._make_example() if self._length else None

    def _make_example(self):
        rng = self._rng
        target = (
            100_000 if rng.random() < 0.1 else (self._target_length - 3) // 2
        )
        first, second = [], []
        for sentence in self._sentences:
            if (
                len(first) == 0
                or len(first) + len(sentence) < target
                or (
                    len(second) == 0
                    and len(first) < target
                    and rng.random() < 0.5
                )
            ):
                first += sentence
            else:
                second += sentence
        first = first[: self._max_length - 2]
        second = second[: max(0, self._max_length - len(first) - 3)]
        self._sentences = []
        self._length = 0
        if rng.random() < 0.05:
            self._target_length = rng.randint(5, self._max_length)
        else:
            self._target_length = self._max_length
        return self._to_proto(first, second)

    def _to_proto(self, first, second):
        vocab = self._tokenizer.vocab
        ids = [vocab["[CLS]"]] + first + [vocab["[SEP]"]]
        segments = [0] * len(ids)
        if second:
            ids += second + [vocab["[SEP]"]]
            segments += [1] * (len(second) + 1)
        mask = [1] * len(ids)
        ids += [0] * (self._max_length - len(ids))
        mask += [0] * (self._max_length - len(mask))
        segments += [0] * (self._max_length - len(segments))

        def feature(values):
            return tf.train.Feature(
                int64_list=tf.train.Int64List(value=list(values))
            )

        return tf.train.Example(
            features=tf.train.Features(
                feature={
                    "input_ids": feature(ids),
                    "input_mask": feature(mask),
                    "segment_ids": feature(segments),
                }
            )
        )


def build(path, output_path, tokenizer, max_length, seed) -> int:
    """Writes the examples of a text file; returns its number of tokens."""
    builder = ReferenceBuilder(tokenizer, max_length, random.Random(seed))
    with (
        tf.io.TFRecordWriter(output_path) as writer,
        tf.io.gfile.GFile(path) as reader,
    ):
        for line in reader:
            example = builder.add_line(line)
            if example:
                writer.write(example.SerializeToString())
        example = builder.end_document()
        if example:
            writer.write(example.SerializeToString())
    return builder.num_tokens
