"""Documents -> the labelled task: which library does a text describe?"""

import collections
import re
from collections.abc import Callable, Iterable, Iterator

_LIBRARIES = "python tensorflow numpy scipy pandas sklearn keras matplotlib"
# Package -> the library that its texts are labelled with.
LABEL_OF = {name: name for name in _LIBRARIES.split()}
LABEL_OF |= {"keras_hub": "keras", "tf_keras": "keras"}
LABEL_OF |= {"mpl_toolkits": "matplotlib"}
# TensorFlow carries an old copy of Keras; it would be labelled twice.
_UNLABELLED = re.compile(r"tensorflow/python/(keras|tools/api)/")
_WORDS = (20, 60)

_NAMES = "tensorflow|numpy|scipy|pandas|sklearn|keras|matplotlib|python|pyplot"
_ALIASES = "tf|np|pd|plt|mpl|sp|stdlib|pylab"
_ANY_NAME = re.compile(
    rf"(?i){_NAMES}|scikit|standard library|2tf|(?:_|\b)(?:{_ALIASES})"
)
# In this order: TF-IDF is not TensorFlow, and of "tf.data.Dataset" the path
# alone says which library it is.
_MASKS = (
    (r"(?i)\btf[-_ *x]+idf\b", "tfidf"),
    (
        rf"(?i)(?<![\w.])(?:\w*(?:{_NAMES})\w*|{_ALIASES})(?:\.\w+)*\."
        r"(?=[A-Za-z_])",
        "",
    ),
    (
        r"\b(?:TF|Tf|tf)(?=[A-Z])\w*|\btf(?:lite|record|hub|2)\w*|\b\w+2tf\b",
        "library",
    ),
    (
        r"(?i)\b\w*scikits?(?:[-_ ]?learn)?\w*|\bstandard library\b"
        rf"|\w*(?:{_NAMES})\w*|(?<![A-Za-z0-9])(?:\w*_)?(?:{_ALIASES})\d?"
        r"(?:_\w*)?(?![A-Za-z0-9])",
        "library",
    ),
    (r"\blibrary(?:[\s/.-]+library\b)+", "library"),
)


def mask_library_names(text: str) -> str:
    """Replaces the name of every label, wherever it occurs, by "library".

    All names are masked in all texts, not only a text's own: otherwise the name
    of one library would rule that library out.
    """
    if _ANY_NAME.search(text):
        for pattern, mask in _MASKS:
            text = re.sub(pattern, mask, text)
    return " ".join(text.replace('"', "").split())


def runs_of_sentences(sentences: Iterable[str]) -> Iterator[str]:
    """Yields runs of whole masked sentences, each of 20 to 60 words."""
    shortest, longest = _WORDS
    run: list[str] = []
    for sentence in [*map(mask_library_names, sentences), "word " * longest]:
        words = sentence.split()
        if len(run) + len(words) > longest:
            if len(run) >= shortest:
                yield " ".join(run)
            run = []
        if len(words) <= longest:
            words[-1] += "" if words[-1].endswith(tuple(".!?:;")) else "."
            run += words


def choose_rows(
    documents: Iterable, sizes: dict[str, int], draw: Callable[..., float]
) -> dict[str, list[tuple[str, str]]]:
    """The labelled rows of each split.

    First texts of docstrings are chosen before later ones, and in rounds, one
    per module and round, so that no module rules a label.

    Args:
      documents: With `module`, `package`, `split` and `sentences`.
      sizes: Split -> rows of each label, fewer where it has no more.
      draw: Strings -> a number that depends on them alone.

    Returns:
      Split -> (text, label), in an order of chance.
    """
    pools: dict = collections.defaultdict(list)
    seen = set()
    for document in documents:
        label = LABEL_OF.get(document.package)
        if not label or _UNLABELLED.match(document.module):
            continue
        for position, text in enumerate(runs_of_sentences(document.sentences)):
            if text.lower() not in seen:
                seen.add(text.lower())
                place = (position, draw("row", text), document.module)
                pools[document.split, label].append((*place, text))
    rows: dict = {split: [] for split in sizes}
    for (split, label), pool in pools.items():
        turns: collections.Counter = collections.Counter()
        ordered = []
        for position, drawn, module, text in sorted(pool):
            turns[position, module] += 1
            ordered.append((position, turns[position, module], drawn, text))
        chosen = sorted(ordered)[: sizes[split]]
        rows[split] += [(text, label) for *_, text in chosen]
    return {
        split: sorted(part, key=lambda row: draw("order", *row))
        for split, part in rows.items()
    }
