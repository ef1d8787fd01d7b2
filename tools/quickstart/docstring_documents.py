"""Documents -> splits by module, without repeats, as text files."""

import collections
import dataclasses
import hashlib
import pathlib
from collections.abc import Iterable, Sequence

SPLITS = ("train", "dev", "test")
MIN_DOCUMENT_WORDS = 8
MAX_SENTENCE_REPEATS = 3
MIN_SHARED_WORDS = 6


def stable_hash(seed: int, *parts: str) -> float:
    """Returns a number in [0, 1) that depends on its arguments alone."""
    text = "\0".join([str(seed), *parts])
    data = text.encode("utf-8", "backslashreplace")
    digest = hashlib.blake2b(data, digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64


def split_of_module(module: str, seed: int, heldout_fraction: float) -> str:
    """Returns "train", "dev" or "test"; the last two are held out, 1 to 2."""
    if stable_hash(seed, "split", module) >= heldout_fraction:
        return "train"
    return "dev" if stable_hash(seed, "dev", module) < 1 / 3 else "test"


def normalise(text: str) -> str:
    """What two texts have in common that differ in case and white space."""
    return " ".join(text.lower().split())


@dataclasses.dataclass
class Document:
    """One docstring's prose.

    Attributes:
      module: See `docstring_files.SourceFile`.
      package: That it belongs to.
      split: "train", "dev" or "test".
      sentences: Its prose.
    """

    module: str
    package: str
    split: str
    sentences: list[str]

    def num_words(self) -> int:
        return sum(len(line.split()) for line in self.sentences)

    def num_characters(self) -> int:
        return sum(len(line) + 1 for line in self.sentences)


def drop_repeats(
    documents: Iterable[Document], dropped: collections.Counter
) -> list[Document]:
    """Drops repeated documents and sentences; compared by `normalise`.

    Train comes first, then dev, then test, so that what a later split shares
    with an earlier one is dropped from the later one.
    """
    kept = []
    seen_documents = set()
    num_seen: collections.Counter = collections.Counter()
    splits_seen: dict[str, str] = {}
    for document in sorted(documents, key=lambda d: SPLITS.index(d.split)):
        if document.num_words() < MIN_DOCUMENT_WORDS:
            dropped["documents_too_short"] += 1
            continue
        keys = [normalise(sentence) for sentence in document.sentences]
        whole = "\n".join(keys)
        if whole in seen_documents:
            dropped["documents_repeated"] += 1
            continue
        seen_documents.add(whole)
        sentences = []
        for key, sentence in zip(keys, document.sentences, strict=True):
            first_split = splits_seen.setdefault(key, document.split)
            is_long = len(key.split()) >= MIN_SHARED_WORDS
            if is_long and first_split != document.split:
                dropped["sentences_shared_with_earlier_split"] += 1
                continue
            num_seen[key] += 1
            if num_seen[key] > MAX_SENTENCE_REPEATS:
                dropped["sentences_repeated"] += 1
                continue
            sentences.append(sentence)
        remaining = dataclasses.replace(document, sentences=sentences)
        if remaining.num_words() < MIN_DOCUMENT_WORDS:
            dropped["documents_too_short_without_repeats"] += 1
            continue
        kept.append(remaining)
    return kept


def limit_size(
    documents: Sequence[Document],
    max_characters: float,
    seed: int,
    dropped: collections.Counter,
) -> list[Document]:
    """Keeps whole modules, in an order drawn by hash, up to a size."""
    sizes: collections.Counter = collections.Counter()
    for document in documents:
        sizes[document.module] += document.num_characters()
    kept = set()
    total = 0
    for module in sorted(sizes, key=lambda name: stable_hash(seed, name)):
        total += sizes[module]
        if total > max_characters:
            break
        kept.add(module)
    dropped["documents_over_max_megabytes"] += sum(
        document.module not in kept for document in documents
    )
    return [document for document in documents if document.module in kept]


def write_documents(
    documents: Sequence[Document],
    directory: pathlib.Path,
    num_files: int,
    seed: int,
    document_unit: str,
) -> None:
    """Writes modules, in an order drawn by hash, to files of equal size."""
    modules: dict[str, list[Document]] = collections.defaultdict(list)
    for document in documents:
        modules[document.module].append(document)
    directory.mkdir(parents=True)
    shards: list[list[str]] = [[] for _ in range(num_files)]
    sizes = [0] * num_files
    order = sorted(modules, key=lambda name: stable_hash(seed, "file", name))
    for module in order:
        shard = sizes.index(min(sizes))
        blocks = ["\n".join(d.sentences) + "\n" for d in modules[module]]
        text = ("" if document_unit == "module" else "\n").join(blocks) + "\n"
        shards[shard].append(text)
        sizes[shard] += len(text)
    for number, texts in enumerate(shards):
        name = f"{number:02d}-of-{num_files:02d}.txt"
        write_text(directory / name, "".join(texts))


def write_text(path: pathlib.Path, text: str) -> None:
    """Writes a file with the same bytes on every system."""
    path.write_bytes(text.encode("utf-8"))
