"""A vocabulary file -> its tokens, ids and the treatment of text it is for.

`vocab.txt` has one token a line, in the order of their ids; how text is
treated before it is looked up stands in `vocab.txt.json` beside it, where
`tools/build_vocab.py` or a checkpoint knows it.
"""

import contextlib
import dataclasses
import functools
import hashlib
import json
import os
from collections.abc import Sequence

from electra_tf import errors, files
from electra_tf.errors import CheckpointError, ConfigError
from electra_tf.files import read_bytes, write_atomically, write_json

VOCAB_FILE = "vocab.txt"

PAD_TOKEN = "[PAD]"
UNK_TOKEN = "[UNK]"
CLS_TOKEN = "[CLS]"
SEP_TOKEN = "[SEP]"
MASK_TOKEN = "[MASK]"
SPECIAL_TOKENS = (PAD_TOKEN, UNK_TOKEN, CLS_TOKEN, SEP_TOKEN, MASK_TOKEN)

SUFFIX_INDICATOR = "##"

# A longer word is one [UNK]. In characters, after normalisation; from BERT.
MAX_CHARS_PER_WORD = 200
# Of a token in tensorflow_text's look-up.
MAX_BYTES = 256

# What the settings beside a vocabulary say of a text, each true or false.
TREATMENT = ("do_lower_case", "strip_accents")
# In the settings beside a model's vocabulary, which nobody should change.
_DIGEST = "sha256"


def _id_of(token: str) -> property:
    return property(lambda self: self._ids[token])


@dataclasses.dataclass(frozen=True)
class Vocabulary:
    """The tokens that text becomes, and what is done to text before.

    Attributes:
      tokens: In the order of their ids.
      do_lower_case: Text is lower-cased first; None where nothing says so.
      strip_accents: Accents are deleted; None where nothing says so. They are
        kept without lower-casing, whatever this says.
      text_cleaning: What is done before that, one of `cleaning.CLEANINGS`.
    """

    tokens: tuple[str, ...]
    do_lower_case: bool | None = None
    strip_accents: bool | None = None
    text_cleaning: str = "none"

    @functools.cached_property
    def _ids(self) -> dict[str, int]:
        return {token: i for i, token in enumerate(self.tokens)}

    pad_token_id = _id_of(PAD_TOKEN)
    unk_token_id = _id_of(UNK_TOKEN)
    cls_token_id = _id_of(CLS_TOKEN)
    sep_token_id = _id_of(SEP_TOKEN)
    mask_token_id = _id_of(MASK_TOKEN)

    def strips_accents(self) -> bool:
        """Whether accents go: by default with lower-casing, as in BERT."""
        if self.strip_accents is None:
            return bool(self.do_lower_case)
        return bool(self.do_lower_case and self.strip_accents)

    def treatment(self) -> dict[str, bool | str]:
        """Setting -> value, of what is known to be done to text."""
        known: dict[str, bool | str] = {}
        if self.do_lower_case is not None:
            known["do_lower_case"] = self.do_lower_case
            known["strip_accents"] = self.strips_accents()
        return known | {"text_cleaning": self.text_cleaning}

    def lower_cases(self) -> bool:
        """Whether text is lower-cased: if nothing says so, without capitals."""
        if self.do_lower_case is not None:
            return self.do_lower_case
        return not any(
            token != token.lower()
            for token in self.tokens
            # [CLS] and the like.
            if not (token.startswith("[") and token.endswith("]"))
        )

    def padded(self, rows: int) -> "Vocabulary":
        """The same with a token for each row that pads a table of embeddings.

        Tables are padded to a multiple of 8 rows, for tensor cores.
        """
        missing = rows - len(self.tokens)
        if not 0 < missing < 128 or rows % 8:
            return self
        taken = set(self.tokens)
        spare = (f"[unused{i}]" for i in range(rows))
        new = [token for token in spare if token not in taken][:missing]
        errors.warn(
            f"the last {missing} rows of the embedding table have no token in "
            f"the vocabulary: taken for padding, {new[0]} to {new[-1]}"
        )
        return dataclasses.replace(self, tokens=(*self.tokens, *new))

    def settled(self) -> "Vocabulary":
        """The same, with `lower_cases` and `strips_accents` written down."""
        known = dataclasses.replace(self, do_lower_case=self.lower_cases())
        return dataclasses.replace(known, strip_accents=known.strips_accents())


def load_vocab(vocab_file: str | os.PathLike) -> list[str]:
    """Reads a vocabulary: one token a line, white space around it stripped.

    Args:
      vocab_file: Path of a UTF-8 text file; any that `tf.io.gfile` reads.

    Returns:
      The tokens; a token's id is its index. Blank lines at the end of the file
      are no tokens, a blank line elsewhere takes an id that text never gets.
      A byte order mark at its head means nothing.

    Raises:
      ValueError: If the file cannot be read or is not UTF-8, or
        `validate_vocab` refuses it.
    """
    vocab_file = os.path.expanduser(vocab_file)
    content = read_bytes(vocab_file, "vocabulary file")
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"Expected a vocabulary in UTF-8. Received: {vocab_file!r}, whose "
            f"byte {error.start} is 0x{content[error.start]:02x}."
        ) from None
    # No text has tokens with a byte order mark: cleaning deletes it.
    text = text.removeprefix("\ufeff")
    vocab = [line.strip() for line in text.split("\n")]
    while vocab and not vocab[-1]:
        vocab.pop()
    validate_vocab(vocab, vocab_file)
    return vocab


def load_of_size(vocab_file: str, vocab_size: int) -> Vocabulary:
    """Reads the vocabulary of a model, with what is known of its text.

    Args:
      vocab_file: See `load`.
      vocab_size: Of the model, which may be padded.

    Raises:
      ValueError: If it is missing, damaged or not of the model's size.
    """
    if not files.exists(vocab_file):
        raise ConfigError(
            f"Expected a vocabulary at {vocab_file}, found none. "
            "Build one with: electra-tf build-vocab --corpus_dir=CORPUS "
            f"--vocab_file={vocab_file} --vocab_size={vocab_size}"
        )
    vocabulary = load(vocab_file).padded(vocab_size)
    if len(vocabulary.tokens) != vocab_size:
        raise ConfigError(
            "EncoderConfig.vocab_size must be the size of the vocabulary. "
            f"Received: vocab_size={vocab_size}, but {vocab_file} has "
            f"{len(vocabulary.tokens)} entries; --gin_param="
            f"EncoderConfig.vocab_size={len(vocabulary.tokens)} takes all of "
            "them"
        )
    return vocabulary


def is_spelled(token: str) -> bool:
    """Whether text can have this token; others keep their ids.

    Not blanks, those with NUL, which cleaning deletes, and longer ones than a
    word can be.
    """
    word = token.removeprefix(SUFFIX_INDICATOR)
    return "\0" not in word and 0 < len(word) <= MAX_CHARS_PER_WORD


def validate_vocab(vocab: Sequence[str], vocab_file: str) -> None:
    """Refuses a vocabulary that no model could be trained with.

    Args:
      vocab: The tokens in the order of their ids.
      vocab_file: Where they come from, for the error message.

    Raises:
      ValueError: If it is empty, repeats a token, lacks a special token or has
        one that is too long for the look-up.
    """
    if not vocab:
        raise ValueError(
            "Expected a vocabulary with one token a line. Received: "
            f"{vocab_file!r}, which is empty."
        )
    first_lines: dict[str, int] = {}
    for line, token in enumerate(vocab, start=1):
        if token and first_lines.setdefault(token, line) != line:
            raise ValueError(
                "Expected every token of a vocabulary once. Received: "
                f"{vocab_file!r} with {token!r} on lines "
                f"{first_lines[token]} and {line}."
            )
        word = token.removeprefix(SUFFIX_INDICATOR)
        num_bytes = len(word.encode("utf-8", "surrogatepass"))
        if num_bytes > MAX_BYTES and is_spelled(token):
            raise ValueError(
                f"Expected tokens of at most {MAX_BYTES} bytes. Received: "
                f"{vocab_file!r} with one of {num_bytes} on line {line}: "
                f"{token[:20]!r}..."
            )
    missing = [token for token in SPECIAL_TOKENS if token not in first_lines]
    if missing:
        raise ValueError(
            f"Expected a vocabulary with {', '.join(SPECIAL_TOKENS)}. "
            f"Received: {vocab_file!r} with {len(vocab)} entries and without "
            f"{', '.join(missing)}."
        )


def settings_file(vocab_file: str | os.PathLike) -> str:
    """Where `tools/build_vocab.py` writes how a vocabulary was made."""
    return os.fspath(vocab_file) + ".json"


def load(vocab_file: str | os.PathLike) -> Vocabulary:
    """Reads a vocabulary, and how text is treated where a file says so.

    Args:
      vocab_file: One token a line, see `load_vocab`. `settings_file` beside it
        has `do_lower_case` and `strip_accents`, and may name a `text_cleaning`
        and the digest of the tokens.

    Raises:
      ValueError: If a file cannot be read or used.
    """
    tokens = tuple(load_vocab(vocab_file))
    path = settings_file(vocab_file)
    if not files.exists(path):
        return Vocabulary(tokens)
    content = read_bytes(path, "vocabulary's settings")
    try:
        settings = json.loads(content)
        known = {name: settings[name] for name in TREATMENT}
    except (ValueError, TypeError, KeyError, RecursionError):
        known = {}
    if not known or any(type(value) is not bool for value in known.values()):
        raise ValueError(
            "Expected a JSON file with true or false for "
            f"{' and '.join(TREATMENT)}. Received: {path!r}."
        )
    if "text_cleaning" in settings:
        from electra_tf.text import cleaning  # Imports TensorFlow.

        known["text_cleaning"] = settings["text_cleaning"]
        try:
            cleaning.check(known["text_cleaning"])
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None
    if settings.get(_DIGEST) not in (None, digest(tokens)):
        raise ValueError(
            f"Expected the tokens that {path!r} was written with. Received: "
            f"{os.fspath(vocab_file)!r}, which was changed since: bring the "
            "old one back, or, if no id means something else now, delete "
            f"{_DIGEST!r} there."
        )
    return Vocabulary(tokens, **known)


def digest(tokens: Sequence[str]) -> str:
    """SHA-256 of a file of these tokens, as `write_tokens` writes it."""
    content = "".join(f"{token}\n" for token in tokens)
    return hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()


def read(
    path: str | os.PathLike,
    do_lower_case: bool | None = None,
    strip_accents: bool | None = None,
) -> Vocabulary | None:
    """Reads the vocabulary of a checkpoint, if it has one.

    Args:
      path: See `load`. The settings beside it give way to the arguments.
      do_lower_case: See `Vocabulary`.
      strip_accents: See `Vocabulary`.

    Returns:
      The vocabulary, or None if there is no such file.

    Raises:
      CheckpointError: If the file cannot be read.
    """
    if not os.path.exists(path):
        return None
    try:
        vocabulary = load(path)
    except ValueError as error:
        raise CheckpointError(str(error)) from None
    said = {"do_lower_case": do_lower_case, "strip_accents": strip_accents}
    said = {name: value for name, value in said.items() if value is not None}
    return dataclasses.replace(vocabulary, **said)  # type: ignore[arg-type]


def warn_of_other_tokens(
    tokens: Sequence[str], learned: Sequence[str], name: str | os.PathLike
) -> None:
    """Warns where tokens are others than those that a model has learned.

    Args:
      tokens: In the order of their ids.
      learned: Likewise, of the model.
      name: What the warning calls `tokens`.
    """
    pairs = enumerate(zip(tokens, learned, strict=False))
    other = [(i, a, b) for i, (a, b) in pairs if a != b]
    if other:
        i, a, b = other[0]
        errors.warn(
            f"{len(other)} tokens of {os.fspath(name)} are others there, such "
            f"as {a!r} for {b!r} with the id {i}"
        )


def in_place_of(
    trained: Vocabulary | None, given: Vocabulary, name: str | os.PathLike
) -> Vocabulary:
    """A vocabulary of the user's in place of that of a model.

    Warns where its tokens, or what is done to text, are others.

    Args:
      trained: What the model has learned with, if that is known.
      given: Text is treated as for the model where nothing beside it says how,
        and cleaned as for the model where no cleaning is named.
      name: Of the file.
    """
    if trained is None:
        return given
    warn_of_other_tokens(given.tokens, trained.tokens, name)
    if given.do_lower_case is None:
        given = dataclasses.replace(trained, tokens=given.tokens)
    elif given.text_cleaning == "none":
        cleaning = trained.text_cleaning
        given = dataclasses.replace(given, text_cleaning=cleaning)
    learned = trained.treatment()
    for setting, value in given.treatment().items():
        if learned.get(setting, value) != value:
            errors.warn(
                f"{os.fspath(name)} is for {setting}={value}, the "
                f"model has learned with {learned[setting]}"
            )
    return given


def refuse_odd_tokens(tokens: Sequence[str]) -> None:
    """Refuses tokens that a file of one a line cannot hold.

    A line break in one would shift the ids of all that follow.

    Raises:
      CheckpointError: If there is one.
    """
    for i, token in enumerate(tokens):
        is_lost = not token and i + 1 == len(tokens)
        if is_lost or token != token.strip() or "\n" in token or "\r" in token:
            raise CheckpointError(
                "Expected tokens that can stand on a line of "
                f"{VOCAB_FILE}. Received: {token[:40]!r} with the id {i}, "
                "which would be read as another, or as more than one"
            )


def write_tokens(tokens: Sequence[str], folder: str) -> str:
    """Writes vocab.txt; returns its path.

    Raises:
      CheckpointError: See `refuse_odd_tokens`.
    """
    refuse_odd_tokens(tokens)
    path = os.path.join(folder, VOCAB_FILE)
    write_atomically(path, "".join(f"{token}\n" for token in tokens))
    return path


def write(vocabulary: Vocabulary, folder: str) -> None:
    """Writes vocab.txt, and the treatment of text where it is known.

    The latter with a digest, so that a change of the former is seen. Where it
    is not known, that of another vocabulary there goes.

    Args:
      vocabulary: What to write.
      folder: Where.

    Raises:
      CheckpointError: See `refuse_odd_tokens`.
    """
    path = write_tokens(vocabulary.tokens, folder)
    if vocabulary.do_lower_case is None:
        with contextlib.suppress(FileNotFoundError):
            os.remove(settings_file(path))
    else:
        settings: dict[str, bool | str] = {
            "do_lower_case": vocabulary.do_lower_case,
            "strip_accents": vocabulary.strips_accents(),
            _DIGEST: digest(vocabulary.tokens),
        }
        if vocabulary.text_cleaning != "none":
            settings["text_cleaning"] = vocabulary.text_cleaning
        write_json(settings_file(path), settings)
