"""Learns a WordPiece vocabulary from text.

  python3 tools/build_vocab.py --corpus-dir my_corpus --vocab-file vocab.txt \\
      --vocab-size 8000

Text is normalised and split into words by the tokenizer that will use the
vocabulary, so every entry can occur. The same corpus and flags give the same
bytes. How the text was treated is written to <vocab-file>.json, from where
tools/build_pretraining_dataset.py takes its defaults.

Layout: [PAD] is 0, then come [unused0], [unused1] and so on, then [UNK],
[CLS], [SEP], [MASK], single characters, and longer pieces by the order in
which they were learned. With 20000 entries or more there are 99 unused ones,
which puts [UNK] at 100, [CLS] at 101, [SEP] at 102 and [MASK] at 103, as in
BERT's vocabularies; a smaller vocabulary has none, and [UNK] to [MASK] are 1
to 4. --num-unused sets another number.
"""

import argparse
import collections
import importlib.metadata
import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence

from electra_tf import files
from electra_tf.command_line import arguments
from electra_tf.pretraining_data import corpus

# The released BERT vocabularies' number of unused entries, and the size from
# which a vocabulary can spare them.
BERT_NUM_UNUSED = 99
BERT_LAYOUT_MIN_SIZE = 20_000

_MANY_HANGUL_WORDS = 0.01

# Words of one string handed to the trainer; it works string by string.
_WORDS_PER_STRING = 1000


def make_parser() -> arguments.ArgumentParser:
    """The flags."""
    parser = arguments.ArgumentParser(prog="build_vocab", description=__doc__)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument(
        "--corpus-dir",
        help="Folder of files, subfolders included, of any kind that "
        "tools/build_pretraining_dataset.py reads.",
    )
    source.add_argument(
        "--input", nargs="+", metavar="FILE", help="Such files."
    )
    parser.add_argument(
        "--vocab-file", required=True, help="The vocabulary to write."
    )
    parser.add_argument(
        "--vocab-size",
        type=arguments.positive_int,
        default=30522,
        help="Number of entries (default 30522, BERT's).",
    )
    parser.add_argument(
        "--lower-case",
        dest="do_lower_case",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="Lower-case the text (default yes).",
    )
    parser.add_argument(
        "--strip-accents",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="Strip accents if lower-casing (default yes).",
    )
    parser.add_argument(
        "--min-frequency",
        type=arguments.positive_int,
        default=2,
        help="Pieces that occur less often are not learned (default 2).",
    )
    parser.add_argument(
        "--character-coverage",
        type=_coverage,
        default=0.9995,
        help="Share of the text's characters that must have an entry (default "
        "0.9995); a word with one of the rarest others becomes [UNK].",
    )
    parser.add_argument(
        "--num-unused",
        type=_num_unused,
        help="Number of [unused] entries (default: see above).",
    )
    parser.add_argument(
        "--text-field",
        default="text",
        help="Field of .jsonl and column of .parquet that holds a document "
        "(default text).",
    )
    return parser


def _coverage(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= 1:
        raise argparse.ArgumentTypeError(
            f"expected a number above 0 and up to 1, received {text!r}"
        )
    return value


def _num_unused(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(
            f"expected a whole number of at least 0, received {text!r}"
        )
    return int(text)


def build_vocab(args: argparse.Namespace) -> None:
    """Learns the vocabulary and writes it.

    Args:
      args: As `make_parser` makes them.

    Raises:
      ValueError: On anything that the user can mend.
    """
    if args.input:
        paths = args.input
        for path in paths:
            with open_or_refuse(path):
                pass
    else:
        paths = [file.path for file in corpus.list_files(args.corpus_dir)]
    folder = os.path.dirname(os.path.abspath(args.vocab_file))
    if not os.path.isdir(folder):
        raise ValueError(
            "Expected --vocab-file in a folder that exists. Received: "
            f"{args.vocab_file!r}."
        )

    from electra_tf.text import vocabulary

    word_counts = count_words(
        paths,
        args.do_lower_case,
        args.strip_accents,
        corpus.Reading(text_field=args.text_field),
    )
    if not word_counts:
        raise ValueError(
            f"Expected text to learn from. Received: {len(paths)} file(s) "
            "without a word."
        )
    if args.do_lower_case and args.strip_accents:
        warn_of_decomposed_hangul(word_counts)
    vocab = learn_vocab(
        word_counts,
        args.vocab_size,
        special_entries(args.num_unused, args.vocab_size),
        args.min_frequency,
        args.character_coverage,
    )
    vocabulary.validate_vocab(vocab, args.vocab_file)
    if len(vocab) < args.vocab_size:
        say(
            f"warning: the text gave {len(vocab)} of {args.vocab_size} "
            "entries; use more text or a lower --min-frequency for more"
        )
    settings = {
        "do_lower_case": args.do_lower_case,
        "strip_accents": args.strip_accents,
        "vocab_size": len(vocab),
        "min_frequency": args.min_frequency,
        "character_coverage": args.character_coverage,
        "special_token_ids": {
            token: vocab.index(token) for token in vocabulary.SPECIAL_TOKENS
        },
        "num_words": sum(word_counts.values()),
        "tokenizers_version": importlib.metadata.version("tokenizers"),
    }
    write_vocab(args.vocab_file, vocab, settings, vocabulary.settings_file)


def say(message: str) -> None:
    print(f"build_vocab: {message}", file=sys.stderr)


def warn_of_decomposed_hangul(
    word_counts: collections.Counter[str],
) -> None:
    """Tells those with Korean text what stripping accents does to it."""
    num_words = sum(
        count
        for word, count in word_counts.items()
        if any("\u1100" <= char <= "\u11ff" for char in word)
    )
    share = num_words / sum(word_counts.values())
    if share > _MANY_HANGUL_WORDS:
        say(
            f"warning: {share:.0%} of the words are Hangul, which stripping "
            "accents takes apart into its letters; --no-strip-accents learns "
            "syllables"
        )


def open_or_refuse(path: str):
    """Opens a file for reading.

    Raises:
      ValueError: If that is impossible.
    """
    try:
        return open(path, "rb")
    except OSError as error:
        raise ValueError(f"Cannot read {path!r}: {error.strerror}.") from None


def special_entries(num_unused: int | None, vocab_size: int) -> list[str]:
    """The entries that are not learned, in order; see the help text."""
    if num_unused is None:
        is_large = vocab_size >= BERT_LAYOUT_MIN_SIZE
        num_unused = BERT_NUM_UNUSED if is_large else 0
    unused = [f"[unused{i}]" for i in range(num_unused)]
    return ["[PAD]", *unused, "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def count_words(
    paths: Iterable[str],
    do_lower_case: bool,
    strip_accents: bool,
    reading: corpus.Reading,
) -> collections.Counter[str]:
    """Counts the words of some files as the tokenizer sees them.

    Raises:
      ValueError: If a file cannot be read or is damaged.
    """
    import tensorflow as tf

    from electra_tf.text import tokenization

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def count(lines):
        words = tokenization.split_into_words(
            lines, do_lower_case, strip_accents
        ).flat_values
        unique, _, counts = tf.unique_with_counts(words, tf.int64)
        return unique, counts

    totals: collections.Counter[bytes] = collections.Counter()
    for path in paths:
        for lines, _ in corpus.read_lines(path, reading=reading):
            unique, counts = count(tf.constant(lines, tf.string))
            for word, number in zip(
                unique.numpy().tolist(), counts.numpy().tolist(), strict=True
            ):
                totals[word] += number
    # A longer word is [UNK] whatever the vocabulary holds.
    return collections.Counter(
        {
            text: number
            for word, number in totals.items()
            if len(text := word.decode("utf-8"))
            <= tokenization.MAX_CHARS_PER_WORD
        }
    )


def frequent_characters(
    word_counts: collections.Counter[str], coverage: float
) -> list[str]:
    """The most frequent characters that make up a share of the text.

    Returns:
      The characters, sorted.
    """
    counts: collections.Counter[str] = collections.Counter()
    for word, number in word_counts.items():
        for char in word:
            counts[char] += number
    total = sum(counts.values())
    kept = []
    covered = 0
    for char, number in sorted(counts.items(), key=lambda x: (-x[1], x[0])):
        if covered >= coverage * total:
            break
        kept.append(char)
        covered += number
    return sorted(kept)


def learn_vocab(
    word_counts: collections.Counter[str],
    vocab_size: int,
    special: Sequence[str],
    min_frequency: int,
    character_coverage: float,
) -> list[str]:
    """Learns the longer pieces.

    Args:
      word_counts: Words and how often they occur.
      vocab_size: Number of entries to reach.
      special: Entries to begin with.
      min_frequency: Pieces that occur less often are not learned.
      character_coverage: See `frequent_characters`.

    Returns:
      The vocabulary.

    Raises:
      ValueError: If `vocab_size` leaves no room for single characters.
    """
    import tokenizers

    characters = frequent_characters(word_counts, character_coverage)
    known = set(characters)
    usable = sorted(word for word in word_counts if known.issuperset(word))
    inside = sorted({char for word in usable for char in word[1:]})
    first_entries = [*special, *characters, *(f"##{char}" for char in inside)]
    if len(first_entries) > vocab_size:
        raise ValueError(
            f"Expected --vocab-size of at least {len(first_entries)}, for "
            f"{len(special)} special entries and {len(characters)} characters "
            f"at the start of and {len(inside)} inside words. Received: "
            f"{vocab_size}; raise it or lower --character-coverage."
        )
    trainer = tokenizers.trainers.WordPieceTrainer(
        vocab_size=vocab_size,
        min_frequency=min_frequency,
        # Given all single characters in a fixed order, the trainer breaks
        # ties the same way each time; its own order comes from a hash table.
        special_tokens=first_entries,
        show_progress=False,
    )
    tokenizer = tokenizers.Tokenizer(
        tokenizers.models.WordPiece(unk_token="[UNK]")
    )
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    tokenizer.train_from_iterator(_repeated_words(usable, word_counts), trainer)
    ids = tokenizer.get_vocab()
    return sorted(ids, key=ids.__getitem__)


def _repeated_words(
    words: Sequence[str], word_counts: collections.Counter[str]
) -> Iterator[str]:
    """Strings in which each word occurs as often as it does in the text."""
    for word in words:
        rounds, rest = divmod(word_counts[word], _WORDS_PER_STRING)
        for _ in range(rounds):
            yield f"{word} " * _WORDS_PER_STRING
        yield f"{word} " * rest


def write_vocab(vocab_file, vocab, settings, settings_file) -> None:
    """Writes the vocabulary, then the settings beside it.

    Raises:
      ValueError: If there is another vocabulary already.
    """
    content = "".join(f"{token}\n" for token in vocab)
    if os.path.exists(vocab_file):
        with open_or_refuse(vocab_file) as reader:
            if reader.read() != content.encode("utf-8"):
                raise ValueError(
                    "Expected a new --vocab-file. Received: "
                    f"{vocab_file!r}, which holds another vocabulary."
                )
    files.write_atomically(vocab_file, content)
    files.write_atomically(
        settings_file(vocab_file), json.dumps(settings, indent=1) + "\n"
    )
    say(f"wrote {len(vocab)} entries to {vocab_file}")


def main(argv: Sequence[str] | None = None) -> int:
    return arguments.run(build_vocab, make_parser(), argv)


if __name__ == "__main__":
    # Text needs no GPU, and TensorFlow would take all of its memory.
    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
    sys.exit(main())
