"""Builds a corpus of English prose from the docstrings of installed packages.

No data set ships with electra_tf, so the quickstart pre-trains on text that
every installation has. Files are parsed with `ast`, never imported.

    python tools/quickstart/build_docstring_corpus.py \\
        --output_dir=build/quickstart/corpus

writes

    train/*.txt, heldout/*.txt   one sentence per line, a blank line after each
                                 document, which is one docstring
    labelled/{train,dev,test}.tsv   text<TAB>label: which library is described
    manifest.json                counts of documents and rows

The path of a text is: docstring_files -> docstring_prose -> labelled_texts. Two
rules keep the splits honest:

* A module (one file) is train or held-out by a hash of its path. Held-out
  modules are divided into dev and test in the same way.
* A document that repeats an earlier one is dropped. A sentence of six words or
  more that an earlier split has is dropped from the later ones; the order is
  train, dev, test. Comparison ignores case and white space.

The same installation gives the same bytes, whatever --num_processes.
"""

import argparse
import collections
import gc
import hashlib
import os
import pathlib
import shutil
import sys
import typing
from collections.abc import Iterable, Sequence

import docstring_files
import labelled_texts

from electra_tf import errors, files
from electra_tf.command_line import arguments

SPLITS = ("train", "dev", "test")
# Rows of each label.
_LABELLED_ROWS = {"train": 50, "dev": 100, "test": 200}
_NUM_TEXT_FILES = {"train": 8, "heldout": 2}
_MIN_DOCUMENT_WORDS = 8
_MIN_SHARED_WORDS = 6
_MAX_SENTENCE_REPEATS = 3
_SEED = "0"


class Document(typing.NamedTuple):
    """The prose of one docstring; `split` is one of `SPLITS`."""

    module: str
    package: str
    split: str
    sentences: list[str]


def draw(*parts: str) -> float:
    """A number in [0, 1) that depends on its arguments alone."""
    data = "\0".join([_SEED, *parts]).encode("utf-8", "backslashreplace")
    digest = hashlib.blake2b(data, digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64


def split_of_module(module: str, heldout_fraction: float) -> str:
    """Returns "train", "dev" or "test"; the last two are held out, 1 to 2."""
    if draw("split", module) >= heldout_fraction:
        return "train"
    return "dev" if draw("dev", module) < 1 / 3 else "test"


def drop_repeats(documents: Iterable[Document]) -> list[Document]:
    """Drops what is repeated, and documents that are short without it."""
    kept = []
    documents_seen = set()
    num_seen: collections.Counter = collections.Counter()
    split_of: dict[str, str] = {}
    for document in sorted(documents, key=lambda d: SPLITS.index(d.split)):
        keys = [" ".join(line.lower().split()) for line in document.sentences]
        if tuple(keys) in documents_seen:
            continue
        documents_seen.add(tuple(keys))
        sentences = []
        for key, sentence in zip(keys, document.sentences, strict=True):
            is_long = len(key.split()) >= _MIN_SHARED_WORDS
            split = split_of.setdefault(key, document.split)
            is_of_another = is_long and split != document.split
            if not is_of_another and num_seen[key] < _MAX_SENTENCE_REPEATS:
                num_seen[key] += 1
                sentences.append(sentence)
        if len(" ".join(sentences).split()) >= _MIN_DOCUMENT_WORDS:
            kept.append(document._replace(sentences=sentences))
    return kept


def _write_documents(
    documents: Sequence[Document], folder: pathlib.Path
) -> dict[str, int]:
    """Writes modules, in an order of chance, to files of equal size."""
    if not documents:
        raise errors.ConfigError(
            f"No {folder.name} prose in the docstrings: name more --packages, "
            "or another --heldout_fraction"
        )
    texts: dict[str, str] = collections.defaultdict(str)
    for document in documents:
        texts[document.module] += "\n".join([*document.sentences, "", ""])
    number = _NUM_TEXT_FILES[folder.name]
    shards = [""] * number
    for module in sorted(texts, key=lambda name: draw("file", name)):
        shortest = min(range(number), key=lambda i: len(shards[i]))
        shards[shortest] += texts[module]
    folder.mkdir()
    for i, text in enumerate(shards):
        path = folder / f"{i:02d}-of-{number:02d}.txt"
        path.write_text(text, "utf-8", newline="\n")
    return {
        "modules": len(texts),
        "documents": len(documents),
        "characters": sum(map(len, shards)),
    }


def _write_corpus(args: argparse.Namespace, folder: pathlib.Path) -> dict:
    """Writes all, and returns the manifest."""
    sources = docstring_files.find_files(args.root, args.packages)
    read = docstring_files.read_files(sources, args.num_processes)
    documents = drop_repeats(
        Document(file.module, file.package, split, sentences)
        for file, prose in zip(sources, read, strict=True)
        for split in [split_of_module(file.module, args.heldout_fraction)]
        for sentences in prose
    )
    totals = {
        name: _write_documents(
            [d for d in documents if (d.split == "train") == (name == "train")],
            folder / name,
        )
        for name in _NUM_TEXT_FILES
    }
    rows = labelled_texts.choose_rows(documents, _LABELLED_ROWS, draw)
    (folder / "labelled").mkdir()
    for name, part in rows.items():
        text = "\n".join(["text\tlabel", *map("\t".join, part), ""])
        path = folder / "labelled" / f"{name}.tsv"
        path.write_text(text, "utf-8", newline="\n")
    labelled = {name: len(part) for name, part in rows.items()}
    manifest = {"totals": totals, "labelled": labelled}
    files.write_json(str(folder / "manifest.json"), manifest)
    return manifest


def _build(args: argparse.Namespace) -> None:
    files.refuse_used(args.output_dir, "--output_dir")
    output_dir = pathlib.Path(args.output_dir).absolute()
    unfinished = output_dir.with_name(f"{output_dir.name}.tmp-{os.getpid()}")
    try:
        unfinished.mkdir(parents=True)
        manifest = _write_corpus(args, unfinished)
        unfinished.rename(output_dir)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    for name, totals in manifest["totals"].items():
        print(f"{name}:", *(f"{n:,} {what}" for what, n in totals.items()))
    for name, number in manifest["labelled"].items():
        print(f"labelled/{name}.tsv: {number:,} rows")


def main(argv=None) -> int:
    """Parses the flags and builds; returns the exit code."""
    parser = arguments.ArgumentParser("build_docstring_corpus", __doc__)
    add = parser.add_argument
    add("--output-dir", required=True, help="folder to write")
    add("--packages", type=arguments.names, default="", help="default: all")
    add("--root", default="", help="folder of packages, not site-packages")
    line = "share of the modules (default: %(default)s)"
    share = arguments.number(float, lambda x: 0 < x < 1, "a share of 1")
    add("--heldout-fraction", type=share, default=0.2, help=line)
    line = "files read at a time (default: %(default)s)"
    add("--num-processes", type=int, default=2, help=line)
    return arguments.run(_build, parser, argv)


if __name__ == "__main__":
    # Here and in the processes that read, `ast.parse` takes half the time
    # without it; nothing is cyclic.
    gc.disable()
    sys.exit(main())
