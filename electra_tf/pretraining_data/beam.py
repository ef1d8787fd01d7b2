"""Pre-training examples as an Apache Beam pipeline.

Each file of the corpus is built by `pretraining_examples.write_part`, as on one
machine and with the same seed, so the examples are the same. A digest of seed,
file and number says in which output file an example lands, and where there: so
the bytes of the output depend neither on the runner nor on its workers.

Corpus and output may be in any file system that Beam knows.
"""

import hashlib
import json
import logging
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import apache_beam as beam
from apache_beam.io.filesystems import FileSystems

from electra_tf.pretraining_data import corpus
from electra_tf.pretraining_data.output_folder import (
    HELDOUT_SUFFIX,
    MANIFEST,
    MANIFEST_VERSION,
)

TEMPORARY_PREFIX = "unfinished-"


class Build(NamedTuple):
    """What decides the bytes of the output; goes into the manifest."""

    max_seq_length: int
    blanks_separate_docs: bool
    do_lower_case: bool
    strip_accents: bool
    seed: int
    num_out_files: int
    text_field: str = "text"
    heldout_fraction: float = 0.0

    @property
    def num_heldout_files(self) -> int:
        if not self.heldout_fraction:
            return 0
        return max(1, round(self.num_out_files * self.heldout_fraction))


class Task(NamedTuple):
    """What workers must know.

    Attributes:
      build: The choices.
      vocab: Content of the vocabulary file.
      vocab_name: Its name.
      output_dir: Where the shards go.
      skips_bad_input: Whether damaged places are left out.
    """

    build: Build
    vocab: bytes
    vocab_name: str
    output_dir: str
    skips_bad_input: bool


def list_files(corpus_dir: str) -> list[corpus.CorpusFile]:
    """As `corpus.list_files`, in any file system.

    Raises:
      ValueError: If there is no such folder or it holds no text.
    """
    if "://" not in corpus_dir:
        return corpus.list_files(corpus_dir)
    root = corpus_dir.rstrip("/") + "/"
    (match,) = FileSystems.match([root + "**"])
    files = []
    for found in match.metadata_list:
        name = found.path.removeprefix(root)
        if not any(part.startswith(".") for part in name.split("/")):
            files.append(
                corpus.CorpusFile(name, found.path, found.size_in_bytes)
            )
    if not any(file.num_bytes for file in files):
        raise ValueError(
            f"Expected a folder with text. Received: {corpus_dir!r}, which "
            f"holds {len(files)} file(s), none with text."
        )
    return sorted(files)


def build(
    pipeline: beam.Pipeline, files: Sequence[corpus.CorpusFile], task: Task
) -> None:
    """Adds everything to a pipeline: files -> shards and manifests.

    Args:
      pipeline: Runs when the caller leaves it.
      files: See `list_files`.
      task: What to do with them.
    """
    outputs = (
        pipeline
        | "files" >> beam.Create(list(files))
        | beam.Reshuffle()
        | "build" >> beam.ParDo(_BuildFile(task)).with_outputs("records")
    )
    shards = [("", i) for i in range(task.build.num_out_files)]
    shards += [(HELDOUT_SUFFIX, i) for i in range(task.build.num_heldout_files)]
    # So that a shard without an example is written, too.
    no_examples = pipeline | "shards" >> beam.Create(
        [(shard, None) for shard in shards]
    )
    written = (
        (outputs[None], no_examples)
        | beam.Flatten()
        | beam.GroupByKey()
        | "write" >> beam.ParDo(_WriteShard(task))
    )
    _ = (
        pipeline
        | "once" >> beam.Create([task])
        | "manifests"
        >> beam.Map(
            _write_manifests,
            beam.pvalue.AsList(outputs.records),
            beam.pvalue.AsList(written),
        )
    )


class _BuildFile(beam.DoFn):
    """A file -> ((suffix, shard), (place in the shard, example)) pairs.

    And under "records" what became of the file.
    """

    def __init__(self, task: Task):
        self._task = task

    def setup(self):
        from electra_tf.pretraining_data import examples as examples_lib
        from electra_tf.text import tokenization

        self._folder = tempfile.TemporaryDirectory()
        vocab_file = os.path.join(self._folder.name, "vocab.txt")
        with open(vocab_file, "wb") as writer:
            writer.write(self._task.vocab)
        choices = self._task.build
        self._tokenizer = tokenization.FullTokenizer(
            vocab_file, choices.do_lower_case, choices.strip_accents
        )
        self._tokenize_lines = examples_lib.CachingLineTokenizer(
            self._tokenizer
        )

    def teardown(self):
        self._folder.cleanup()

    def process(self, element: corpus.CorpusFile) -> Iterator[Any]:
        """Builds one file."""
        from electra_tf.pretraining_data import parts

        choices = self._task.build
        with tempfile.TemporaryDirectory(dir=self._folder.name) as folder:
            part = os.path.join(folder, "part")
            heldout = None
            if choices.heldout_fraction:
                heldout = os.path.join(folder, "heldout")
            (record,) = parts.write_part(
                [element._replace(path=_local_copy(element.path, folder))],
                part,
                self._tokenizer,
                self._tokenize_lines,
                choices.max_seq_length,
                choices.seed,
                corpus.Reading(
                    choices.blanks_separate_docs,
                    choices.text_field,
                    logging.warning if self._task.skips_bad_input else None,
                ),
                heldout_path=heldout,
                choose=self._choose if heldout else None,
            )
            yield beam.pvalue.TaggedOutput("records", (element, record))
            yield from self._examples_of(
                part, element.name, "", choices.num_out_files
            )
            if heldout:
                yield from self._examples_of(
                    heldout,
                    element.name,
                    HELDOUT_SUFFIX,
                    choices.num_heldout_files,
                )

    def _choose(self, _file_number, _document_number, lines) -> str:
        from electra_tf.pretraining_data import deduplication, parts

        is_held_out = deduplication.is_held_out(
            deduplication.digest_of(lines), self._task.build.heldout_fraction
        )
        if is_held_out:
            return parts.HELDOUT
        return parts.TRAINING

    def _examples_of(self, path, name, suffix, num_shards) -> Iterator[Any]:
        import tensorflow as tf

        records = tf.data.TFRecordDataset(path).as_numpy_iterator()
        for number, example in enumerate(records):
            key = f"{self._task.build.seed}/{name}/{number}"
            digest = hashlib.sha256(key.encode()).digest()
            shard = int.from_bytes(digest[:8]) % num_shards
            yield (suffix, shard), (digest[8:], example)


def _local_copy(path: str, folder: str) -> str:
    """The path itself, or a copy of a file from elsewhere."""
    if "://" not in path:
        return path
    # The name says what kind of file it is.
    local_path = os.path.join(folder, path.rsplit("/", 1)[1])
    with (
        FileSystems.open(path, compression_type="uncompressed") as reader,
        open(local_path, "wb") as writer,
    ):
        shutil.copyfileobj(reader, writer, 1 << 20)
    return local_path


class _WriteShard(beam.DoFn):
    """((suffix, shard), its examples) -> the shard's entry in the manifest."""

    def __init__(self, task: Task):
        self._task = task

    def process(self, element) -> Iterator[tuple[str, dict]]:
        """Writes one shard, under its name once it is whole."""
        import tensorflow as tf

        from electra_tf.pretraining_data import records as records_lib

        (suffix, shard), values = element
        choices = self._task.build
        num_shards = (
            choices.num_heldout_files if suffix else choices.num_out_files
        )
        examples = sorted(value for value in values if value is not None)
        name = records_lib.shard_name(shard, num_shards)
        with tempfile.TemporaryDirectory() as folder:
            local_path = os.path.join(folder, name)
            with tf.io.TFRecordWriter(local_path) as writer:
                for _, example in examples:
                    writer.write(example)
            _publish(local_path, self._task.output_dir + suffix, name)
            num_bytes = os.path.getsize(local_path)
        yield (
            suffix,
            {"name": name, "examples": len(examples), "bytes": num_bytes},
        )


def _publish(local_path: str, output_dir: str, name: str) -> None:
    """Copies a file to the output folder, where it appears when it is whole.

    Another worker may be doing the same, if this one seems to be lost.
    """
    unique = hashlib.sha256(os.urandom(16)).hexdigest()[:16]
    temporary = FileSystems.join(
        output_dir, f"{TEMPORARY_PREFIX}{name}-{unique}"
    )
    with (
        FileSystems.create(
            temporary, compression_type="uncompressed"
        ) as writer,
        open(local_path, "rb") as reader,
    ):
        shutil.copyfileobj(reader, writer, 1 << 20)
    FileSystems.rename([temporary], [FileSystems.join(output_dir, name)])


def _write_manifests(
    task: Task, records: Iterable[tuple], shards: Iterable[tuple[str, dict]]
) -> None:
    """Writes what was made from what; says that all is done."""
    records = sorted(records)
    shards = list(shards)
    suffixes = ["", HELDOUT_SUFFIX] if task.build.heldout_fraction else [""]
    # The training set's manifest says that all is done: it comes last.
    for suffix in reversed(suffixes):
        inputs = []
        for file, record in records:
            counts = record.heldout if suffix else record.counts
            inputs.append(
                {
                    "name": file.name,
                    "bytes": file.num_bytes,
                    "sha256": record.sha256,
                    "documents": counts.num_documents,
                    "tokens": counts.num_tokens,
                    "examples": counts.num_examples,
                    "example_tokens": counts.num_example_tokens,
                    "bad_inputs": record.num_bad_inputs,
                }
            )
        manifest = {
            "manifest_version": MANIFEST_VERSION,
            "built_with": f"apache-beam {beam.__version__}",
            "share": "heldout" if suffix else "training",
            "flags": task.build._asdict(),
            "vocabulary": {
                "file": task.vocab_name,
                "sha256": hashlib.sha256(task.vocab).hexdigest(),
            },
            "inputs": inputs,
            "shards": sorted(
                (entry for of, entry in shards if of == suffix),
                key=lambda entry: int(entry["name"].split("-")[1]),
            ),
            "totals": {
                key: sum(entry[key] for entry in inputs)
                for key in inputs[0]
                if key not in ("name", "sha256")
            },
        }
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, MANIFEST)
            with open(path, "w", encoding="utf-8") as writer:
                json.dump(manifest, writer, indent=1, ensure_ascii=False)
                writer.write("\n")
            _publish(path, task.output_dir + suffix, MANIFEST)
