"""A corpus -> TFRecords and their manifest, on one machine."""

import argparse
import contextlib
import glob
import hashlib
import json
import multiprocessing
import os
import shutil
import sys
import time
from collections.abc import Sequence
from concurrent import futures

import numpy as np

from electra_tf import files as files_lib
from electra_tf.pretraining_data import (
    building_flags,
    corpus,
    deduplication,
    output_folder,
)
from electra_tf.pretraining_data import crew as crew_lib
from electra_tf.pretraining_data import manifest as manifest_lib
from electra_tf.pretraining_data import parts as parts_lib

# More processes than this only read the same parts over and over.
MAX_MERGING_PROCESSES = 8

LOOKS_FALSE = ("0", "false", "n", "no", "off")


def build_dataset(args: argparse.Namespace) -> None:
    """Builds the data set, or finds it built.

    Args:
      args: The flags of `building_flags.add_local_flags`.

    Raises:
      ValueError: On anything that the user can mend.
    """
    building_flags.check(args)
    bad_inputs = crew_lib.BadInputs()
    skips = args.on_bad_input == "skip"
    folders = building_flags.output_folders(args)
    output_dir = folders[0]
    finished = None
    if not args.preflight_only:
        finished = output_folder.finished_build(output_dir)
        if finished is None:
            output_folder.refuse_foreign_files(folders)
            output_folder.refuse_two_file_systems(folders)
    files = corpus.list_files(
        args.corpus_dir,
        bad_inputs.note if skips else None,
        args.vocab_file,
        folders,
        output_folder.say,
    )
    warn_of_blanks_flag(args.blanks_separate_docs)
    # All that needs no TensorFlow, which takes seconds to import, is checked.
    output_folder.say("importing TensorFlow")
    build, vocabulary, entry = building_flags.make_build(
        args, files, output_folder.say
    )

    def keep(finished: dict) -> None:
        manifest_lib.check_finished(
            output_dir, finished, build, entry, files, skips
        )
        output_folder.say(
            f"{output_dir} already holds this data set; nothing to do"
        )

    if finished is not None:
        return keep(finished)

    # Processes of the crew are forked with what is imported here.
    from electra_tf.pretraining_data import part_files  # noqa: F401

    if args.preflight:
        preflight(files, build, vocabulary, args.gin_file, args.num_processes)
    if args.preflight_only:
        return

    start = time.monotonic()
    with output_folder.unfinished_folder(output_dir) as folder:
        # Another run may have come first, before this one locked the folder.
        output_folder.finish_publishing(output_dir, folder)
        finished = manifest_lib.read(output_dir)
        if finished is not None:
            return keep(finished)
        output_folder.refuse_foreign_files(folders)
        warn_of_little_room(folder, files)
        with crew_lib.Crew(
            build, vocabulary, args.num_processes, skips
        ) as crew:
            outputs = build_outputs(crew, folder, files, build, entry, skips)
            num_tokens = crew.counts.num_tokens
        output_folder.publish(output_dir, folder, outputs)
    tell(
        [output["manifest"] for output in outputs],
        folders,
        bad_inputs.count,
        num_tokens,
        time.monotonic() - start,
    )


def build_outputs(
    crew: crew_lib.Crew,
    folder: str,
    files: Sequence[corpus.CorpusFile],
    build: manifest_lib.Build,
    entry: dict,
    skips: bool,
) -> list[dict]:
    """From the corpus to finished shards, by way of parts.

    Args:
      crew: Processes of this build.
      folder: The unfinished data set.
      files: Of the corpus.
      build: What is decided.
      entry: Of the vocabulary, for the manifest.
      skips: Whether damaged places are left out.

    Returns:
      For each share its output (see `merge`), with its manifest.
    """
    parts = parts_lib.make_parts(files)
    versions = manifest_lib.versions()
    # The number of output files changes no part, and of what is dropped each
    # part has a digest.
    for_parts = build._replace(num_out_files=0, dedup_threshold=0.0)
    decisions = (for_parts, entry["sha256"], versions)
    if build.dedup:
        parts = find_duplicates(crew, folder, files, parts, build)
    parts = [
        part._replace(path=parts_lib.part_path(folder, part, decisions))
        for part in parts
    ]
    records = build_parts(crew, parts, skips)
    outputs = []
    for share in build.shares:
        output, shards = merge(crew, folder, parts, records, build, share)
        output["manifest"] = manifest_lib.make(
            build, share, files, records, shards, entry, versions
        )
        outputs.append(output)
    return outputs


def tell(
    manifests: Sequence[dict],
    folders: Sequence[str],
    num_bad_inputs: int,
    num_tokens: int,
    seconds: float,
) -> None:
    """Says what was written, and how fast.

    Args:
      manifests: Of all shares.
      folders: Where they are.
      num_bad_inputs: Damaged places that were seen before anything was built.
      num_tokens: Read by this process: none of what it found finished.
      seconds: What it took.
    """
    for manifest, folder in zip(manifests, folders, strict=True):
        totals = manifest["totals"]
        output_folder.say(
            f"wrote {totals['examples']} examples of {totals['documents']} "
            f"documents, {totals['tokens']} tokens, to "
            f"{len(manifest['shards'])} file(s) in {folder}"
        )
    speed = f", {num_tokens / seconds:,.0f} tokens/s" if num_tokens else ""
    output_folder.say(f"{seconds:.1f} s{speed}")
    totals = manifests[0]["totals"]
    if totals["dropped_documents"]:
        output_folder.say(
            f"dropped {totals['dropped_documents']} document(s) that repeat "
            f"earlier ones; {manifest_lib.DROPPED_DOCUMENTS} lists them"
        )
    if num_bad := num_bad_inputs + totals["bad_inputs"]:
        output_folder.say(
            f"warning: left out {num_bad} damaged place(s) of the corpus"
        )


def preflight(
    files: Sequence[corpus.CorpusFile],
    build: manifest_lib.Build,
    vocabulary,
    gin_files: Sequence[str],
    num_processes: int,
) -> None:
    """Prints the report on a sample of the corpus.

    Raises:
      ValueError: If what is to be built cannot be trained on.
    """
    task = (files, build, vocabulary, gin_files)
    if num_processes == 1:
        report = make_report(*task)
    else:
        # In a process of its own: those that build are forked from this one,
        # in which nothing of TensorFlow must have run.
        context = multiprocessing.get_context("fork")
        with (
            crew_lib.telling_of_killed(),
            futures.ProcessPoolExecutor(
                1, mp_context=context, initializer=crew_lib.start_child
            ) as pool,
        ):
            report = pool.submit(make_report, *task).result()
    report.print(sys.stderr)
    if report.errors:
        raise ValueError(
            f"{len(report.errors)} problem(s) would break a run over this "
            "corpus; --no-preflight builds it nevertheless."
        )


def make_report(files, build: manifest_lib.Build, vocabulary, gin_files):
    """See `text_report.report_on_text`."""
    from electra_tf import configs
    from electra_tf.command_line import gin_files as gin_files_lib
    from electra_tf.pretraining_data import reports, text_report
    from electra_tf.text import tokenization

    # As for building, which may go on in this process.
    crew_lib.use_one_thread()
    run = None
    if gin_files:
        run = reports.run_of_config(
            gin_files_lib.load(configs.PretrainingConfig, gin_files)
        )
    return text_report.report_on_text(
        text_report.take_sample(files, build.reading()),
        tokenization.FullTokenizer(vocabulary),
        build.max_seq_length,
        run,
    )


def warn_of_blanks_flag(value: str | None) -> None:
    """Tells those who wrote `--blanks-separate-docs False` what it means."""
    if value is not None and value.lower() in LOOKS_FALSE:
        output_folder.say(
            f"warning: --blanks-separate-docs {value} means yes, as in the "
            "original; use --no-blanks-separate-docs to switch it off"
        )


def warn_of_little_room(
    folder: str, files: Sequence[corpus.CorpusFile]
) -> None:
    """Parts and the output lie side by side, each about as large as text."""
    needed = 2 * sum(file.num_bytes for file in files)
    free = shutil.disk_usage(folder).free
    if free < needed:
        output_folder.say(
            f"warning: {free >> 20} MiB are free, and this will take some "
            f"{needed >> 20} MiB or more while it runs"
        )


def find_duplicates(
    crew: crew_lib.Crew,
    folder: str,
    files: Sequence[corpus.CorpusFile],
    parts: Sequence[parts_lib.Part],
    build: manifest_lib.Build,
) -> list[parts_lib.Part]:
    """Looks for documents that repeat earlier ones.

    What it finds goes to files in the unfinished folder, since the workers
    read them.

    Returns:
      The parts with the numbers of their documents.
    """
    decisions = (build.dedup, build.blanks_separate_docs, build.text_field)
    parts = [
        part._replace(
            path=parts_lib.part_path(
                # Fingerprints name their file by its number.
                folder,
                part,
                (*decisions, part.first_file),
                "fingerprints",
            )
        )
        for part in parts
    ]
    parts_lib.remove_others(parts)
    missing = [part for part in parts if not os.path.exists(part.path)]
    num_bytes = sum(part.num_bytes for part in parts)
    done_before = num_bytes - sum(part.num_bytes for part in missing)
    crew.start_progress(
        num_bytes, parts_lib.Counts(done_before), "looking for duplicates"
    )
    crew.run("fingerprint", missing)
    all_records = os.path.join(folder, "fingerprints")
    concatenate([part.path for part in parts], all_records)
    numbered = _with_documents(parts)
    if not any(part.num_documents for part in numbered):
        return numbered
    records = np.memmap(all_records, deduplication.RECORD, "r")
    threshold = build.dedup_threshold if build.dedup == "near" else None
    decided = deduplication.decide(records, len(files), threshold)
    path = os.path.join(folder, deduplication.DECISIONS)
    with files_lib.writing(path), open(path, "wb") as writer:
        writer.write(decided.data)
    names = json.dumps([file.name for file in files])
    files_lib.write_atomically(
        os.path.join(folder, deduplication.FILE_NAMES), names
    )
    return [
        part._replace(
            decided=hashlib.sha256(
                names.encode() + decided[part.documents].tobytes()
            ).hexdigest()
        )
        for part in numbered
    ]


def _with_documents(parts: Sequence[parts_lib.Part]) -> list[parts_lib.Part]:
    """The parts with the numbers of their documents, by their fingerprints."""
    first_document = 0
    numbered = []
    for part in parts:
        num_documents = (
            os.path.getsize(part.path) // deduplication.RECORD.itemsize
        )
        numbered.append(
            part._replace(
                first_document=first_document, num_documents=num_documents
            )
        )
        first_document += num_documents
    return numbered


def build_parts(
    crew: crew_lib.Crew, parts: Sequence[parts_lib.Part], skips: bool
) -> list[parts_lib.FileRecord]:
    """Builds the parts that no earlier run has finished.

    Returns:
      The `FileRecord`s of all input files, in order.
    """
    parts_lib.remove_others(parts)
    found = [parts_lib.read_part_record(part.path, skips) for part in parts]
    done_before = [
        parts_lib.add_up(file.counts, file.heldout)
        for records in found
        for file in records or ()
    ]
    missing = [
        part
        for part, records in zip(parts, found, strict=True)
        if records is None
    ]
    if done_before:
        output_folder.say(
            f"{len(parts) - len(missing)} of {len(parts)} parts are finished"
        )
    crew.start_progress(
        sum(part.num_bytes for part in parts),
        parts_lib.add_up(parts_lib.Counts(), *done_before),
        "building examples",
    )
    crew.run("build", missing)
    all_records: list[parts_lib.FileRecord] = []
    for part, records in zip(parts, found, strict=True):
        records = records or parts_lib.read_part_record(part.path, True)
        assert records is not None
        all_records += records
    return all_records


def merge(
    crew: crew_lib.Crew,
    folder: str,
    parts: Sequence[parts_lib.Part],
    records: Sequence[parts_lib.FileRecord],
    build: manifest_lib.Build,
    share: str,
) -> tuple[dict, list[dict]]:
    """Deals the parts' examples of a share to its output files.

    Returns:
      `suffix`, `made` and `names` as `output_folder.publish` wants them, and
      the shards' entries in the manifest.

    Raises:
      ValueError: If the data set would have no example.
    """
    num_examples = sum(r.counts_of(share).num_examples for r in records)
    if not num_examples:
        # Nothing here can be of use to another run.
        for part in parts:
            with contextlib.suppress(FileNotFoundError):
                os.remove(part.path + ".json")
        raise ValueError(manifest_lib.nothing_made(records, build, share))
    num_shards = build.num_files(share)
    if num_examples < num_shards:
        output_folder.say(
            f"warning: {num_examples} example(s) leave some of the "
            f"{num_shards} output files empty"
        )
    key = [part.path for part in parts] + [build.num_out_files, build.seed]
    digest = hashlib.sha256(repr(key).encode()).hexdigest()[:24]
    made = f"merged-{digest}" + (f".{share}" if share else "")
    for other in glob.glob("merged-*", root_dir=folder):
        if digest not in other:
            shutil.rmtree(os.path.join(folder, other))
    os.makedirs(os.path.join(folder, made), exist_ok=True)
    for temporary in glob.glob(os.path.join(folder, made, "*.tmp*")):
        os.remove(temporary)
    names = [manifest_lib.shard_name(i, num_shards) for i in range(num_shards)]
    paths = [os.path.join(folder, made, name) for name in names]
    inputs = [part.path_of(share) for part in parts]
    _merge_missing(crew, inputs, paths, build.seed)
    if _num_bytes(paths) != _num_bytes(inputs):
        # A machine that stopped has not written all that it said.
        for path in paths:
            os.remove(path)
        _merge_missing(crew, inputs, paths, build.seed)
    quotient, rest = divmod(num_examples, num_shards)
    shards = [
        {
            "name": name,
            "examples": quotient + (i < rest),
            "bytes": os.path.getsize(path),
        }
        for i, (name, path) in enumerate(zip(names, paths, strict=True))
    ]
    if build.dedup and not share:
        names.append(manifest_lib.DROPPED_DOCUMENTS)
        concatenate(
            [part.path_of(parts_lib.DROPPED) for part in parts],
            os.path.join(folder, made, names[-1]),
        )
    suffix = manifest_lib.suffix_of(share)
    return {"suffix": suffix, "made": made, "names": names}, shards


def _merge_missing(
    crew: crew_lib.Crew, inputs: list[str], paths: list[str], seed: int
) -> None:
    """Deals the parts' examples to those output files that are not there."""
    wanted = [i for i, path in enumerate(paths) if not os.path.exists(path)]
    num_groups = min(len(wanted), crew.num_processes, MAX_MERGING_PROCESSES)
    crew.run(
        "merge",
        [
            (inputs, paths, seed, wanted[i::num_groups])
            for i in range(num_groups)
        ],
    )


def _num_bytes(paths: Sequence[str]) -> int:
    return sum(map(os.path.getsize, paths))


def concatenate(paths: Sequence[str], target: str) -> None:
    """Writes the bytes of some files to one."""
    with (
        files_lib.whole_file(target) as temporary,
        open(temporary, "wb") as writer,
    ):
        for path in paths:
            with open(path, "rb") as reader:
                shutil.copyfileobj(reader, writer, 1 << 20)
