"""Public archives -> the corpus, vocabulary, TFRecords and rows of a suite.

The folder of the public sets holds them as they are published:

  glue/{CoLA,MRPC,RTE,SST-2,STS-B}/{train,dev}.tsv
  conll2003/{train,valid}.txt       wikitext-2/wiki.{valid,test}.tokens
  squad/{train,dev}-v1.1.json       or squad/xquad.en.json, cut by article
  aclImdb/ or aclImdb_v1.tar.gz     the Large Movie Review Dataset

No text of a split that is scored is pre-trained on, and no label. What exists
is not built again: a folder is there when all of it is.
"""

import collections
import functools
import hashlib
import json
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from suites import NUM_LABELS

from electra_tf import files

# Split -> where it may lie below the folder of the public sets.
_CONLL = {"train": ["conll2003/train.txt"], "dev": ["conll2003/valid.txt"]}
_WIKITEXT = {
    split: [f"wikitext-2/wiki.{split}.tokens", f"wikitext-2/{split}.txt"]
    for split in ("valid", "test")
}
_SQUAD = ["squad/train-v1.1.json", "squad/xquad.en.json"]
_IMDB = ["aclImdb", "aclImdb_v1.tar.gz", "imdb/aclImdb"]
_GLUE = {"CoLA": "cola", "MRPC": "mrpc", "RTE": "rte"}
_GLUE |= {"SST-2": "sst", "STS-B": "sts"}
# A share of 0.85 of so many test reviews is known to 0.005.
NUM_DEV_REVIEWS, NUM_TEST_REVIEWS = 2000, 5000
# To learn from in the comparisons.
NUM_COMPARISON_REVIEWS = 1600
_NUM_REVIEW_FILES = 8
# XQuAD has no dev part: of its 48 articles those whose number divides by this.
_DEV_ARTICLE = 4
# The space after a full stop, before what may begin a sentence.
_SENTENCE_END = r"(?<=[.!?]) (?=[A-Z\"'(])"


def find(data_dir: Path, places: Sequence[str]) -> Path:
    """The first of a set's places where there is something.

    Raises:
      ValueError: If there is nothing.
    """
    for place in places:
        if (data_dir / place).exists():
            return data_dir / place
    raise ValueError(
        f"Expected {' or '.join(places)} below {data_dir}. Received: nothing."
    )


# --- Archives -----------------------------------------------------------------


def wikitext(path: Path) -> Iterator[str]:
    """Its paragraphs, with the marks of its tokenizer undone."""
    for line in path.read_text("utf-8-sig").split("\n"):
        if (text := line.strip()) and not text.startswith("="):
            yield re.sub(r" @([-,.])@ ", r"\1", text).replace("<unk>", " ")


@functools.cache
def reviews(data_dir: Path) -> dict[str, list[tuple[str, str]]]:
    """The Large Movie Review Dataset, from its folder or its tar.gz.

    Returns:
      "train", "test" and "unsup" -> (text, label) of each review, ordered by a
      hash of their names, so that the first of them are a random sample.

    Raises:
      ValueError: If a part has no review, or the archive is damaged.
    """
    path = find(data_dir, _IMDB)
    by_split: dict[str, list] = collections.defaultdict(list)
    for name, content in _review_files(path):
        match = re.search(r"(train|test)/(pos|neg|unsup)/[^/]+\.txt$", name)
        if match:
            split, label = match.groups()
            order = hashlib.sha256(match[0].encode()).hexdigest()
            text = re.sub(r"<br\s*/?>", " ", content.decode("utf-8", "replace"))
            part = "unsup" if label == "unsup" else split
            by_split[part].append((order, " ".join(text.split()), label))
    for part in ("train", "test", "unsup"):
        if not by_split[part]:
            raise ValueError(f"Expected reviews of {part}. Received: {path}.")
    return {
        part: [(text, label) for _, text, label in sorted(some)]
        for part, some in by_split.items()
    }


def _review_files(path: Path) -> Iterator[tuple[str, bytes]]:
    if path.is_dir():
        for file in path.glob("*/*/*.txt"):
            yield file.as_posix(), file.read_bytes()
        return
    try:
        with tarfile.open(path) as archive:
            for member in archive:
                if content := archive.extractfile(member):
                    yield member.name, content.read()
    except (tarfile.TarError, EOFError, OSError) as error:
        raise ValueError(f"Cannot read {path}: {error}.") from None


# --- Steps --------------------------------------------------------------------


def _write(folder: Path, contents: Mapping[str, Path | Iterable[str]]) -> None:
    """Fills a folder: name of a file -> what it is a copy of, or its lines."""
    if folder.exists():
        return
    unfinished = folder.with_name(f"{folder.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    for name, content in contents.items():
        path = unfinished / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, Path):
            shutil.copyfile(content, path)
        else:
            path.write_text("".join(f"{line}\n" for line in content), "utf-8")
    unfinished.rename(folder)
    print(f"built: {folder}")


def sentences(texts: Iterable[str]) -> Iterator[str]:
    """One a line: what is longer than an example would be cut."""
    for text in texts:
        parts = re.split(_SENTENCE_END, " ".join(text.split()))
        yield from filter(None, parts)


def _labelled(
    data_dir: Path, split: str, start: int, end: int
) -> Iterator[str]:
    """Some of the labelled reviews under their header."""
    rows = reviews(data_dir)[split]
    if len(rows) < end:
        raise ValueError(
            f"Expected {end:,} reviews of {split}. Received: {len(rows):,} in "
            f"{find(data_dir, _IMDB)}."
        )
    yield "text\tlabel"
    yield from map("\t".join, rows[start:end])


def _unlabelled(data_dir: Path, number: int) -> Iterator[str]:
    """One of the files of reviews, a blank line between two of them."""
    for text, _ in reviews(data_dir)["unsup"][number::_NUM_REVIEW_FILES]:
        yield from (*sentences([text]), "")


def _review_corpus(data_dir: Path, folder: str = "") -> dict:
    return {
        f"{folder}reviews_{number}.txt": _unlabelled(data_dir, number)
        for number in range(_NUM_REVIEW_FILES)
    }


def _copy(
    data_dir: Path, folder: Path, places: Mapping[str, Sequence[str]]
) -> None:
    """Train and dev of a task, by the names that fine-tuning has for them."""
    paths = {split: find(data_dir, some) for split, some in places.items()}
    _write(folder, {f"{s}{path.suffix}": path for s, path in paths.items()})


def _command(result: Path, *args: object) -> None:
    """Runs a command of the product unless its result is there."""
    if not result.exists():
        words = list(map(str, args))
        command = [sys.executable, *words]
        if subprocess.run(command, stdin=subprocess.DEVNULL).returncode:
            raise ValueError(
                f"Expected {result}. Received: none from python "
                f"{shlex.join(words)}"
            )


def _vocabulary(corpus: Path, size: int, *flags: str) -> None:
    """Beside the corpus."""
    path = corpus.parent / "vocab.txt"
    args = ("-m", "electra_tf", "build-vocab", f"--corpus_dir={corpus}")
    flags = (f"--vocab_file={path}", f"--vocab_size={size}", *flags)
    _command(path, *args, *flags)


def _examples(output: Path, corpus: Path, num_files: int, *flags: str) -> None:
    """TFRecords beside their vocabulary."""
    _command(
        output / "manifest.json",
        *("-m", "electra_tf", "build-data", f"--corpus-dir={corpus}"),
        f"--vocab-file={output.parent / 'vocab.txt'}",
        f"--output-dir={output}",
        "--max-seq-length=128",
        "--num-processes=2",
        f"--num-out-files={num_files}",
        *flags,
    )


# --- The suites ---------------------------------------------------------------


def build_comparisons(data_dir: Path, build_dir: Path) -> None:
    """Docstrings, WikiText-2 and reviews; texts_tfrecords has no reviews."""
    docstrings, tasks = build_dir / "docstrings", build_dir / "finetuning_data"
    _copy(data_dir, tasks / "ner", _CONLL)
    for archive, name in _GLUE.items():
        splits = ("train", "dev")
        places = {s: [f"glue/{archive}/{s}.tsv"] for s in splits}
        _copy(data_dir, tasks / name, places)
    start = NUM_COMPARISON_REVIEWS
    end = start + NUM_DEV_REVIEWS
    of_imdb = {
        "train.tsv": _labelled(data_dir, "train", 0, start),
        "dev.tsv": _labelled(data_dir, "train", start, end),
    }
    _write(tasks / "imdb", of_imdb)
    texts = {f"texts/{k}": v for k, v in _texts(data_dir, docstrings).items()}
    corpus = build_dir / "corpus"
    _write(corpus, texts | _review_corpus(data_dir, "reviews/"))
    _vocabulary(corpus, 4096, "--character-coverage=0.99999")
    for name, folder, num_files in (
        ("train", corpus, 8),
        ("texts", corpus / "texts", 8),
        ("heldout", docstrings / "heldout", 2),
    ):
        output = build_dir / f"{name}_tfrecords"
        _examples(output, folder, num_files, "--no-blanks-separate-docs")


def _texts(data_dir: Path, docstrings: Path) -> dict[str, Path | Iterable[str]]:
    """WikiText-2 and docstrings: name of a file -> its contents."""
    texts: dict[str, Path | Iterable[str]] = {}
    for split, some in _WIKITEXT.items():
        lines = sentences(wikitext(find(data_dir, some)))
        texts[f"wikitext_{split}.txt"] = lines
    quickstart = Path(__file__).parents[1] / "quickstart"
    _command(
        docstrings / "manifest.json",
        quickstart / "build_docstring_corpus.py",
        f"--output_dir={docstrings}",
        "--heldout_fraction=0.05",
    )
    for path in sorted((docstrings / "train").glob("*.txt")):
        texts[f"docstrings/{path.name}"] = path
    return texts


def build_english(data_dir: Path, build_dir: Path) -> None:
    """The same, and SQuAD."""
    build_comparisons(data_dir, build_dir)
    path = find(data_dir, _SQUAD)
    train = files.read_json(path, ["data"], data=list)["data"]
    if path.name.startswith("xquad"):
        dev = train[::_DEV_ARTICLE]
        train = [a for n, a in enumerate(train) if n % _DEV_ARTICLE]
    else:
        path = find(data_dir, ["squad/dev-v1.1.json"])
        dev = files.read_json(path, ["data"], data=list)["data"]
    _write(
        build_dir / "finetuning_data" / "squadv1",
        {
            f"{split}.json": [json.dumps({"version": "1.1", "data": articles})]
            for split, articles in (("train", train), ("dev", dev))
        },
    )


def build_reviews(data_dir: Path, build_dir: Path) -> None:
    """Reviews without labels, and the first 100, 400, ... labelled ones."""
    corpus = _reviews(data_dir, build_dir)
    _vocabulary(corpus, 8192, "--character-coverage=0.9999")
    _examples(build_dir / "tfrecords", corpus, 8, "--heldout-fraction=0.01")


def _reviews(data_dir: Path, build_dir: Path) -> Path:
    """The labelled rows, and the folder of the texts without labels."""
    start = max(NUM_LABELS)
    parts = {f"train_{number}": ("train", 0, number) for number in NUM_LABELS}
    parts["dev"] = ("train", start, start + NUM_DEV_REVIEWS)
    parts["test"] = ("test", 0, NUM_TEST_REVIEWS)
    labelled = {k: _labelled(data_dir, *part) for k, part in parts.items()}
    _write(build_dir / "labelled", {f"{k}.tsv": v for k, v in labelled.items()})
    # A blank line ends a review: no example has two of them.
    _write(build_dir / "corpus", _review_corpus(data_dir))
    return build_dir / "corpus"


def build_adaptation(data_dir: Path, build_dir: Path) -> None:
    """The same, and other texts, whose vocabulary both have."""
    reviews_dir = _reviews(data_dir, build_dir)
    folder = build_dir / "adaptation"
    texts = folder / "texts"
    _write(texts, _texts(data_dir, folder / "docstrings"))
    _vocabulary(texts, 8192, "--character-coverage=0.9999")
    for name, corpus in (("general", texts), ("reviews", reviews_dir)):
        output = folder / f"{name}_tfrecords"
        _examples(output, corpus, 8, "--heldout-fraction=0.01")
