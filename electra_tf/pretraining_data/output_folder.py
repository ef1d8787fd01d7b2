"""What stands beside TFRecords: names that builders and readers agree on."""

import contextlib
import fcntl
import importlib.metadata
import json
import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from electra_tf import files as files_lib
from electra_tf.pretraining_data import corpus

MANIFEST = "manifest.json"
# Of the manifest's content.
MANIFEST_VERSION = 2
# Appended to the output folder's name, for the documents held out of it.
HELDOUT_SUFFIX = "_heldout"


pass

# TensorFlow takes seconds to import: flags and folders are checked before.

# Everything unfinished lives in this folder inside the output folder.
UNFINISHED = "unfinished_build"
# What has to be moved from there, once everything is made.
PLAN = "plan.json"
DROPPED_DOCUMENTS = "dropped_documents.jsonl"


class Build(NamedTuple):
    """What decides the bytes of the output; goes into the manifest."""

    max_seq_length: int
    blanks_separate_docs: bool
    do_lower_case: bool
    strip_accents: bool
    seed: int
    num_out_files: int
    text_field: str = "text"
    dedup: str = ""
    dedup_threshold: float = 0.0
    heldout_fraction: float = 0.0


def say(message: str) -> None:
    """Tells the user, on stderr."""
    print(f"build_pretraining_dataset: {message}", file=sys.stderr)


def read_manifest(output_dir: str) -> dict | None:
    """The manifest of a finished build, or None.

    Raises:
      ValueError: If there is a manifest that is not ours.
    """
    path = os.path.join(output_dir, MANIFEST)
    if not os.path.exists(path):
        return None
    try:
        with open(path, encoding="utf-8") as reader:
            manifest = json.load(reader)
        version = manifest["manifest_version"]
    except (ValueError, TypeError, KeyError):
        version = None
    if version != MANIFEST_VERSION:
        raise ValueError(
            f"Expected a manifest of version {MANIFEST_VERSION}. Received: "
            f"{path!r} of version {version}; choose another --output-dir."
        )
    return manifest


def refuse_foreign_files(output_dir: str) -> None:
    """Refuses an output folder with files that this tool did not write.

    Raises:
      ValueError: If there are any, or the path is a file.
    """
    if os.path.exists(output_dir) and not os.path.isdir(output_dir):
        raise ValueError(
            f"Expected a folder as --output-dir. Received: {output_dir!r}, "
            "which is a file."
        )
    if not os.path.isdir(output_dir):
        return
    foreign = sorted(set(os.listdir(output_dir)) - {UNFINISHED})
    if foreign:
        raise ValueError(
            "Expected a new or empty --output-dir. Received: "
            f"{output_dir!r}, which holds {len(foreign)} file(s) that this "
            f"tool did not write, such as {foreign[0]!r}."
        )


def check_finished(
    output_dir: str,
    finished: dict,
    build: Build,
    vocabulary: dict,
    files: Sequence[corpus.CorpusFile],
) -> None:
    """Checks that a finished build is the one asked for, and whole.

    Raises:
      ValueError: If it is not.
    """

    def refuse(difference: str) -> None:
        raise ValueError(
            f"Expected a new or empty --output-dir. Received: {output_dir!r}, "
            f"which holds another data set: {difference}."
        )

    for name, value in build._asdict().items():
        if finished["flags"][name] != value:
            refuse(f"{name} {finished['flags'][name]!r}, now {value!r}")
    if finished["vocabulary"]["sha256"] != vocabulary["sha256"]:
        refuse("its vocabulary is not the one given now")
    recorded = {entry["name"]: entry for entry in finished["inputs"]}
    if recorded.keys() != {file.name for file in files}:
        changed = sorted(recorded.keys() ^ {file.name for file in files})
        refuse(f"{changed[0]!r} is new or gone in the corpus")
    for file in files:
        if (
            recorded[file.name]["bytes"] != file.num_bytes
            or files_lib.sha256_of_file(file.path)
            != recorded[file.name]["sha256"]
        ):
            refuse(f"{file.name!r} of the corpus has changed")
    check_shards(output_dir, finished)
    if build.heldout_fraction:
        heldout_dir = output_dir + HELDOUT_SUFFIX
        heldout = read_manifest(heldout_dir)
        if heldout is None:
            refuse(f"what it held out is not in {heldout_dir!r}")
        else:
            check_shards(heldout_dir, heldout)


def check_shards(output_dir: str, finished: dict) -> None:
    """Refuses a finished data set whose files are not as its manifest says."""
    for shard in finished["shards"]:
        path = os.path.join(output_dir, shard["name"])
        if not os.path.exists(path) or os.path.getsize(path) != shard["bytes"]:
            raise ValueError(
                f"Expected {shard['bytes']} bytes in {path!r}, as {MANIFEST} "
                "says. Received: a file that is missing or of another size; "
                "choose another --output-dir."
            )


@contextlib.contextmanager
def unfinished_folder(output_dir: str) -> Iterator[str]:
    """A folder for everything unfinished, for one run at a time.

    It goes away once the run has succeeded. Otherwise it stays, if a part is
    finished, and so the same command need not build that part again.

    Raises:
      ValueError: If another run is building in the same folder.
    """
    folder = os.path.join(output_dir, UNFINISHED)
    is_new = not os.path.exists(output_dir)
    with lock_folder(output_dir, folder):
        succeeded = False
        try:
            yield folder
            succeeded = True
        finally:
            num_finished = sum(
                name.startswith("part-") and name.endswith(".json")
                for name in os.listdir(folder)
            )
            if succeeded or not num_finished:
                shutil.rmtree(folder, ignore_errors=True)
                if is_new:
                    with contextlib.suppress(OSError):
                        os.rmdir(output_dir)
            else:
                say(
                    f"{num_finished} finished part(s) stay in {folder}; the "
                    "same command goes on from there"
                )


@contextlib.contextmanager
def lock_folder(output_dir: str, folder: str) -> Iterator[None]:
    """Keeps other runs out.

    Raises:
      ValueError: If another run is at work, or the folder cannot be made.
    """
    try:
        os.makedirs(folder, exist_ok=True)
        lock = open(os.path.join(folder, "lock"), "w")  # noqa: SIM115
    except OSError as error:
        raise ValueError(
            f"Cannot write to {output_dir!r}: {error.strerror}."
        ) from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ValueError(
                f"Another run is building in {output_dir!r}."
            ) from None
        yield


def publish(output_dir: str, folder: str, outputs: Sequence[dict]) -> None:
    """Moves what is made to where it belongs, the manifests last.

    Args:
      output_dir: The output folder.
      folder: The unfinished folder.
      outputs: For each data set `suffix` of the output folder's name, `made`
        (the folder in `folder` with its files), `names` of these and its
        `manifest`.
    """
    files_lib.write_atomically(os.path.join(folder, PLAN), json.dumps(outputs))
    move_outputs(output_dir, folder)


def finish_publishing(output_dir: str) -> None:
    """Does what a run that was killed while publishing had still to do.

    Raises:
      FileNotFoundError: If there was none.
    """
    folder = os.path.join(output_dir, UNFINISHED)
    os.stat(os.path.join(folder, PLAN))
    with lock_folder(output_dir, folder):
        move_outputs(output_dir, folder)
        shutil.rmtree(folder)


def remove_leftovers(output_dir: str) -> None:
    """Removes what a run killed in its last moment had still to remove."""
    folder = os.path.join(output_dir, UNFINISHED)
    if os.path.isdir(folder):
        with lock_folder(output_dir, folder):
            shutil.rmtree(folder)


def move_outputs(output_dir: str, folder: str) -> None:
    """Moves what `publish` has planned; again, where that was interrupted."""
    with open(os.path.join(folder, PLAN), encoding="utf-8") as reader:
        outputs = json.load(reader)
    # The training set's manifest says that all is done: it comes last.
    for output in reversed(outputs):
        target = output_dir + output["suffix"]
        os.makedirs(target, exist_ok=True)
        for name in output["names"]:
            # Unless it was moved before.
            with contextlib.suppress(FileNotFoundError):
                os.replace(
                    os.path.join(folder, output["made"], name),
                    os.path.join(target, name),
                )
        files_lib.write_atomically(
            os.path.join(target, MANIFEST),
            json.dumps(output["manifest"], indent=1, ensure_ascii=False) + "\n",
        )


def versions() -> dict[str, str]:
    """Of what the bytes could depend on."""
    found = {"python": sys.version.split()[0]}
    for package in ("electra_tf", "tensorflow", "tensorflow-text"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[package] = importlib.metadata.version(package)
    return found
