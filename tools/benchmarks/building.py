"""Building pre-training data: electra_tf beside the original's algorithm.

The text is the docstrings of a package, over and over, each time with other
words in them, so that nobody gains by remembering documents.
"""

import ast
import itertools
import os
import pathlib
import random
import sys
import sysconfig
import tempfile
from collections.abc import Iterator, Sequence

import contest

_PACKAGE = "sklearn"
_FILE_MB = 2
# Of words that a copy has in another's place, or misspelt: text that is new to
# those who remember words.
_SWAPPED, _MISSPELT = 0.05, 0.01


def docstrings(folder: pathlib.Path) -> list[str]:
    """Lines of the docstrings of a folder, a blank one behind each."""
    lines: list[str] = []
    for path in sorted(folder.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Module):
                text = ast.get_docstring(node)
                lines += [*text.splitlines(), ""] if text else []
    return lines


def varied(lines: Sequence[str]) -> Iterator[str]:
    """The lines over and over, some of their words swapped or misspelt."""
    rng = random.Random(0)
    words = " ".join(lines).split()

    def vary(word: str) -> str:
        draw = rng.random()
        if draw < _SWAPPED:
            return rng.choice(words)
        return word if draw > _SWAPPED + _MISSPELT else word[1:] + word[:1]

    for line in itertools.cycle(lines):
        yield " ".join(map(vary, line.split(" ")))


def _prepare(args) -> dict:
    """Writes the corpus, a sample of it and a vocabulary."""
    packages = pathlib.Path(sysconfig.get_path("purelib"))
    copies = varied(docstrings(packages / _PACKAGE))

    def write(path: str, megabytes: float) -> None:
        path = os.path.join(args.folder, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as writer:
            while writer.tell() < megabytes * 1e6:
                writer.writelines(f"{next(copies)}\n" for _ in range(100))

    write("sample/0.txt", args.reference_mb)
    num_files = max(1, round(args.megabytes / _FILE_MB))
    for number in range(num_files):
        write(f"corpus/{number:04}.txt", args.megabytes / num_files)
    write("for_vocabulary/0.txt", 2 * _FILE_MB)
    contest.electra_tf(
        "build-vocab",
        f"--corpus_dir={args.folder}/for_vocabulary",
        f"--vocab_file={args.folder}/vocab.txt",
        "--vocab_size=8192",
    )
    return {}


def build(args) -> contest.Run:
    """The builder of electra_tf, its imports behind it."""
    from tools import build_pretraining_dataset

    flags = [
        f"--corpus-dir={args.folder}/corpus",
        f"--vocab-file={args.folder}/vocab.txt",
        f"--num-processes={args.num_processes}",
        "--no-preflight",
    ]

    def run(num_steps: int) -> dict:
        for _ in range(num_steps):
            with tempfile.TemporaryDirectory() as folder:
                output = f"--output-dir={folder}/tfrecords"
                if build_pretraining_dataset.main([*flags, output]):
                    sys.exit("build_pretraining_dataset failed: see above")
        return {"amount": num_steps * args.megabytes}

    return run


def original(args) -> contest.Run:
    """The original's algorithm, in plain Python, on the sample."""
    from tests.pretraining_data import reference_builder

    tokenizer = reference_builder.ReferenceTokenizer(f"{args.folder}/vocab.txt")
    sample, output = f"{args.folder}/sample/0.txt", f"{args.folder}/original"

    def run(num_steps: int) -> dict:
        for _ in range(num_steps):
            reference_builder.build(sample, output, tokenizer, 128, 0)
        return {"amount": num_steps * args.reference_mb}

    return run


_CONTESTANTS = {
    "original": contest.Contestant("building.original"),
    "one_process": contest.Contestant("building.build", {"num_processes": 1}),
    "two_processes": contest.Contestant("building.build", {"num_processes": 2}),
}
BUILDING = contest.Benchmark(
    summary="text to TFRecords: the original's algorithm, electra_tf",
    unit="MB",
    contestants=_CONTESTANTS,
    chosen=tuple(_CONTESTANTS),
    against=("original", "one_process"),
    prepare=_prepare,
    flags={
        "megabytes": (50.0, "size of the text"),
        "reference_mb": (0.5, "size of the part that the original builds"),
    },
)
