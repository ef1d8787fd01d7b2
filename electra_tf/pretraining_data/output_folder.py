"""The output folder of a build: nothing is wiped, and all appears or none."""

import contextlib
import functools
import glob
import json
import os
import shutil
from collections.abc import Iterator, Sequence
from typing import IO

from electra_tf import files as files_lib
from electra_tf.command_line import arguments
from electra_tf.pretraining_data import manifest

# Everything unfinished lives in this folder inside the output folder.
UNFINISHED = "unfinished_build"
# What has to be moved from there, once everything is made.
PLAN = "plan.json"

# Tells the user, on stderr.
say = functools.partial(arguments.say, "build_pretraining_dataset")

# Open files that lock a folder for this process.
_locks: set[IO[str]] = set()


def refuse_foreign_files(folders: Sequence[str]) -> None:
    """Refuses output folders with files that this run did not write.

    Raises:
      ValueError: If there are any, or a path is a file.
    """
    for folder in folders:
        if os.path.isdir(folder):
            foreign = set(os.listdir(folder)) - {UNFINISHED}
            manifest.refuse_foreign(folder, sorted(foreign))
        elif os.path.exists(folder):
            raise ValueError(
                f"Expected a folder as --output-dir. Received: {folder!r}, "
                "which is a file."
            )


def refuse_two_file_systems(folders: Sequence[str]) -> None:
    """Refuses folders between which nothing can be renamed.

    Args:
      folders: Of all shares, there or not.

    Raises:
      ValueError: If one is on another file system than the first.
    """
    devices = [_device_of(folder) for folder in folders]
    for folder, device in zip(folders, devices, strict=True):
        if device != devices[0]:
            raise ValueError(
                f"Expected {folders[0]!r} and {folder!r} on one file system, "
                "as what is finished is moved into both. Received: two; make "
                "the second one a link beside the first one's."
            )


def _device_of(path: str) -> int:
    """Of a folder, or of the first above it that is there."""
    path = os.path.realpath(path)
    while not os.path.exists(path):
        path = os.path.dirname(path)
    return os.stat(path).st_dev


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
            num_finished = _num_finished_parts(folder)
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


def _num_finished_parts(folder: str) -> int:
    """Parts that are built, or, before the first of them, looked through."""
    built = glob.glob("part-*.json", root_dir=folder)
    # What is unfinished has an ending.
    return len(built) or len(
        glob.glob("fingerprints-" + "[!.]" * 24, root_dir=folder)
    )


@contextlib.contextmanager
def lock_folder(output_dir: str, folder: str) -> Iterator[None]:
    """Keeps other runs out.

    Raises:
      ValueError: If another run is at work, or the folder cannot be made.
    """
    lock = None
    try:
        while lock is None:
            lock = _try_lock(folder)
    except BlockingIOError:
        raise ValueError(
            f"Another run is building in {output_dir!r}."
        ) from None
    except OSError as error:
        raise ValueError(
            f"Cannot write to {output_dir!r}: {error.strerror}."
        ) from None
    _locks.add(lock)
    try:
        yield
    finally:
        _locks.discard(lock)
        lock.close()


def _try_lock(folder: str) -> IO[str] | None:
    """Locks a folder, unless a run that has just ended removes it."""
    os.makedirs(folder, exist_ok=True)
    with (
        contextlib.suppress(FileNotFoundError),
        contextlib.ExitStack() as stack,
    ):
        lock = stack.enter_context(open(os.path.join(folder, "lock"), "w"))
        files_lib.try_lock(lock.fileno())
        if os.path.samestat(os.fstat(lock.fileno()), os.stat(lock.name)):
            stack.pop_all()
            return lock
    return None


def forget_locks() -> None:
    """Leaves to its parent, in a forked process, what that has locked."""
    while _locks:
        _locks.pop().close()


def publish(output_dir: str, folder: str, outputs: Sequence[dict]) -> None:
    """Moves what is made to where it belongs, the manifests last.

    Args:
      output_dir: The output folder.
      folder: The unfinished folder.
      outputs: For each data set `suffix` of the output folder's name, `made`
        (the folder in `folder` with its files), `names` of these and its
        `manifest`.

    Raises:
      ValueError: If files have come there meanwhile from elsewhere.
    """
    refuse_foreign_files([output_dir + output["suffix"] for output in outputs])
    files_lib.write_atomically(os.path.join(folder, PLAN), json.dumps(outputs))
    move_outputs(output_dir, folder)


def finished_build(output_dir: str) -> dict | None:
    """The manifest of a finished build, or None.

    Does first what a run that was killed while publishing had still to do.

    Raises:
      ValueError: If there is a manifest that is not ours, or a run is at work.
    """
    folder = os.path.join(output_dir, UNFINISHED)
    if os.path.exists(os.path.join(folder, PLAN)):
        with lock_folder(output_dir, folder):
            finish_publishing(output_dir, folder)
    finished = manifest.read(output_dir)
    if finished is not None and os.path.isdir(folder):
        with lock_folder(output_dir, folder):
            shutil.rmtree(folder, ignore_errors=True)
    return finished


def finish_publishing(output_dir: str, folder: str) -> None:
    """Moves what a killed run has planned to move; needs the lock."""
    if os.path.exists(os.path.join(folder, PLAN)):
        move_outputs(output_dir, folder)


def move_outputs(output_dir: str, folder: str) -> None:
    """Moves what `publish` has planned; again, where that was interrupted.

    Raises:
      ValueError: If the plan is damaged.
    """
    path = os.path.join(folder, PLAN)
    with open(path, encoding="utf-8") as reader:
        try:
            outputs = json.load(reader)
        except ValueError:
            raise ValueError(
                "Expected the files that a build has still to move. Received: "
                f"{path!r}, damaged; remove {output_dir!r} and build again."
            ) from None
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
            os.path.join(target, manifest.FILE_NAME),
            manifest.text_of(output["manifest"]),
        )
