"""A sample of a corpus, through a vocabulary -> a report on it.

Shapes: L length of an example.
"""

import collections
import os
import random
import re
import unicodedata
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from electra_tf.pretraining_data import corpus, records, reports
from electra_tf.pretraining_data import examples as examples_lib
from electra_tf.text import tokenization, vocabulary

# Text that a report on a corpus tokenizes, and pieces that it is taken from.
SAMPLE_BYTES = 2 << 20
SAMPLE_PIECES = 32
# Text of a file to measure how much of it a byte of the file is.
_LEAST_MEASURED = 4 << 20
# Text on which other flags are tried.
_TRIAL_BYTES = 512 << 10

# Above these shares a report warns. Vocabularies of a language spell its words
# in far fewer pieces.
_MAX_MISSING_CHARACTERS = 0.001
_MAX_PIECES_PER_WORD = 4.0
_MAX_CUT = 0.2
# Of a kind of finding, those that are named.
_NUM_NAMED = 8
_BRACKETED = re.compile(r"\[.+\]")
_MARKER = re.compile(r"\[(?:PAD|UNK|CLS|SEP|MASK)\]")
_JAMO = re.compile("[\u1100-\u11ff]")
_SYLLABLE = re.compile("[\uac00-\ud7a3]")


class Sample(NamedTuple):
    """A part of a corpus.

    Attributes:
      files: Lines of each file that was read; "" ends a document.
      share: Which share of the corpus this is, by bytes.
      description: Where it was taken from.
      bad_input: A line about each damaged place, which was left out.
    """

    files: list[list[str]]
    share: float
    description: str
    bad_input: list[str]


def take_sample(
    files: Sequence[corpus.CorpusFile],
    reading: corpus.Reading | None = None,
    max_bytes: int = SAMPLE_BYTES,
) -> Sample:
    """Reads the beginnings of files that are spread over a corpus.

    Args:
      files: The corpus; one of up to `max_bytes` is read whole.
      reading: How to read it; damaged places are left out in any case.
      max_bytes: Text to take, more or less.

    Raises:
      ValueError: If a package is missing that reads such files.
    """
    bad_input: list[str] = []
    reading = (reading or corpus.Reading())._replace(
        on_bad_input=bad_input.append
    )
    total = sum(file.num_bytes for file in files)
    if total <= max_bytes:
        chosen, bytes_of_each = list(files), max_bytes
    else:
        # The files in which equidistant bytes of the corpus lie.
        ends = np.cumsum([file.num_bytes for file in files])
        places = (np.arange(SAMPLE_PIECES) + 0.5) * total / SAMPLE_PIECES
        numbers = np.unique(np.searchsorted(ends, places, side="right"))
        chosen = [files[i] for i in numbers]
        bytes_of_each = max(1, max_bytes // len(chosen))
    texts = []
    num_read = 0.0
    for file in chosen:
        lines, read = _read_beginning(file.path, bytes_of_each, reading)
        texts.append(lines)
        num_read += min(read, file.num_bytes)
    share = num_read / total if total else 1.0
    description = f"{_bytes(num_read)} of {_bytes(total)}, "
    if len(chosen) < len(files):
        description += f"{len(chosen)} of "
    description += f"{len(files)} file(s)"
    if num_read < total:
        description += ", from the beginning of each"
    return Sample(texts, share, description, bad_input)


def _read_beginning(
    path: str, max_bytes: int, reading: corpus.Reading
) -> tuple[list[str], float]:
    """Lines of about `max_bytes` of text, and what they take in the file.

    How much text a byte of the file is, is measured on more than these: what
    unpacks or parses a file reads ahead.
    """
    kept: list[str] = []
    num_kept = num_text = num_read = 0
    for lines, num_bytes in corpus.read_lines(path, reading=reading):
        num_read += num_bytes
        for line in lines:
            size = len(line.encode()) + 1
            num_text += size
            if num_kept < max_bytes:
                kept.append(line)
                num_kept += size
        if num_kept >= max_bytes and num_text >= _LEAST_MEASURED:
            if path.lower().endswith(".parquet"):
                # Is not read from its start to its end.
                return kept, os.path.getsize(path) * _share_of_rows(kept, path)
            break
    return kept, num_read * num_kept / max(1, num_text)


def _share_of_rows(lines: Sequence[str], path: str) -> float:
    """Of a table; a "" follows each row."""
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as table:
        return lines.count("") / max(1, table.metadata.num_rows)


def report_on_text(
    sample: Sample,
    tokenizer: tokenization.FullTokenizer,
    max_seq_length: int,
    run: reports.Run | None = None,
) -> reports.Report:
    """What a corpus will be through this vocabulary and these flags.

    Args:
      sample: See `take_sample`.
      tokenizer: With the flags of the build.
      max_seq_length: L.
      run: What the examples are for, if that is known.
    """
    report = reports.Report()
    report.fact("sample", sample.description)
    lines = [line for file in sample.files for line in file if line]
    words = _Words(lines, tokenizer)
    examples = _Examples(sample, tokenizer, max_seq_length)
    _describe_text(report, words, examples)
    _check_special_tokens(report, tokenizer, lines)
    if words.num_words:
        _check_unknown(report, words, tokenizer)
        _check_case(report, words, tokenizer)
        _check_hangul(report, words, lines, tokenizer)
        _check_forms(report, words, lines)
        _try_other_flags(report, lines, tokenizer)
        pieces = words.num_pieces / words.num_words
        if pieces > _MAX_PIECES_PER_WORD:
            report.warnings.append(
                f"a word takes {pieces:.1f} tokens on average: the vocabulary "
                "knows letters rather than words of this language"
            )
    _check_examples(report, examples, max_seq_length)
    if sample.bad_input:
        report.warnings.append(
            f"{len(sample.bad_input)} damaged place(s) are left out: "
            f"{sample.bad_input[0]}"
        )
    num_examples = round(len(examples.lengths) / max(sample.share, 1e-12))
    report.fact(
        "examples",
        f"about {num_examples:,} of {max_seq_length} tokens, "
        f"{examples.padding:.1%} of it padding",
    )
    if run is not None:
        reports.check_run(
            report, run, num_examples, tokenizer.vocab_size, max_seq_length
        )
    return report


class _Words:
    """The words of some lines, and what the vocabulary makes of them.

    Attributes:
      counts: Word -> how often it occurs.
      num_words: Words.
      num_pieces: Tokens.
      unknown: [UNK] words -> how often.
      used: Ids that occur.
      known_characters: Characters of the vocabulary's entries.
      missing: Characters that no entry has -> how often.
      num_characters: Characters.
    """

    def __init__(self, lines: list[str], tokenizer):
        self.counts = tokenization.count_words(
            [lines], tokenizer.do_lower_case, tokenizer.strip_accents
        )
        ids = tokenizer.tokenize(tf.constant(list(self.counts), tf.string))
        self.num_words = self.counts.total()
        self.num_pieces = 0
        self.unknown: collections.Counter[str] = collections.Counter()
        self.used: set[int] = set()
        for (word, count), pieces in zip(
            self.counts.items(), ids.to_list(), strict=True
        ):
            self.num_pieces += count * len(pieces)
            self.used.update(pieces)
            if tokenizer.unk_token_id in pieces:
                self.unknown[word] = count
        self.known_characters = set("".join(_spellings(tokenizer.vocab)))
        self.num_characters = sum(
            len(word) * count for word, count in self.counts.items()
        )
        self.missing = self.missing_in(None)

    @property
    def unknown_share(self) -> float:
        return self.unknown.total() / max(self.num_words, 1)

    def missing_in(self, form) -> collections.Counter[str]:
        """Missing characters, were the text in a normal form (or None)."""
        missing: collections.Counter[str] = collections.Counter()
        for word, count in self.unknown.items():
            if form is not None:
                word = unicodedata.normalize(form, word)
            for character in word:
                if character not in self.known_characters:
                    missing[character] += count
        return missing

    def share_of(self, is_affected) -> float:
        """Share of the words for which a function holds."""
        affected = sum(
            count for word, count in self.counts.items() if is_affected(word)
        )
        return affected / max(self.num_words, 1)


def _spellings(vocab: Sequence[str]) -> list[str]:
    """What the entries spell, without those like [CLS]."""
    return [
        entry.removeprefix("##")
        for entry in vocab
        if entry and not _BRACKETED.fullmatch(entry)
    ]


class _Examples:
    """The examples of a sample.

    Attributes:
      num_documents: Documents that have a token.
      num_lines: Lines that are not blank.
      num_tokens: Tokens of the text.
      lengths: Tokens of each example, [CLS] and [SEP] included.
      padding: Share of the positions that are padding.
      cut: Share of the text's tokens that no example has.
      longest_line: Tokens of the longest line.
    """

    def __init__(self, sample, tokenizer, max_seq_length):
        tokenize = examples_lib.CachingLineTokenizer(tokenizer)
        builder = examples_lib.ExampleBuilder(
            tokenizer, max_seq_length, random.Random(0)
        )
        self.num_documents = self.num_lines = self.num_tokens = 0
        self.longest_line = num_kept = 0
        self.lengths = []
        for lines in sample.files:
            in_document = False
            # The end of a sampled file may be missing.
            lines = [*lines, ""]
            for line, packed in zip(lines, tokenize(lines), strict=True):
                num_ids = records.count_ids(packed)
                if line:
                    in_document = True
                    segments = builder.add(packed, num_ids)
                else:
                    self.num_documents += in_document
                    in_document = False
                    segments = builder.end()
                self.num_lines += bool(line)
                self.num_tokens += num_ids
                self.longest_line = max(self.longest_line, num_ids)
                if segments is not None:
                    self.lengths.append(segments.num_tokens)
                    num_kept += segments.num_first + segments.num_second
        num_positions = len(self.lengths) * max_seq_length
        self.padding = 1 - sum(self.lengths) / max(num_positions, 1)
        self.cut = 1 - num_kept / max(self.num_tokens, 1)


def _describe_text(report, words, examples) -> None:
    num_tokens = examples.num_tokens
    report.fact(
        "text",
        f"{examples.num_documents:,} documents, {examples.num_lines:,} "
        f"lines, {words.num_words:,} words, {num_tokens:,} tokens",
    )
    report.fact(
        "tokens",
        f"{words.num_pieces / max(words.num_words, 1):.2f} a word, "
        f"{num_tokens / max(examples.num_lines, 1):,.1f} a line, "
        f"{num_tokens / max(examples.num_documents, 1):,.1f} a document",
    )


def _check_special_tokens(report, tokenizer, lines) -> None:
    """Checks of the vocabulary's layout, and for its markers in the text."""
    vocab = tokenizer.vocab
    report.fact(
        "special tokens",
        ", ".join(
            f"{token} {vocab.index(token)}"
            for token in vocabulary.SPECIAL_TOKENS
        ),
    )
    if tokenizer.pad_token_id != 0:
        report.warnings.append(
            f"[PAD] is {tokenizer.pad_token_id} in the vocabulary and should "
            "be 0, as in every released one: other libraries count on it"
        )
    if "" in vocab:
        report.warnings.append(
            f"the vocabulary has {vocab.count('')} blank line(s), the first on "
            f"line {vocab.index('') + 1}: an id that no text gets"
        )
    if not any(entry.startswith("##") for entry in vocab):
        report.warnings.append(
            "no entry of the vocabulary starts with ##: words that are no "
            "entry themselves become [UNK]; is this a WordPiece vocabulary?"
        )
    markers = collections.Counter(
        marker for line in lines for marker in _MARKER.findall(line)
    )
    if markers:
        token, count = markers.most_common(1)[0]
        report.warnings.append(
            f"{sum(markers.values())} special token(s) stand in the text, such "
            f"as {token} ({count} times): in text they are words like any "
            "other, never the token"
        )


def _check_unknown(report, words, tokenizer) -> None:
    report.fact(
        "vocabulary",
        f"{tokenizer.vocab_size:,} entries, {len(words.used):,} of them in "
        "the sample",
    )
    text = f"{words.unknown_share:.3%} of the words"
    if words.unknown:
        text += ", most often " + ", ".join(
            f"{_shortened(word)!r} ({count})"
            for word, count in words.unknown.most_common(_NUM_NAMED)
        )
    report.fact("[UNK]", text)
    if words.unknown_share > reports.MAX_UNKNOWN:
        report.warnings.append(
            f"{words.unknown_share:.1%} of the words are [UNK]: is the "
            "vocabulary of this language, and are the flags its own?"
        )
    if words.unknown.total() > reports.MOSTLY_UNKNOWN * words.num_pieces:
        report.errors.append(
            f"{words.unknown.total() / words.num_pieces:.0%} of the tokens "
            "would be [UNK], from which nothing can be learned"
        )
    if words.missing:
        share = sum(words.missing.values()) / words.num_characters
        named = ", ".join(
            f"{_printable(character)} U+{ord(character):04X} ({count})"
            for character, count in words.missing.most_common(_NUM_NAMED)
        )
        report.fact(
            "missing characters",
            f"{len(words.missing)} kind(s), {share:.3%} of the text: {named}",
        )
        if share > _MAX_MISSING_CHARACTERS:
            report.warnings.append(
                f"{share:.2%} of the characters are not in the vocabulary, "
                f"first of all {named.split(', ')[0]}: every word with one is "
                "[UNK]"
            )


def _check_case(report, words, tokenizer) -> None:
    entries = _spellings(tokenizer.vocab)
    capitals = [entry for entry in entries if entry != entry.lower()]
    accented = [entry for entry in entries if entry != _without_marks(entry)]
    if tokenizer.do_lower_case:
        if len(capitals) > 0.02 * len(entries):
            report.warnings.append(
                f"text is lower-cased, but {len(capitals)} of the "
                f"{len(entries)} entries have capitals, such as "
                f"{capitals[len(capitals) // 2]!r}: for a cased vocabulary use "
                "--no-lower-case"
            )
        if tokenizer.strip_accents and len(accented) > 0.005 * len(entries):
            report.warnings.append(
                f"accents are stripped, but {len(accented)} of the "
                f"{len(entries)} entries have them, such as "
                f"{accented[len(accented) // 2]!r}: use --no-strip-accents"
            )
        return
    share = words.share_of(lambda word: word != word.lower())
    if share > 0.01 and not capitals:
        report.warnings.append(
            f"{share:.1%} of the words have capitals, but no entry of the "
            "vocabulary has: for an uncased vocabulary use --lower-case"
        )
    share = words.share_of(lambda word: word != _without_marks(word))
    if share > 0.01 and not accented:
        report.warnings.append(
            f"{share:.1%} of the words have accents, but no entry of the "
            "vocabulary has; accents are only stripped with --lower-case "
            "--strip-accents"
        )


def _without_marks(text: str) -> str:
    """Text without the non-spacing marks of its decomposition, composed."""
    kept = (
        character
        for character in unicodedata.normalize("NFD", text)
        if unicodedata.category(character) != "Mn"
    )
    return unicodedata.normalize("NFC", "".join(kept))


def _check_hangul(report, words, lines, tokenizer) -> None:
    num_jamo, num_syllables = (
        sum(bool(letters.search(entry)) for entry in tokenizer.vocab)
        for letters in (_JAMO, _SYLLABLE)
    )
    jamo = words.share_of(_JAMO.search)
    syllables = words.share_of(_SYLLABLE.search)
    if jamo > 0.001 and num_syllables > num_jamo:
        what = (
            f"Hangul is decomposed (NFD) in {jamo:.1%} of the words, but the "
            f"vocabulary has syllables (NFC) in {num_syllables} entries"
        )
        if sum(len(_JAMO.findall(line)) for line in lines) > sum(
            len(_SYLLABLE.findall(line)) for line in lines
        ):
            report.warnings.append(f"{what}: normalise the text to NFC")
        else:
            report.warnings.append(
                f"{what}: stripping accents decomposes Hangul, too; use "
                "--no-strip-accents"
            )
    elif syllables > 0.001 and num_jamo > num_syllables:
        report.warnings.append(
            f"Hangul is in syllables (NFC) in {syllables:.1%} of the words, "
            f"but the vocabulary has it decomposed (NFD) in {num_jamo} "
            "entries: build with --lower-case --strip-accents, or normalise "
            "the text to NFD"
        )


def _check_forms(report, words, lines) -> None:
    """Would the text be known in another normal form than its own?"""
    num_missing = sum(words.missing.values())
    if num_missing <= _MAX_MISSING_CHARACTERS * words.num_characters:
        return
    for form in ("NFC", "NFD"):
        if all(unicodedata.is_normalized(form, line) for line in lines):
            continue
        if sum(words.missing_in(form).values()) < num_missing / 2:
            report.warnings.append(
                f"most missing characters are known to the vocabulary once the "
                f"text is normalised to {form}: normalise it before building"
            )
            return


def _try_other_flags(report, lines, tokenizer) -> None:
    """Looks for flags that leave fewer words unknown."""
    some: list[str] = []
    num_bytes = 0
    # Lines from everywhere, always the same.
    for line in random.Random(0).sample(lines, len(lines)):
        some.append(line)
        num_bytes += len(line.encode())
        if num_bytes > _TRIAL_BYTES:
            break
    here = _Words(some, tokenizer).unknown_share
    if here < reports.MAX_UNKNOWN / 2:
        return
    flags_now = (tokenizer.do_lower_case, tokenizer.strip_accents)
    best, best_flags = here / 2, None
    for flags in ((True, True), (True, False), (False, False)):
        if flags == flags_now or not (flags[0] or flags_now[0]):
            continue
        other = tokenization.FullTokenizer(
            vocabulary.Vocabulary(tokenizer.vocabulary.tokens, *flags)
        )
        share = _Words(some, other).unknown_share
        if share < best:
            best, best_flags = share, flags
    if best_flags is not None:
        lower, strip = best_flags
        advice = f"--{'' if lower else 'no-'}lower-case"
        if lower:
            advice += f" --{'' if strip else 'no-'}strip-accents"
        report.warnings.append(
            f"with {advice}, {best:.2%} of the words would be [UNK] instead of "
            f"{here:.2%}"
        )


def _check_examples(report, examples, max_seq_length) -> None:
    if not examples.lengths:
        report.errors.append("the sample makes no examples: it has no tokens")
        return
    if examples.padding > reports.MAX_PADDING:
        report.warnings.append(
            f"{examples.padding:.0%} of the examples is padding, which is "
            "computed for nothing: documents are short; use a smaller "
            "--max-seq-length, or pack them together: "
            "--no-blanks-separate-docs if blank lines separate them, larger "
            "files if they are files"
        )
    if examples.cut > _MAX_CUT:
        report.warnings.append(
            f"{examples.cut:.0%} of the tokens are in no example: what does "
            "not fit into one is cut off, and the longest line has "
            f"{examples.longest_line:,} tokens for {max_seq_length}; give a "
            "sentence a line"
        )


def _bytes(number: float) -> str:
    if number < 1000:
        return f"{number:.0f} bytes"
    for unit in ("kB", "MB"):
        number /= 1000
        if number < 1000:
            return f"{number:.3g} {unit}"
    return f"{number / 1000:.3g} GB"


def _shortened(word: str, length: int = 20) -> str:
    return word if len(word) <= length else word[: length - 3] + "..."


def _printable(character: str) -> str:
    """A character, a combining one on a dotted circle, quoted."""
    if unicodedata.combining(character):
        character = "\u25cc" + character
    return repr(character)
