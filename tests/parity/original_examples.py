"""Examples in the order in which the original's builder writes them."""

import contextlib
import os
import random
from typing import NamedTuple

import tensorflow as tf

from electra_tf.pretraining_data import corpus, examples, manifest
from electra_tf.text import tokenization
from tests.pretraining_data import readable


class JobResult(NamedTuple):
    """What `write_examples` did.

    Attributes:
      output_files: Paths; example k of the job is in file k % number of files.
      examples_written_after_each_file: Name of each input file, in the order
        in which they were read, and the number of examples after it.
      rng: The source of randomness after the last draw.
    """

    output_files: list[str]
    examples_written_after_each_file: list[tuple[str, int]]
    rng: random.Random


def write_examples(
    corpus_dir: str,
    output_dir: str,
    tokenizer: tokenization.FullTokenizer,
    max_seq_length: int,
    seed: int,
    job_id: int = 0,
    num_processes: int = 1,
    num_out_files: int = 1000,
    blanks_separate_docs: bool = True,
) -> JobResult:
    """Writes one job's examples exactly as the original's job does.

    Job j takes the sorted files i with i % num_processes == j, shuffles them,
    and fills in turn the output files k with k % num_processes == j.

    Args:
      corpus_dir: A folder of text files.
      output_dir: An existing folder.
      tokenizer: Makes the ids.
      max_seq_length: L.
      seed: Seeds the job's randomness; the original leaves it unseeded.
      job_id: Number of the job, from 0.
      num_processes: Number of jobs.
      num_out_files: Number of output files of all jobs together.
      blanks_separate_docs: Whether a blank line ends a document.
    """
    rng = random.Random(seed)
    files = corpus.list_files(corpus_dir)[job_id::num_processes]
    rng.shuffle(files)
    builder = examples.ExampleBuilder(tokenizer, max_seq_length, rng)
    tokenize_lines = examples.CachingLineTokenizer(tokenizer)
    output_files = [
        os.path.join(output_dir, manifest.shard_name(i, num_out_files))
        for i in range(job_id, num_out_files, num_processes)
    ]
    num_examples = 0
    counts = []
    with contextlib.ExitStack() as stack:
        writers = [
            stack.enter_context(tf.io.TFRecordWriter(path))
            for path in output_files
        ]
        for file in files:
            for example in readable.examples_of_file(
                file.path, builder, tokenize_lines, blanks_separate_docs
            ):
                writer = writers[num_examples % len(writers)]
                writer.write(example)
                num_examples += 1
            counts.append((file.name, num_examples))
    return JobResult(output_files, counts, rng)
