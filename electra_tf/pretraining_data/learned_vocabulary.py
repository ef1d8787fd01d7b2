"""Text -> a WordPiece vocabulary.

Words are counted as the tokenizer that will use the vocabulary sees them, so
every entry can occur; the same text gives the same bytes.
"""

import collections
import functools
import os
from collections.abc import Sequence

from electra_tf import errors, files, validation
from electra_tf.command_line import arguments
from electra_tf.pretraining_data import corpus
from electra_tf.text import vocabulary

BERT_VOCAB_SIZE = 30522
# The released BERT vocabularies' number of unused entries, and the size from
# which a vocabulary can spare them.
BERT_NUM_UNUSED = 99
BERT_LAYOUT_MIN_SIZE = 20_000

# Lines of a batch, and of all, in which words are counted that are lost.
_SAMPLED_LINES = 1000
_MOST_SAMPLED_LINES = 50_000

# Words of one string handed to the trainer; it works string by string.
_WORDS_PER_STRING = 1000

say = functools.partial(arguments.say, "electra-tf build-vocab")


def build(
    vocab_file: str,
    *,
    corpus_dir: str,
    vocab_size: int = BERT_VOCAB_SIZE,
    do_lower_case: bool = True,
    strip_accents: bool = True,
    min_frequency: int = 2,
    character_coverage: float = 0.9995,
    text_field: str = "text",
    on_bad_input: str = "fail",
) -> None:
    """Learns a vocabulary and writes it, with its settings beside it.

    Args:
      vocab_file: The file to write; `<vocab_file>.json` gets the settings.
      corpus_dir: Folder of text.
      vocab_size: Number of entries to reach.
      do_lower_case: Whether the text is lower-cased.
      strip_accents: Whether lower-cased text loses its accents.
      min_frequency: Pieces that occur less often are not learned.
      character_coverage: See `frequent_characters`.
      text_field: Field of .jsonl and column of .parquet with the text.
      on_bad_input: "fail", or "skip" to leave out damaged places.

    Raises:
      ValueError: On anything that the user can mend.
    """
    bad_inputs = corpus.BadInputs()
    note = bad_inputs.note if on_bad_input == "skip" else None
    listed = corpus.list_files(corpus_dir, note, vocab_file)
    paths = [file.path for file in listed]
    decisions = {
        "do_lower_case": do_lower_case,
        "strip_accents": strip_accents,
        "min_frequency": min_frequency,
        "character_coverage": character_coverage,
    }
    # Before what takes long.
    _prepare(vocab_file, decisions)
    reading = corpus.Reading(text_field=text_field, on_bad_input=note)
    word_counts = _count_words(paths, reading, do_lower_case, strip_accents)
    if bad_inputs.count:
        errors.warn(f"left out {bad_inputs.count} damaged place(s)")
    vocab = learn_vocab(
        word_counts,
        vocab_size,
        special_entries(vocab_size),
        min_frequency,
        character_coverage,
    )
    vocabulary.validate_vocab(vocab, vocab_file)
    if len(vocab) < vocab_size:
        errors.warn(
            f"the text gave {len(vocab)} of {vocab_size} "
            "entries; use more text or a lower --min-frequency for more"
        )
    settings = decisions | {
        "vocab_size": len(vocab),
        "special_token_ids": {
            token: vocab.index(token) for token in vocabulary.SPECIAL_TOKENS
        },
        "num_words": word_counts.total(),
        "tokenizers_version": files.versions(["tokenizers"])["tokenizers"],
    }
    write_vocab(vocab_file, vocab, settings)


def _count_words(
    paths: Sequence[str],
    reading: corpus.Reading,
    do_lower_case: bool,
    strip_accents: bool,
) -> collections.Counter[str]:
    """The words of some files that a vocabulary can hold, and how often."""
    from electra_tf.text import tokenization

    sample: list[str] = []

    def lines():
        for path in paths:
            for batch in corpus.read_lines(path, reading=reading):
                if len(sample) < _MOST_SAMPLED_LINES:
                    sample.extend(batch.lines[:_SAMPLED_LINES])
                yield batch.lines

    word_counts = tokenization.count_words(
        lines(), do_lower_case, strip_accents
    )
    for line in tokenization.lost_text(sample, do_lower_case and strip_accents):
        errors.warn(line)
    # A longer word is [UNK] whatever the vocabulary holds.
    for word in list(word_counts):
        if len(word) > vocabulary.MAX_CHARS_PER_WORD:
            del word_counts[word]
    if not word_counts:
        raise ValueError(
            f"Expected text to learn from. Received: {len(paths)} file(s) "
            "without a word."
        )
    return word_counts


def special_entries(vocab_size: int) -> list[str]:
    """The entries that are not learned, in order; see the help text."""
    is_large = vocab_size >= BERT_LAYOUT_MIN_SIZE
    num_unused = BERT_NUM_UNUSED if is_large else 0
    unused = [f"[unused{i}]" for i in range(num_unused)]
    return ["[PAD]", *unused, "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def frequent_characters(
    word_counts: collections.Counter[str], coverage: float
) -> list[str]:
    """The most frequent characters that make up a share of the text."""
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
    """The special entries, then characters and longer pieces, as in `build`.

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
    # No token becomes longer than a word.
    short = [w for w in usable if len(w.encode()) <= vocabulary.MAX_BYTES]
    # Each word as often as it occurs in the text.
    repeated = (
        f"{word} " * min(word_counts[word] - i, _WORDS_PER_STRING)
        for word in short
        for i in range(0, word_counts[word], _WORDS_PER_STRING)
    )
    tokenizer.train_from_iterator(repeated, trainer)
    ids = tokenizer.get_vocab()
    return sorted(ids, key=ids.__getitem__)


def _prepare(vocab_file: str, decisions: dict) -> None:
    """Makes the folder, in which no settings may be of another vocabulary."""
    try:
        if "://" in vocab_file:
            raise OSError(0, "another machine's")
        os.makedirs(os.path.dirname(os.path.abspath(vocab_file)), exist_ok=True)
    except OSError as error:
        raise ValueError(
            "Expected --vocab-file in a folder of this machine. Received: "
            f"{vocab_file!r}, {error.strerror}."
        ) from None
    path = vocabulary.settings_file(vocab_file)
    if os.path.exists(path):
        settings = files.read_json(path)
        validation.require_same(
            decisions,
            {name: settings.get(name) for name in decisions},
            f"{path} is of another vocabulary",
            way_out="Choose another --vocab-file",
        )


def write_vocab(vocab_file: str, vocab: Sequence[str], settings: dict) -> None:
    """Writes the vocabulary, after the settings without which it means less."""
    content = "".join(f"{token}\n" for token in vocab)
    if os.path.exists(vocab_file):
        there = files.read_bytes(vocab_file, "vocabulary file")
        if there != content.encode("utf-8"):
            raise ValueError(
                "Expected a new --vocab-file. Received: "
                f"{vocab_file!r}, which holds another vocabulary."
            )
    files.write_json(vocabulary.settings_file(vocab_file), settings)
    files.write_atomically(vocab_file, content)
    say(f"wrote {len(vocab)} entries to {vocab_file}")
