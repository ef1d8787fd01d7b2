"""Measures how fast data are made, and in how much memory.

    python tools/benchmarks/data.py --output=benchmark_data.json

Sections:

* building: tokens/s from text to TFRecords, against the original's algorithm
  in plain Python (tests/pretraining_data/reference_builder.py), one process
  each; two processes against one, over whole runs of the builder after its
  imports; peak memory of such runs at two sizes of corpus.
* reading: examples/s of a run's input pipeline (read, shuffle, parse, batch,
  draw, mask), against what ELECTRA-Small trains on the same cores.

The text is that of --corpus-dir, by default what
tools/quickstart/build_docstring_corpus.py finds on this machine, repeated with
variations to the size that is needed. It is kept in --cache-dir for the next
time.
"""

import argparse
import itertools
import os
import pathlib
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import benchmarking

from electra_tf.command_line import arguments
from electra_tf.pretraining_data import corpus

# Section and figure -> whether it must be at least or at most, and what.
TARGETS = {
    ("building", "times_reference"): (">=", 10.0),
    ("building", "two_processes_times_one"): (">=", 1.8),
    ("building", "memory_growth"): ("<=", 1.25),
    ("reading", "times_training"): (">=", 10.0),
}
_ROOT = pathlib.Path(__file__).parents[2]
_FILE_BYTES = 2 << 20
# Of words that a copy has in another's place, or misspelt: text that is new to
# whatever remembers words or documents.
_SWAPPED = 0.05
_MISSPELT = 0.01
_SECONDS = re.compile(r"^build_pretraining_dataset: ([0-9.]+) s, ", re.M)


# The corpus.


def prepare(args) -> tuple[list[str], str]:
    """Texts to vary and a vocabulary, made unless they are given or cached.

    Returns:
      Paths of the texts, path of the vocabulary.
    """
    os.makedirs(args.cache_dir, exist_ok=True)
    folder, vocab_file = args.corpus_dir, args.vocab_file
    if not folder:
        found = os.path.join(args.cache_dir, "docstrings")
        folder = os.path.join(found, "train")
        if not os.path.isdir(folder):
            _run_tool(
                "quickstart/build_docstring_corpus", f"--output_dir={found}"
            )
    if not vocab_file:
        vocab_file = os.path.join(args.cache_dir, "vocab.txt")
        if not os.path.exists(vocab_file):
            _run_tool(
                "build_vocab",
                f"--corpus_dir={folder}",
                f"--vocab_file={vocab_file}",
                "--vocab_size=8192",
            )
    return [file.path for file in corpus.list_files(folder)], vocab_file


def _run_tool(name: str, *flags: str) -> None:
    try:
        subprocess.run(
            [sys.executable, str(_ROOT / "tools" / f"{name}.py"), *flags],
            env=os.environ | {"PYTHONPATH": str(_ROOT)},
            check=True,
        )
    except subprocess.CalledProcessError as error:
        raise ValueError(
            f"tools/{name}.py ended with exit code {error.returncode}."
        ) from None


def varied_lines(paths: Sequence[str]) -> Iterator[str]:
    """Lines of some texts, over and over, each time with other words in them.

    Args:
      paths: Files that `corpus.read_lines` reads.
    """
    rng = random.Random(0)
    words: list[str] = ["word"]
    for path in paths:
        for lines, _ in corpus.read_lines(path):
            words += " ".join(lines[:500]).split()
    for path in itertools.cycle(paths):
        for lines, _ in corpus.read_lines(path):
            for line in lines:
                yield _vary(line, words, rng)


def _vary(line: str, words: Sequence[str], rng: random.Random) -> str:
    parts = line.split(" ")
    # One draw a line, most of the time, rather than one a word.
    position = int(rng.expovariate(_SWAPPED + _MISSPELT))
    while position < len(parts):
        word = parts[position]
        if rng.random() * (_SWAPPED + _MISSPELT) < _SWAPPED:
            parts[position] = rng.choice(words)
        elif len(word) > 3:
            i = rng.randrange(1, len(word) - 1)
            parts[position] = word[:i] + word[i + 1 :] + word[i]
        position += 1 + int(rng.expovariate(_SWAPPED + _MISSPELT))
    return " ".join(parts)


def write_corpus(folder: str, lines: Iterator[str], num_bytes: int) -> str:
    """Writes files of lines up to a size, unless they are there already."""
    done = os.path.join(folder, ".complete")
    if os.path.exists(done):
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    file_number = written = 0
    while written < num_bytes:
        path = os.path.join(folder, f"{file_number:04}.txt")
        with open(path, "w", encoding="utf-8") as writer:
            size = 0
            while size < _FILE_BYTES and written + size < num_bytes:
                size += writer.write(next(lines)) + writer.write("\n")
        written += size
        file_number += 1
    pathlib.Path(done).touch()
    return folder


# Building.


def measure_building(args) -> benchmarking.Figures:
    """The building section."""
    paths, vocab_file = prepare(args)
    lines = varied_lines(paths)
    folders = {
        size: write_corpus(
            os.path.join(args.cache_dir, f"{size:g}-mb"), lines, int(size * 1e6)
        )
        for size in (args.small_mb, args.large_mb)
    }
    result = measure_scaling(args, folders, vocab_file)
    result |= measure_speed(args, folders[args.large_mb], vocab_file)
    return result


def measure_scaling(
    args, folders: dict, vocab_file: str
) -> benchmarking.Figures:
    """Whole runs of the tool: memory, and two processes against one."""
    _, small_memory = run_build(folders[args.small_mb], vocab_file, 1)
    large = folders[args.large_mb]
    memory: list[float] = []

    def contestant(num_processes: int) -> Callable[[int], float]:
        def call(_: int) -> float:
            seconds, megabytes = run_build(large, vocab_file, num_processes)
            if num_processes == 1:
                memory.append(megabytes)
            return seconds

        return call

    one, two = benchmarking.interleave(
        (contestant(1), contestant(2)), 1, args.num_runs
    )
    ratios = benchmarking.ratios(one, two)
    return {
        "two_processes_times_one": statistics.median(ratios),
        "two_processes_times_one_of_each_run": ratios,
        "seconds_one_process": one,
        "seconds_two_processes": two,
        "corpus_mb": [args.small_mb, args.large_mb],
        "peak_memory_mb": [small_memory, max(memory)],
        "memory_growth": max(memory) / small_memory,
    }


def run_build(
    corpus_dir: str, vocab_file: str, num_processes: int
) -> tuple[float, float]:
    """Runs the tool.

    Returns:
      Seconds after its imports, and the peak memory of its first process in
      megabytes.
    """
    with tempfile.TemporaryDirectory() as folder:
        log = os.path.join(folder, "log")
        with open(log, "w", encoding="utf-8") as writer:
            process = subprocess.Popen(
                [
                    sys.executable,
                    str(_ROOT / "tools/build_pretraining_dataset.py"),
                    f"--corpus-dir={corpus_dir}",
                    f"--vocab-file={vocab_file}",
                    f"--output-dir={folder}/out",
                    f"--num-processes={num_processes}",
                    "--no-preflight",
                ],
                stderr=writer,
                env=os.environ | {"PYTHONPATH": str(_ROOT)},
            )
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        text = pathlib.Path(log).read_text(encoding="utf-8")
        found = _SECONDS.search(text)
        if process.returncode or not found:
            raise ValueError(
                "tools/build_pretraining_dataset.py ended with exit code "
                f"{process.returncode}: {text[-300:]}"
            )
        # Linux has kibibytes, macOS bytes.
        unit = 1 if sys.platform == "darwin" else 1024
        return float(found[1]), usage.ru_maxrss * unit / 1e6


def measure_speed(args, folder: str, vocab_file: str) -> benchmarking.Figures:
    """One process of each kind, taking turns in this one.

    A round of ours is some files from text to output files, one of the
    reference a part of such a file.
    """
    sys.path.insert(0, str(_ROOT))
    from electra_tf.pretraining_data import crew, manifest
    from electra_tf.pretraining_data import parts as parts_lib
    from electra_tf.text import vocabulary
    from tests.pretraining_data import reference_builder

    settings = vocabulary.load_settings(vocab_file) or {
        "do_lower_case": True,
        "strip_accents": True,
    }
    build = manifest.Build(
        max_seq_length=128,
        blanks_separate_docs=True,
        seed=0,
        num_out_files=8,
        **settings,
    )
    tokens = tuple(vocabulary.load_vocab(vocab_file))
    num_tokens = 0

    def count(done: Sequence[int]) -> None:
        nonlocal num_tokens
        num_tokens += done[2]

    worker = crew.Worker(
        build, vocabulary.Vocabulary(tokens, **settings), False, count
    )
    reference = reference_builder.ReferenceTokenizer(vocab_file, **settings)
    all_parts = parts_lib.make_parts(corpus.list_files(folder))
    parts_by_turns = itertools.cycle(all_parts)
    cpu: dict[str, list[float]] = {"ours": [], "reference": []}

    with tempfile.TemporaryDirectory() as output:

        def product(num_files: int) -> float:
            nonlocal num_tokens
            num_tokens = 0
            start, cpu_start = time.perf_counter(), time.process_time()
            paths = [
                os.path.join(output, f"part-{i}") for i in range(num_files)
            ]
            for path in paths:
                worker.build(next(parts_by_turns)._replace(path=path))
            shards = [os.path.join(output, f"shard-{i}") for i in range(8)]
            worker.merge((paths, shards, 0))
            seconds = time.perf_counter() - start
            cpu["ours"].append((time.process_time() - cpu_start) / num_tokens)
            return seconds / num_tokens * num_files

        # The same text for every round: its algorithm remembers nothing.
        sample = os.path.join(output, "sample.txt")
        with open(all_parts[0].files[0].path, encoding="utf-8") as reader:
            text = reader.read(int(args.reference_mb * 1e6))
        pathlib.Path(sample).write_text(text, encoding="utf-8")

        def theirs(num_files: int) -> float:
            start, cpu_start = time.perf_counter(), time.process_time()
            tokens = reference_builder.build(
                sample, os.path.join(output, "reference"), reference, 128, 0
            )
            cpu["reference"].append((time.process_time() - cpu_start) / tokens)
            return (time.perf_counter() - start) / tokens * num_files

        machine = benchmarking.Machine()
        with crew.few_collections():
            # What a long run soon has behind it.
            product(args.num_parts)
            cpu["ours"].clear()
            ours, original = benchmarking.interleave(
                (product, theirs), args.num_parts, args.num_rounds
            )
    ratios = benchmarking.ratios(original, ours)
    return benchmarking.spread("times_reference", ratios) | {
        # Hardly changed by other work on the machine.
        "times_reference_cpu": statistics.median(cpu["reference"])
        / statistics.median(cpu["ours"]),
        "tokens_per_second": 1 / statistics.median(ours),
        "reference_tokens_per_second": 1 / statistics.median(original),
        "noise": machine.noise(ratios),
    }


# Reading.


def measure_reading(args) -> benchmarking.Figures:
    """The input pipeline alone and training, taking turns."""
    import contestants
    import tensorflow as tf

    from electra_tf.model import masking

    config = contestants.make_config(args.tiny, 128)
    with tempfile.TemporaryDirectory() as folder:
        pattern = contestants.write_examples(folder, config)
        training = contestants.Product(config, pattern, args.batch_size)
        batches = iter(training.data.dataset(args.batch_size))

        @tf.function
        def mask(features):
            inputs = masking.Inputs(
                features["input_ids"],
                features["input_mask"],
                features["segment_ids"],
            )
            return training.engine.model.mask_inputs(inputs, features["noise"])

        def reading(num_steps: int) -> float:
            start = time.perf_counter()
            for _ in range(num_steps * args.batches_per_step):
                mask(next(batches))
            return (time.perf_counter() - start) / args.batches_per_step

        # What a long run soon has behind it.
        for contestant in (reading, training):
            contestant(2)
        machine = benchmarking.Machine()
        ours, steps = benchmarking.interleave(
            (reading, training), 2, args.num_rounds
        )
    ratios = benchmarking.ratios(steps, ours)
    return benchmarking.spread("times_training", ratios) | {
        "examples_per_second": args.batch_size / statistics.median(ours),
        "trained_examples_per_second": (
            args.batch_size / statistics.median(steps)
        ),
        "noise": machine.noise(ratios),
    }


# All sections. A section takes the flags, and returns figures.
SECTIONS: dict[str, Callable[[Any], benchmarking.Figures]] = {
    "building": measure_building,
    "reading": measure_reading,
}


def _benchmark(args: argparse.Namespace) -> None:
    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
    args.sections = benchmarking.chosen(args.sections, SECTIONS, "sections")
    sections = {name: SECTIONS[name] for name in args.sections}
    benchmarking.measure(args, sections, TARGETS)


def main(argv=None) -> int:
    """Measures; returns the exit code."""
    parser = benchmarking.make_parser(
        "benchmark_data",
        __doc__,
        {
            "--small-mb": (10.0, "megabytes of text of the small corpus"),
            "--large-mb": (200.0, "megabytes of text of the large corpus"),
            "--reference-mb": (0.5, "megabytes that the reference builds"),
            "--num-runs": (2, "whole runs with each number of processes"),
            "--num-rounds": (7, "rounds against the reference"),
            "--num-parts": (2, "parts of 4 MiB in a round of ours"),
            "--batch-size": (16, "examples in a batch that is read"),
            "--batches-per-step": (50, "batches read for each step trained"),
        },
        SECTIONS,
    )
    add = parser.add_argument
    add("--corpus-dir", default="", help="text to vary (default: docstrings)")
    add("--vocab-file", default="", help="vocabulary (default: made from it)")
    add(
        "--cache-dir",
        default=os.path.join(tempfile.gettempdir(), "electra_tf_benchmark"),
        help="where texts are kept (default: %(default)s)",
    )
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    return arguments.run(_benchmark, parser, argv)


if __name__ == "__main__":
    sys.exit(main())
