"""Compares the building of pre-training examples with the golden arrays."""

import contextlib
import functools
import json
import pathlib
import random
import tempfile
from collections.abc import Iterator

import numpy as np
import tensorflow as tf

from electra_tf.pretraining_data import corpus, examples, parts
from electra_tf.pretraining_data import records as records_lib
from electra_tf.text import tokenization
from tests import helpers
from tests.parity import comparison
from tests.parity.cases import Case
from tests.parity.check import Check
from tests.pretraining_data import readable


def cases(golden_dir: pathlib.Path) -> Iterator[Case]:
    """Every case named in examples/variants.json."""
    golden_dir = pathlib.Path(golden_dir)
    variants_path = golden_dir / "examples" / "variants.json"
    if not variants_path.exists():
        return
    variants = json.loads(variants_path.read_text(encoding="utf-8"))
    for name, variant in sorted(variants.items()):
        compare = _check_tfrecord if "same_as" in variant else _check_variant
        yield Case(
            f"examples/{name}",
            functools.partial(compare, golden_dir, name, variant),
        )


def _check_variant(
    golden_dir: pathlib.Path, name: str, variant: dict
) -> Iterator[Check]:
    case = f"examples/{name}"
    tokenizer = _tokenizer(golden_dir, variant)
    corpus_dir = _corpus_dir(golden_dir, variant)
    if "job_id" in variant:
        made, counts, rng = _run_job(corpus_dir, tokenizer, variant)
    else:
        made, counts, rng = _run_builder(corpus_dir, tokenizer, variant)

    # What decides the examples is used up by the first array compared.
    inputs = {
        f"examples/variants.json:{name}/{key}"
        for key in variant.keys()
        & {
            "blanks_separate_docs",
            "do_lower_case",
            "job_id",
            "max_seq_length",
            "num_out_files",
            "num_processes",
            "output_file_numbers",
            "seed",
            "strip_accents",
            "vocab",
        }
    }
    inputs |= {
        f"examples/{corpus_dir.name}/{file.name}"
        for file in corpus.list_files(str(corpus_dir))
    }
    with np.load(golden_dir / f"{case}.npz") as golden:
        for key in golden.files:
            yield Check(
                case,
                key,
                comparison.num_different(made[key], golden[key]),
                0,
                frozenset(inputs | {f"{case}.npz:{key}"}),
            )

    figures = {
        "n": len(made["input_ids"]),
        "examples_written_after_each_file": [list(pair) for pair in counts],
        "file_order": [file_name for file_name, _ in counts],
    }
    if "next_random_after" in variant:
        figures["next_random_after"] = rng.random()
    for key, value in figures.items():
        if key in variant:
            yield Check(
                case,
                key,
                float(value != variant[key]),
                0,
                frozenset({f"examples/variants.json:{name}/{key}"}),
            )


def _tokenizer(
    golden_dir: pathlib.Path, variant: dict
) -> tokenization.FullTokenizer:
    return helpers.make_tokenizer(
        str(golden_dir / "tokenization" / variant["vocab"]),
        do_lower_case=variant["do_lower_case"],
        strip_accents=variant["strip_accents"],
    )


def _corpus_dir(golden_dir: pathlib.Path, variant: dict) -> pathlib.Path:
    """The corpus folder that holds the files which the variant names."""
    names = set(variant.get("file_order", [])) | {
        name for name, _ in variant.get("examples_written_after_each_file", [])
    }
    for folder in sorted((golden_dir / "examples").glob("corpus*")):
        if names <= {path.name for path in folder.iterdir()}:
            return folder
    raise ValueError(f"Expected a corpus with {sorted(names)}.")


def _run_builder(corpus_dir, tokenizer, variant):
    """One builder over the sorted files."""
    rng = random.Random(variant["seed"])
    builder = examples.ExampleBuilder(tokenizer, variant["max_seq_length"], rng)
    tokenize_lines = examples.CachingLineTokenizer(tokenizer)
    made = []
    counts = []
    for file in corpus.list_files(str(corpus_dir)):
        made += readable.examples_of_file(
            file.path,
            builder,
            tokenize_lines,
            variant["blanks_separate_docs"],
        )
        counts.append((file.name, len(made)))
    arrays = {
        name: np.array(values, np.int32).reshape(-1, variant["max_seq_length"])
        for name, values in zip(
            records_lib.FEATURE_NAMES,
            zip(*map(readable.parse, made), strict=True),
            strict=True,
        )
    }
    return arrays, counts, rng


def _run_job(corpus_dir, tokenizer, variant):
    """The original's job, read back from the files that it wrote.

    Job j takes the sorted files i with i % num_processes == j, shuffles them,
    and fills in turn the output files k with k % num_processes == j.
    """
    job_id, num_processes = variant["job_id"], variant["num_processes"]
    rng = random.Random(variant["seed"])
    files = corpus.list_files(str(corpus_dir))[job_id::num_processes]
    rng.shuffle(files)
    builder = examples.ExampleBuilder(tokenizer, variant["max_seq_length"], rng)
    tokenize_lines = examples.CachingLineTokenizer(tokenizer)
    num_examples, counts = 0, []
    num_files = variant["num_out_files"]
    with tempfile.TemporaryDirectory() as output_dir:
        paths = [
            pathlib.Path(output_dir)
            / f"pretrain_data.tfrecord-{i}-of-{num_files}"
            for i in range(job_id, num_files, num_processes)
        ]
        with contextlib.ExitStack() as stack:
            writers = [
                stack.enter_context(tf.io.TFRecordWriter(str(path)))
                for path in paths
            ]
            for file in files:
                for example in readable.examples_of_file(
                    file.path,
                    builder,
                    tokenize_lines,
                    variant["blanks_separate_docs"],
                ):
                    writers[num_examples % len(writers)].write(example)
                    num_examples += 1
                counts.append((file.name, num_examples))
        arrays = _read_round_robin(paths, variant["max_seq_length"])
    return arrays, counts, rng


def _read_round_robin(paths, max_seq_length: int) -> dict[str, np.ndarray]:
    """Features of record j of file i at row j * number of files + i."""
    spec = {
        name: tf.io.FixedLenFeature([max_seq_length], tf.int64)
        for name in records_lib.FEATURE_NAMES
    }
    records = tf.data.Dataset.from_tensor_slices(
        [str(path) for path in paths]
    ).interleave(
        tf.data.TFRecordDataset,
        cycle_length=len(paths),
        block_length=1,
        num_parallel_calls=1,
        deterministic=True,
    )
    rows = list(records.as_numpy_iterator())
    parsed = tf.io.parse_example(tf.constant(rows, tf.string), spec)
    return {name: values.numpy() for name, values in parsed.items()}


def _check_tfrecord(
    golden_dir: pathlib.Path, name: str, variant: dict
) -> Iterator[Check]:
    """The original's files, against the same examples as we write them."""
    case = f"examples/{name}"
    # "direct_seq64: record j of file i is example 2*j+i".
    source = variant["same_as"].split(":")[0]
    folder = golden_dir / case
    paths = [
        folder / f"pretrain_data.tfrecord-{i}-of-{variant['files']}"
        for i in range(variant["files"])
    ]
    with np.load(golden_dir / "examples" / f"{source}.npz") as arrays:
        columns = [arrays[key].tolist() for key in records_lib.FEATURE_NAMES]
    with tempfile.TemporaryDirectory() as output_dir:
        part = str(pathlib.Path(output_dir) / "part")
        with tf.io.TFRecordWriter(part) as writer:
            for row in zip(*columns, strict=True):
                writer.write(readable.serialize(row))
        ours = [str(pathlib.Path(output_dir) / path.name) for path in paths]
        parts.merge([part], ours, seed=0)
        num_records = [
            sum(1 for _ in tf.data.TFRecordDataset(path)) for path in ours
        ]
        our_arrays = _read_round_robin(ours, variant["max_seq_length"])
    golden_arrays = _read_round_robin(paths, variant["max_seq_length"])

    entry = f"examples/variants.json:{name}"
    read = {f"{case}/{path.name}" for path in paths} | {
        f"{entry}/{key}"
        for key in ("files", "max_seq_length", "same_as", "seed")
    }
    for key in records_lib.FEATURE_NAMES:
        yield Check(
            case,
            key,
            comparison.num_different(our_arrays[key], golden_arrays[key]),
            0,
            frozenset(read | {f"examples/{source}.npz:{key}"}),
        )
    yield Check(
        case,
        "records",
        float(num_records != variant["records"]),
        0,
        frozenset({f"{entry}/records"}),
    )
    num_extra = len(list(folder.iterdir())) - len(paths)
    yield Check(case, "number of files", num_extra, 0)
