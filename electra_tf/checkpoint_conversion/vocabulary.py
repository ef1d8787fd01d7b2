"""The vocabulary beside a checkpoint, as text files."""

import dataclasses
import json
import os
import tempfile

from electra_tf import tokenization
from electra_tf.checkpoint_conversion.checkpoint import (
    CheckpointError,
    Vocabulary,
)
from electra_tf.command_line import write_atomically

VOCAB_FILE = "vocab.txt"


def read(
    path: str | os.PathLike,
    do_lower_case: bool | None = None,
    strip_accents: bool | None = None,
) -> Vocabulary | None:
    """Reads a vocabulary, and how text is treated where a file says so.

    Args:
      path: One token a line; `tools/build_vocab.py` writes its settings beside
        it, which give way to the arguments.
      do_lower_case: See `Vocabulary`.
      strip_accents: See `Vocabulary`.

    Returns:
      The vocabulary, or None if there is no such file.

    Raises:
      CheckpointError: If the file cannot be read.
    """
    path = os.fspath(path)
    if not os.path.exists(path):
        return None
    try:
        tokens = tokenization.load_vocab(path)
        settings = tokenization.load_settings(path)
        text_cleaning = tokenization.load_text_cleaning(path)
    except ValueError as error:
        raise CheckpointError(str(error)) from None
    if do_lower_case is None:
        do_lower_case = settings.get("do_lower_case")
    if strip_accents is None:
        strip_accents = settings.get("strip_accents")
    return Vocabulary(
        tuple(tokens), do_lower_case, strip_accents, text_cleaning
    )


def write(vocabulary: Vocabulary, folder: str) -> None:
    """Writes vocab.txt, and the treatment of text where it is known.

    Args:
      vocabulary: What to write.
      folder: Where.
    """
    path = os.path.join(folder, VOCAB_FILE)
    write_atomically(path, "".join(f"{t}\n" for t in vocabulary.tokens))
    if vocabulary.do_lower_case is not None:
        settings: dict[str, bool | str] = {
            "do_lower_case": vocabulary.do_lower_case,
            "strip_accents": strips_accents(vocabulary),
        }
        if vocabulary.text_cleaning != "none":
            settings["text_cleaning"] = vocabulary.text_cleaning
        write_atomically(
            tokenization.settings_file(path),
            json.dumps(settings, indent=1) + "\n",
        )


def make_tokenizer(vocabulary: Vocabulary) -> tokenization.FullTokenizer:
    """The tokenizer that a vocabulary was made for.

    Where nothing says whether text is lower-cased, see `lower_cases`.
    """
    lower = lower_cases(vocabulary)
    known = dataclasses.replace(vocabulary, do_lower_case=lower)
    with tempfile.TemporaryDirectory() as folder:
        write(known, folder)
        return tokenization.FullTokenizer(
            os.path.join(folder, VOCAB_FILE),
            lower,
            strips_accents(known),
            known.text_cleaning,
        )


def strips_accents(vocabulary: Vocabulary) -> bool:
    """Whether accents are deleted: by default with lower-casing, as in BERT."""
    if vocabulary.strip_accents is None:
        return bool(vocabulary.do_lower_case)
    return bool(vocabulary.do_lower_case and vocabulary.strip_accents)


def lower_cases(vocabulary: Vocabulary) -> bool:
    """Whether text is lower-cased: if nothing says so, without capitals."""
    if vocabulary.do_lower_case is not None:
        return vocabulary.do_lower_case
    return not any(
        token != token.lower()
        for token in vocabulary.tokens
        # [CLS] and the like.
        if not (token.startswith("[") and token.endswith("]"))
    )


def case_notes(vocabulary: Vocabulary) -> list[str]:
    """What `lower_cases` had to take from the tokens, if anything."""
    if vocabulary.do_lower_case is not None:
        return []
    lower = lower_cases(vocabulary)
    return [
        f"nothing says whether text is lower-cased: taken as {lower}, since "
        f"the vocabulary has {'no ' if lower else ''}capitals "
        "(--do-lower-case)"
    ]
