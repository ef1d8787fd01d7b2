"""Texts to pre-train on, and splits, for the runs of docs/results.md.

  python3 tools/experiments/build_results_data.py --data_dir=data \\
      --output_dir=build/results

Reads public sets from these folders of the data folder:

  glue/{CoLA,MRPC,RTE,SST-2,STS-B}/{train,dev}.tsv
  wikitext-2/{valid,test}.txt    conll2003/{train,valid,test}.txt
  squad/xquad.en.json            korean/hate-speech.{train,val}.tsv
                                 korean/korsts.{train,dev,test}.tsv

and writes below the output folder:

  english/corpus/*.txt, korean/corpus/*.txt  a sentence a line, to pre-train on
  finetuning_data/<task>/...                 what is trained and scored on:
    the splits of GLUE, CoNLL-2003, KorSTS and Korean hate speech that have
    labels, as they are, and XQuAD, with every fourth article in dev

The texts are those of training splits, without their labels; nothing of a
split that is scored goes in. The two sentences of a pair follow each other,
as do a passage and its questions. All rows of a set are one document.
"""

import contextlib
import csv
import itertools
import json
import pathlib
import random
import re
import shutil
import sys
import typing
from collections.abc import Iterator

import split_squad

from electra_tf.command_line import arguments

# Tasks of GLUE: their name -> ours.
GLUE = {
    "CoLA": "cola",
    "MRPC": "mrpc",
    "RTE": "rte",
    "SST-2": "sst",
    "STS-B": "sts",
}
# What is scored as it is: their name -> ours.
_LABELLED = {
    f"glue/{theirs}/{split}.tsv": f"{ours}/{split}.tsv"
    for theirs, ours in GLUE.items()
    for split in ("train", "dev")
} | {
    "conll2003/train.txt": "ner/train.txt",
    "conll2003/valid.txt": "ner/dev.txt",
    "conll2003/test.txt": "ner/test.txt",
    "korean/hate-speech.train.tsv": "hate_speech_ko/train.tsv",
    "korean/hate-speech.val.tsv": "hate_speech_ko/dev.tsv",
    "korean/korsts.train.tsv": "korsts/train.tsv",
    "korean/korsts.dev.tsv": "korsts/dev.tsv",
    "korean/korsts.test.tsv": "korsts/test.tsv",
}
# Of the 48 articles of XQuAD, those whose number divides by this are scored.
_DEV_ARTICLE = 4
# SST-2 repeats each sentence as all phrases of its parse tree.
_MIN_PHRASE_WORDS = 6
# The space after a full stop, before what may begin a sentence.
_SENTENCE_END = r"(?<=[.!?]) (?=[A-Z\"'(])"


@contextlib.contextmanager
def opened(path: pathlib.Path, **kwargs) -> Iterator[typing.TextIO]:
    """A text file in UTF-8.

    Raises:
      ValueError: If it is in another encoding, or damaged.
    """
    with open(path, encoding="utf-8-sig", **kwargs) as f:
        try:
            yield f
        except UnicodeDecodeError as error:
            raise ValueError(f"Cannot read {path}: {error}.") from None


def rows(
    path: pathlib.Path, columns: list[int], has_header: bool
) -> Iterator[list[str]]:
    """The named columns of a TSV file in which quotes mean nothing."""
    with opened(path, newline="\n") as f:
        for number, line in enumerate(f, start=1):
            cells = line.rstrip("\r\n").split("\t")
            if number == 1 and has_header or not line.strip():
                continue
            if len(cells) <= max(columns):
                raise ValueError(
                    f"Expected at least {max(columns) + 1} columns. Received: "
                    f"{path}, row {number}, with {len(cells)}."
                )
            yield [cells[column] for column in columns]


def wikitext(path: pathlib.Path) -> Iterator[str]:
    """Its paragraphs, with the marks of its tokenizer undone."""
    with opened(path) as f:
        for line in f:
            if (text := line.strip()) and not text.startswith("="):
                text = re.sub(r" @([-,.])@ ", r"\1", text)
                yield " ".join(text.replace("<unk>", " ").split())


def longest_phrases(path: pathlib.Path) -> Iterator[str]:
    """Phrases of SST-2 that are no part of a longer one."""
    phrases = sorted({row[0].strip() for row in rows(path, [0], True)})
    phrases.sort(key=len, reverse=True)
    kept: list[str] = []
    seen: set[str] = set()
    for phrase in phrases:
        words = phrase.split()
        # Six words in a row that an earlier, longer phrase has too.
        runs = {
            " ".join(words[i : i + _MIN_PHRASE_WORDS])
            for i in range(len(words) - _MIN_PHRASE_WORDS + 1)
        }
        if runs - seen:
            kept.append(phrase)
            seen |= runs
    random.Random(0).shuffle(kept)
    return iter(kept)


def conll_sentences(path: pathlib.Path) -> Iterator[str]:
    with opened(path) as f:
        for is_blank, lines in itertools.groupby(f, key=str.isspace):
            if not is_blank:
                yield " ".join(line.split()[0] for line in lines)


def passages_and_questions(articles: list[dict]) -> Iterator[str]:
    for article in articles:
        for paragraph in article["paragraphs"]:
            yield " ".join(paragraph["context"].split())
            for question in paragraph["qas"]:
                yield " ".join(question["question"].split())


def write_lines(path: pathlib.Path, texts: Iterator[str]) -> None:
    """One sentence a line: what is longer than an example would be cut."""
    path.parent.mkdir(parents=True, exist_ok=True)
    count = 0
    with open(path, "w", encoding="utf-8", newline="\n") as f:
        for text in texts:
            for line in re.split(_SENTENCE_END, " ".join(text.split())):
                if line:
                    f.write(line + "\n")
                    count += 1
    print(f"{path}: {count} lines, {path.stat().st_size / 1e6:.2f} MB")


def texts_of(
    path: pathlib.Path, columns: list[int], has_header: bool = True
) -> Iterator[str]:
    for cells in rows(path, columns, has_header):
        yield from cells


def hate_speech_texts(path: pathlib.Path) -> Iterator[str]:
    """Titles and comments; titles are quoted as in CSV."""
    for title, comment in rows(path, [0, 1], True):
        try:
            yield next(csv.reader([title]))[0] if title else ""
        except csv.Error as error:
            raise ValueError(
                f"Expected a title as in CSV. Received: {path}, {title[:40]!r} "
                f"({error})."
            ) from None
        yield comment


def build(data_dir: pathlib.Path, output_dir: pathlib.Path) -> None:
    """Writes everything that the module's docstring lists.

    Raises:
      ValueError: If a file is missing or not of its format.
    """
    glue, korean = data_dir / "glue", data_dir / "korean"
    wiki = data_dir / "wikitext-2"
    squad = data_dir / "squad" / "xquad.en.json"
    _, found = split_squad.read_articles(str(squad))
    articles: dict[str, list[dict]] = {"train": [], "dev": []}
    for number, article in enumerate(found):
        articles["train" if number % _DEV_ARTICLE else "dev"].append(article)
    for split, part in articles.items():
        path = output_dir / "finetuning_data" / "squadv1" / f"{split}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        content = {"version": "1.1", "data": part}
        path.write_text(json.dumps(content, ensure_ascii=False) + "\n", "utf-8")
    for theirs, ours in _LABELLED.items():
        path = output_dir / "finetuning_data" / ours
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(data_dir / theirs, path)
    for name, lines in {
        "english/corpus/wikitext_valid": wikitext(wiki / "valid.txt"),
        "english/corpus/wikitext_test": wikitext(wiki / "test.txt"),
        "english/corpus/cola": texts_of(
            glue / "CoLA" / "train.tsv", [3], has_header=False
        ),
        "english/corpus/mrpc": texts_of(glue / "MRPC" / "train.tsv", [3, 4]),
        "english/corpus/rte": texts_of(glue / "RTE" / "train.tsv", [1, 2]),
        "english/corpus/sst": longest_phrases(glue / "SST-2" / "train.tsv"),
        "english/corpus/sts": texts_of(glue / "STS-B" / "train.tsv", [7, 8]),
        "english/corpus/ner": conll_sentences(
            data_dir / "conll2003" / "train.txt"
        ),
        "english/corpus/xquad": passages_and_questions(articles["train"]),
        "korean/corpus/hate_speech": hate_speech_texts(
            korean / "hate-speech.train.tsv"
        ),
        "korean/corpus/korsts": texts_of(korean / "korsts.train.tsv", [5, 6]),
    }.items():
        write_lines(output_dir / f"{name}.txt", lines)


def make_parser(prog: str, description: str | None) -> arguments.ArgumentParser:
    """A parser with the flags of all builders."""
    parser = arguments.ArgumentParser(prog=prog, description=description)
    for name, text in (
        ("--data-dir", "Folder of the public sets."),
        ("--output-dir", "Where to write."),
    ):
        parser.add_argument(name, type=pathlib.Path, required=True, help=text)
    return parser


def main() -> int:
    """Parses the flags and builds; returns the exit code."""
    parser = make_parser("build_results_data", __doc__)
    return arguments.run(lambda args: build(**vars(args)), parser)


if __name__ == "__main__":
    sys.exit(main())
