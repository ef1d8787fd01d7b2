"""Documents -> the labelled task: which library does a text describe?"""

import collections
import pathlib
import re
from collections.abc import Iterator, Sequence

from docstring_documents import Document, normalise, stable_hash, write_text

LABELLED_WORDS = (20, 60)
MAX_LABEL_SHARE = 1.5  # Of an even share, where other labels fall short.

# label: packages whose documents carry it.
LABELS = {
    "python": ("python",),
    "tensorflow": ("tensorflow",),
    "numpy": ("numpy",),
    "scipy": ("scipy",),
    "pandas": ("pandas",),
    "sklearn": ("sklearn",),
    "keras": ("keras", "keras_hub", "tf_keras"),
    "matplotlib": ("matplotlib", "mpl_toolkits"),
}
# TensorFlow carries an old copy of Keras; it would be labelled twice.
UNLABELLED_PATHS = re.compile(r"^tensorflow/python/(keras|tools/api)/")
MASK = "library"

_NAMES = "tensorflow|numpy|scipy|pandas|sklearn|keras|matplotlib|python|pyplot"
_ALIASES = "tf|np|pd|plt|mpl|sp|stdlib|pylab"
_ANY_NAME = re.compile(
    rf"{_NAMES}|scikit|standard library|\b\w*_(?:{_ALIASES})"
    rf"|(?<![A-Za-z0-9])(?:{_ALIASES})",
    re.IGNORECASE,
)
# "tf.data.Dataset" -> "Dataset": the path says which library it is.
_MODULE_PATH = re.compile(
    rf"(?<![\w.])(?:\w*(?:{_NAMES})\w*|{_ALIASES})(?:\.\w+)*\.(?=[A-Za-z_])",
    re.IGNORECASE,
)
_LIBRARY_NAME = re.compile(
    r"\b\w*scikits?(?:[-_ ]?learn)?\w*|\bstandard library\b"
    rf"|\w*(?:{_NAMES})\w*"
    rf"|(?<![A-Za-z0-9])(?:\w*_)?(?:{_ALIASES})\d?(?:_\w*)?(?![A-Za-z0-9])",
    re.IGNORECASE,
)
_TF_IDF = re.compile(r"\btf[-_ *x]+idf\b", re.IGNORECASE)  # Not TensorFlow.
_TF_COMPOUND = re.compile(
    r"\b(?:TF|Tf|tf)(?=[A-Z])\w*|\btf(?:lite|record|hub|2)\w*|\b\w+2tf\b"
)


def mask_library_names(text: str) -> str:
    """Replaces the name of every label, wherever it occurs, by "library".

    All names are masked in all texts, not only a text's own: otherwise the name
    of one library would rule that library out.
    """
    if _ANY_NAME.search(text):
        text = _TF_IDF.sub("tfidf", text)
        text = _MODULE_PATH.sub("", text)
        text = _TF_COMPOUND.sub(MASK, text)
        text = _LIBRARY_NAME.sub(MASK, text)
        text = re.sub(rf"\b{MASK}(?:[\s/.-]+{MASK}\b)+", MASK, text)
    return " ".join(text.replace('"', "").split())


def labelled_texts(document: Document) -> Iterator[str]:
    """Yields runs of whole sentences, each of 20 to 60 words."""
    shortest, longest = LABELLED_WORDS
    run: list[str] = []
    num_words = 0
    for sentence in document.sentences:
        masked = mask_library_names(sentence)
        if not masked.endswith((".", "!", "?", ":", ";")):
            masked += "."
        length = len(masked.split())
        if num_words + length > longest:
            if num_words >= shortest:
                yield " ".join(run)
            run, num_words = [], 0
        if length <= longest:
            run.append(masked)
            num_words += length
    if num_words >= shortest:
        yield " ".join(run)


def build_labelled(
    documents: Sequence[Document],
    labels: Sequence[str],
    sizes: dict[str, int],
    seed: int,
) -> dict[str, list[tuple[str, str]]]:
    """Returns (text, label) rows per split, as balanced as the data allow.

    First texts of docstrings are drawn before later ones, and in rounds, one
    per module and round, so that no module rules a label.
    """
    label_of = {package: label for label in labels for package in LABELS[label]}
    # (split, label) -> (module, position in docstring) -> [(hash, text)]
    texts_per_module: dict = collections.defaultdict(
        lambda: collections.defaultdict(list)
    )
    # (split, label) -> [(position, round, hash, text)]
    pools: dict = collections.defaultdict(list)
    seen = set()
    for document in documents:
        label = label_of.get(document.package)
        if label is None or UNLABELLED_PATHS.match(document.module):
            continue
        for position, text in enumerate(labelled_texts(document)):
            if normalise(text) in seen:
                continue
            seen.add(normalise(text))
            draw = stable_hash(seed, "row", text)
            texts = texts_per_module[document.split, label]
            texts[document.module, position].append((draw, text))
    for key, modules in texts_per_module.items():
        for (_, position), texts in modules.items():
            for turn, (draw, text) in enumerate(sorted(texts)):
                pools[key].append((position, turn, draw, text))
        pools[key].sort()
    splits = {}
    for split, size in sizes.items():
        counts = quotas({x: len(pools[split, x]) for x in labels}, size)
        rows = [
            (text, label)
            for label, count in counts.items()
            for *_, text in pools[split, label][:count]
        ]
        rows.sort(key=lambda row: stable_hash(seed, "order", *row))
        splits[split] = rows
    return splits


def quotas(available: dict[str, int], size: int) -> dict[str, int]:
    """Shares `size` among labels; what one cannot fill goes to the others."""
    shares = {}
    remaining = size
    most = MAX_LABEL_SHARE * size / max(1, len(available))
    by_scarcity = sorted(available, key=lambda label: (available[label], label))
    for number, label in enumerate(by_scarcity):
        share = remaining // (len(by_scarcity) - number)
        shares[label] = min(share, available[label], int(most))
        remaining -= shares[label]
    return shares


def write_labelled(
    splits: dict[str, list[tuple[str, str]]], directory: pathlib.Path
) -> None:
    """Writes one table a split: text<TAB>label, below a line of names."""
    directory.mkdir(parents=True)
    for split, rows in splits.items():
        lines = ["text\tlabel", *(f"{text}\t{label}" for text, label in rows)]
        write_text(directory / f"{split}.tsv", "\n".join(lines) + "\n")
