"""A corpus -> TFRecords and their manifest, as an Apache Beam pipeline.

Each file of the corpus is built by `parts.PartBuilder`, as on one machine
and with the same seed, so the examples are the same. A digest of seed, file and
number says in which output file an example lands, and where there: so the bytes
of the output depend neither on the runner nor on its workers.

Corpus and output may be in any file system that Beam knows.
"""

import argparse
import contextlib
import functools
import hashlib
import logging
import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import apache_beam as beam
from apache_beam.io.filesystems import FileSystems
from apache_beam.options.pipeline_options import PipelineOptions

from electra_tf.command_line import arguments
from electra_tf.pretraining_data import (
    building,
    corpus,
    manifest,
    parts,
)

_LONGEST_REASON = 500
# A value, and the output file that it goes to; see `add_steps`.
_Keyed = tuple[tuple[int, int], Any]
_MANIFEST = (-1, 0)

say = functools.partial(arguments.say, "build_pretraining_dataset_beam")


class Task(NamedTuple):
    """What workers must know.

    Attributes:
      build: The choices.
      vocabulary: What text becomes.
      entry: The manifest's entry of it.
      output_dir: Where the shards go.
      skips_bad_input: Whether damaged places are left out.
    """

    build: manifest.Build
    vocabulary: Any
    entry: dict
    output_dir: str
    skips_bad_input: bool

    def folder_of(self, share: str) -> str:
        """Where the files of a share go."""
        return manifest.folder_of(self.output_dir, share)


def build_dataset(
    args: argparse.Namespace, beam_args: Sequence[str] = ()
) -> None:
    """Builds the data set.

    Args:
      args: The flags of `building.add_flags`.
      beam_args: Of the pipeline, such as its runner.

    Raises:
      ValueError: On anything that the user can mend.
    """
    files = list_files(args)
    build, vocabulary, entry = building.make_build(args, files)
    output_dir = args.output_dir.rstrip("/")
    if "://" not in output_dir:
        output_dir = building.output_folder(args)
    task = Task(
        build, vocabulary, entry, output_dir, args.on_bad_input == "skip"
    )
    options = PipelineOptions(list(beam_args))
    with contextlib.ExitStack() as stack:
        for share in build.shares:
            stack.enter_context(claimed_folder(task, share))
        try:
            with beam.Pipeline(options=options) as pipeline:
                add_steps(pipeline, files, task)
        # A runner hands a worker's mistake back as it likes.
        except Exception as error:
            # The line that it ends with, without its traceback.
            lines = [x for x in str(error).splitlines() if x.strip()]
            kind = r"(?:[\w.]*(?:Error|Input): )+"
            known = [line for line in lines if re.match(kind, line)]
            reason = (known or lines or [type(error).__name__])[-1]
            reason = re.sub(rf"^{kind}| \[while running .*", "", reason)
            raise ValueError(reason[:_LONGEST_REASON]) from None
    say(f"wrote the examples of {len(files)} file(s) to {output_dir}")


def list_files(args: argparse.Namespace) -> list[corpus.CorpusFile]:
    """As `corpus.list_files`, in any file system."""
    corpus_dir, output = args.corpus_dir, args.output_dir.rstrip("/") + "/"
    skips = args.on_bad_input == "skip"
    note = corpus.BadInputs().note if skips else None
    if "://" not in corpus_dir:
        return corpus.list_files(
            corpus_dir,
            note,
            args.vocab_file,
            "" if "://" in output else building.output_folder(args),
        )
    root = corpus_dir.rstrip("/") + "/"
    inner = output.removeprefix(root)
    if output.startswith(root) and not corpus.is_hidden(inner):
        raise corpus.inside_corpus(args.output_dir, corpus_dir)
    (match,) = FileSystems.match([root + "**"])
    files = []
    for entry in match.metadata_list:
        path, num_bytes = entry.path, entry.size_in_bytes
        name = path.removeprefix(root)
        # A bucket has empty files in place of folders.
        if corpus.is_hidden(name) or path.endswith("/"):
            continue
        if corpus.is_vocabulary(path, args.vocab_file):
            continue
        if num_bytes and (problem := corpus.problem_of_kind(path)):
            corpus.Reading(on_bad_input=note).refuse(problem)
        else:
            files.append(corpus.CorpusFile(name, path, num_bytes))
    corpus.refuse_without_text(corpus_dir, files)
    return sorted(files)


@contextlib.contextmanager
def claimed_folder(task: Task, share: str) -> Iterator[None]:
    """Makes a share's output folder; a file says which build is at work."""
    folder = task.folder_of(share)
    key = repr([task.build, task.entry["sha256"]]).encode()
    claim = FileSystems.join(folder, manifest.UNFINISHED)
    shards = task.build.shard_names(share)
    names = _names(folder)
    if manifest.UNFINISHED in names:
        with FileSystems.open(claim) as reader:
            if reader.read() != key:
                raise ValueError(
                    "Expected a new or empty --output-dir, or what an "
                    "interrupted run of the same command left. Received: "
                    f"{folder!r}, where a run with other flags is at work or "
                    "was interrupted."
                )
        known = {*shards, manifest.UNFINISHED}
        if share != manifest.TRAINING:
            # Of a run that was killed between its two manifests.
            known.add(manifest.FILE_NAME)
        prefix = manifest.TEMPORARY_PREFIX
        names = [
            n for n in names if n not in known and not n.startswith(prefix)
        ]
    if manifest.FILE_NAME in names:
        raise ValueError(
            "Expected a new or empty --output-dir. Received: "
            f"{folder!r}, which holds a finished data set."
        )
    manifest.refuse_foreign(folder, sorted(names))
    if not FileSystems.exists(folder):
        FileSystems.mkdirs(folder)
    with FileSystems.create(claim) as writer:
        writer.write(key)
    try:
        yield
    except BaseException:
        # Nobody must take what is there for all.
        if set(shards).isdisjoint(_names(folder)):
            FileSystems.delete([claim])
        raise
    FileSystems.delete([claim])


def _names(folder: str) -> list[str]:
    """Of the files in a folder; what stands for it itself is none."""
    (match,) = FileSystems.match([FileSystems.join(folder, "*")])
    paths = [entry.path for entry in match.metadata_list]
    return [os.path.basename(path) for path in paths if path[-1:] != "/"]


def add_steps(
    pipeline: beam.Pipeline, files: Sequence[corpus.CorpusFile], task: Task
) -> None:
    """Adds everything to a pipeline: files -> shards and manifests.

    Without tagged outputs and side inputs, which not every runner has: the key
    of a value is the output file that it goes to, `(number of the share, number
    of the shard)` or _MANIFEST. Keys are numbers, as Dask groups by `hash`,
    which for strings may differ between processes.

    Args:
      pipeline: Runs when the caller leaves it.
      files: See `list_files`.
      task: What to do with them.
    """
    built = (
        pipeline
        | "files" >> beam.Create(list(files))
        | beam.Reshuffle()
        | "build" >> beam.ParDo(_BuildFile(task))
    )
    # So that a shard without an example is written, too.
    no_examples = pipeline | "shards" >> beam.Create(
        [
            ((number, i), None)
            for number, share in enumerate(task.build.shares)
            for i in range(len(task.build.shard_names(share)))
        ]
    )
    examples = built | "examples" >> beam.Filter(
        lambda pair: pair[0] != _MANIFEST
    )
    records = built | "records" >> beam.Filter(
        lambda pair: pair[0] == _MANIFEST
    )
    shards = (
        (examples, no_examples)
        | "shards with examples" >> beam.Flatten()
        | "by shard" >> beam.GroupByKey()
        | "write" >> beam.ParDo(_WriteShard(task))
    )
    _ = (
        (records, shards)
        | "records and shards" >> beam.Flatten()
        | "all" >> beam.GroupByKey()
        | "manifests" >> beam.Map(_write_manifests, task)
    )


class _BuildFile(beam.DoFn):
    """A file -> examples with their places, and its part of the manifest."""

    def __init__(self, task: Task):
        self._task = task

    def setup(self):
        from electra_tf.text import tokenization

        self._builder = parts.PartBuilder(
            self._task.build,
            tokenization.FullTokenizer(self._task.vocabulary),
            logging.warning if self._task.skips_bad_input else None,
        )

    def process(self, element: corpus.CorpusFile) -> Iterator[_Keyed]:
        import tensorflow as tf

        build = self._task.build
        with tempfile.TemporaryDirectory() as folder:
            local = element._replace(path=_local_copy(element.path, folder))
            part = parts.Part(os.path.join(folder, "part-"), [local], 0)
            (record,) = self._builder.write(part)
            yield _MANIFEST, ("input", record)
            for number, share in enumerate(build.shares):
                num_shards = len(build.shard_names(share))
                made = tf.data.TFRecordDataset(part.path_of(share))
                for i, example in enumerate(made.as_numpy_iterator()):
                    key = f"{build.seed}/{element.name}/{i}"
                    digest = hashlib.sha256(key.encode()).digest()
                    shard = int.from_bytes(digest[:8]) % num_shards
                    yield (number, shard), (digest[8:], example)


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
    """((share, shard), its examples) -> the shard's entry in the manifest."""

    def __init__(self, task: Task):
        self._task = task

    def process(self, element) -> Iterator[_Keyed]:
        """Writes one shard, under its name once it is whole."""
        import tensorflow as tf

        (number, shard), values = element
        share = self._task.build.shares[number]
        examples = sorted(value for value in values if value is not None)
        name = self._task.build.shard_names(share)[shard]
        with tempfile.TemporaryDirectory() as folder:
            local_path = os.path.join(folder, name)
            with tf.io.TFRecordWriter(local_path) as writer:
                for _, example in examples:
                    writer.write(example)
            _publish(local_path, self._task.folder_of(share), name)
            num_bytes = os.path.getsize(local_path)
        entry = {"name": name, "examples": len(examples), "bytes": num_bytes}
        yield _MANIFEST, ("shard", (number, shard, entry))


def _publish(local_path: str, output_dir: str, name: str) -> None:
    """Copies a file to the output folder, where it appears when it is whole."""
    temporary = FileSystems.join(
        output_dir, f"{manifest.TEMPORARY_PREFIX}{name}-{os.urandom(8).hex()}"
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
    element: tuple[tuple[int, int], Iterable[Any]], task: Task
) -> None:
    """Writes what was made from what; says that all is done."""
    _, values = element
    entries: dict[str, list] = {"input": [], "shard": []}
    for kind, value in values:
        entries[kind].append(value)
    records = sorted(
        entries["input"], key=lambda r: r[manifest.TRAINING]["name"]
    )
    shards = sorted(entries["shard"], key=lambda shard: shard[:2])
    for share in task.build.shares:
        manifest.refuse_empty(records, task.build, share)
    # The training set's manifest says that all is done: it comes last.
    for number, share in reversed([*enumerate(task.build.shares)]):
        content = manifest.make(
            task.build,
            share,
            records,
            [
                entry
                for share_number, _, entry in shards
                if share_number == number
            ],
            task.entry,
            manifest.versions("apache-beam"),
        )
        content["built_with"] = f"apache-beam {beam.__version__}"
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, manifest.FILE_NAME)
            with open(path, "w", encoding="utf-8") as writer:
                writer.write(manifest.text_of(content))
            _publish(path, task.folder_of(share), manifest.FILE_NAME)
