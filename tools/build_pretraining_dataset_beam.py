"""Turns text into TFRecords of pre-training examples on many machines.

  pip install 'electra_tf[beam]'
  python3 tools/build_pretraining_dataset_beam.py \\
      --corpus-dir my_corpus --vocab-file vocab.txt --output-dir tfrecords \\
      -- --direct_num_workers=2 --direct_running_mode=multi_processing

What follows "--" is for Apache Beam: its runner (Dask, Flink, Spark, Dataflow;
its own local one by default) and that one's options: see
docs/guides/gpus-tpus.md. Corpus and output may be where Beam reads, as gs://x.

The examples are those of tools/build_pretraining_dataset.py with the same
flags, in another order; the bytes do not depend on the runner or the number of
its workers. A file is built by one worker: a large corpus should be many files.
--dedup needs an order of documents, so it is the other tool's alone.

The output folder must be new or empty, or hold what an interrupted run of the
same command left, which is written again.
"""

import os
import sys

from electra_tf.command_line import arguments
from electra_tf.pretraining_data import building


def main(argv=None) -> int:
    """Parses the flags and builds; returns the exit code."""
    parser = arguments.ArgumentParser("build_pretraining_dataset_beam", __doc__)
    building.add_flags(parser)
    argv = list(sys.argv[1:] if argv is None else argv)
    # What follows -- is Beam's.
    split = argv.index("--") if "--" in argv else len(argv)

    def build(args) -> None:
        from electra_tf.pretraining_data import beam

        beam.build_dataset(args, argv[split + 1 :])

    return arguments.run(build, parser, argv[:split])


if __name__ == "__main__":
    # Text needs no GPU, and TensorFlow would take all of its memory.
    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
    sys.exit(main())
