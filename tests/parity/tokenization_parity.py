"""Compares the tokenizer with the golden ids, line by line."""

import functools
import json
import pathlib
from collections.abc import Iterator

import tensorflow as tf

from tests import helpers
from tests.parity.cases import Case
from tests.parity.check import Check

# Lines of these sets hold characters that the Unicode version of the golden
# run (11) did not know. The tokenizer's tables are fixed at Unicode 13, so it
# differs there by design.
_OTHER_UNICODE_SUFFIX = "unicode_version_sensitive"


def cases(golden_dir: pathlib.Path) -> Iterator[Case]:
    """Every set named in tokenization/sets.json."""
    folder = pathlib.Path(golden_dir) / "tokenization"
    sets_path = folder / "sets.json"
    if not sets_path.exists():
        return
    sets = json.loads(sets_path.read_text(encoding="utf-8"))
    for name, settings in sorted(sets.items()):
        yield Case(
            f"tokenization/{name}",
            functools.partial(_check_set, folder, name, settings),
        )


def _check_set(
    folder: pathlib.Path, name: str, settings: dict
) -> Iterator[Check]:
    case = f"tokenization/{name}"
    information_only = name.endswith(_OTHER_UNICODE_SUFFIX)
    rows = [
        json.loads(line)
        for line in (folder / f"{name}.jsonl")
        .read_text(encoding="utf-8")
        .split("\n")
        if line
    ]
    tokenizer = helpers.make_tokenizer(
        str(folder / settings["vocab"]),
        do_lower_case=settings["do_lower_case"],
        strip_accents=settings["strip_accents"],
    )
    tokenize = tf.function(
        tokenizer.tokenize,
        input_signature=[tf.TensorSpec([None], tf.string)],
    )
    ids = tokenize(
        tf.constant([row["text"] for row in rows], tf.string)
    ).to_list()

    entry = f"tokenization/sets.json:{name}"
    options = {
        f"{entry}/do_lower_case",
        f"{entry}/strip_accents",
        f"{entry}/vocab",
    }
    num_different = sum(
        ours != row["ids"] for ours, row in zip(ids, rows, strict=True)
    )
    yield Check(
        case,
        "lines with other ids",
        num_different,
        0,
        frozenset(
            options | {f"{case}.jsonl", f"tokenization/{settings['vocab']}"}
        ),
        information_only,
    )
    yield Check(
        case,
        "number of lines",
        abs(len(ids) - settings["lines"]),
        0,
        frozenset({f"{entry}/lines"}),
    )
    num_unknown = sum(row.count(tokenizer.unk_token_id) for row in ids)
    yield Check(
        case,
        "number of [UNK] ids",
        abs(num_unknown - settings["unk_ids"]),
        0,
        frozenset({f"{entry}/unk_ids"}),
        information_only,
    )
