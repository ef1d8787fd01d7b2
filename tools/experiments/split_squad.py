"""Cuts a file in SQuAD's layout into train.json and dev.json, by article.

  python3 tools/experiments/split_squad.py --input=xquad.en.json \\
      --output-dir=data/squadv1

All questions about an article are in one part, so that dev asks about texts
that training never saw. The seed decides which articles these are.
"""

import argparse
import json
import os
import random
import sys

from electra_tf import files
from electra_tf.command_line import arguments


def read_articles(path: str) -> tuple[dict, list[dict]]:
    """A file's contents, and the articles in them.

    Raises:
      ValueError: If the file cannot be read or has another layout.
    """
    try:
        with open(path, encoding="utf-8") as f:
            content = json.load(f)
        articles = content["data"]
        for article in articles:
            for paragraph in article["paragraphs"]:
                paragraph["context"].split()
                for question in paragraph["qas"]:
                    question["question"].split()
    except OSError as error:
        raise ValueError(f"Cannot read {path!r}: {error.strerror}.") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(
            "Expected JSON in SQuAD's layout, data with paragraphs with a "
            "context and qas with a question. "
            f"Received: {path!r} ({type(error).__name__}: {error})."
        ) from None
    return content, articles


def choose_dev(
    num_articles: int, dev_fraction: float, seed: int
) -> frozenset[int]:
    """Numbers of the articles that dev gets, at least one of them.

    Raises:
      ValueError: If train or dev would be empty.
    """
    if not 0.0 < dev_fraction < 1.0:
        raise ValueError(
            "Expected --dev-fraction between 0 and 1. Received: "
            f"{dev_fraction}."
        )
    num_dev = max(1, round(num_articles * dev_fraction))
    if num_dev >= num_articles:
        raise ValueError(
            "Expected articles for both parts. Received: "
            f"{num_articles}, with --dev-fraction={dev_fraction}."
        )
    return frozenset(random.Random(seed).sample(range(num_articles), num_dev))


def refuse_shared(articles: list[dict], dev: frozenset[int], path: str) -> None:
    """Refuses articles that would be in both parts.

    Args:
      articles: Of the file.
      dev: Numbers of those that dev gets.
      path: Of the file, for the error message.

    Raises:
      ValueError: If a passage of train is in dev, too.
    """
    texts: tuple[set[str], set[str]] = (set(), set())
    for number, article in enumerate(articles):
        texts[number in dev].update(
            paragraph["context"] for paragraph in article["paragraphs"]
        )
    if shared := texts[0] & texts[1]:
        raise ValueError(
            "Expected every passage in one article. Received: "
            f"{path!r}, with {min(shared)[:60]!r} in two, one of them for dev."
        )


def split_squad(args: argparse.Namespace) -> None:
    """Writes the two files and says what is in them.

    Args:
      args: As `main` parses them.

    Raises:
      ValueError: If the input cannot be used, or an output is there.
    """
    paths = {
        part: os.path.join(args.output_dir, f"{part}.json")
        for part in ("train", "dev")
    }
    for path in paths.values():
        if os.path.exists(path):
            raise ValueError(
                f"Expected a new file. Received: {path!r}, which is there."
            )
    content, articles = read_articles(args.input)
    dev = choose_dev(len(articles), args.dev_fraction, args.seed)
    refuse_shared(articles, dev, args.input)
    os.makedirs(args.output_dir, exist_ok=True)
    for part, path in paths.items():
        chosen = [
            article
            for number, article in enumerate(articles)
            if (number in dev) == (part == "dev")
        ]
        files.write_json(
            path, content | {"data": chosen}, ensure_ascii=False, indent=None
        )
        num_questions = sum(
            len(paragraph["qas"])
            for article in chosen
            for paragraph in article["paragraphs"]
        )
        print(f"{path}: {len(chosen)} articles, {num_questions} questions")


def main(argv=None) -> int:
    """Parses the flags and splits; returns the exit code."""
    parser = arguments.ArgumentParser(prog="split_squad", description=__doc__)
    add = parser.add_argument
    add("--input", required=True, help="The file.")
    add(
        "--output-dir",
        required=True,
        help="Folder for train.json and dev.json, which must not be there.",
    )
    add(
        "--dev-fraction",
        type=float,
        default=0.2,
        help="Share of the articles that dev gets (default 0.2).",
    )
    add("--seed", type=int, default=0, help="Of the choice (default 0).")
    return arguments.run(split_squad, parser, argv)


if __name__ == "__main__":
    sys.exit(main())
