"""Builds a corpus of English prose from the docstrings of installed packages.

No data set ships with electra_tf, so the quickstart pre-trains on text that
every installation has: the docstrings of the standard library and of the
packages in site-packages. Files are parsed with `ast`, never imported.

    python tools/quickstart/build_docstring_corpus.py \\
        --output_dir=build/quickstart/corpus

writes

    train/*.txt, heldout/*.txt   one sentence per line, a blank line after each
                                 document (one docstring, or one module with
                                 --document=module)
    labelled/{train,dev,test}.tsv   text<TAB>label: which library is described
    manifest.json                flags, versions, counts, what was dropped

The path of a text is: docstring_files -> docstring_prose -> docstring_documents
-> labelled_texts. Two rules keep the splits honest:

* A module (one file) is train or held-out by a hash of its path and the seed.
  Held-out modules are divided into dev and test in the same way.
* A document whose sentences repeat those of an earlier document is dropped, in
  either split. A held-out sentence of at least MIN_SHARED_WORDS words that also
  occurs in train is dropped from held-out; for test, one that occurs in dev as
  well. Comparison ignores case and white space.

The same seed and the same installation give the same text, byte for byte,
whatever --num_processes. Only the seconds in manifest.json differ.
"""

import argparse
import collections
import contextlib
import gc
import hashlib
import json
import os
import pathlib
import platform
import re
import shutil
import sys
import time
from collections.abc import Sequence

import docstring_documents
import docstring_files
import docstring_prose
import labelled_texts
from docstring_documents import Document
from docstring_files import SourceFile

from electra_tf import errors
from electra_tf import files as files_lib
from electra_tf.command_line import arguments, progress

TOOL = "build_docstring_corpus"

MANIFEST = "manifest.json"
OUTPUT_NAMES = re.compile(
    r"(train|heldout)/\d+-of-\d+\.txt|labelled/(train|dev|test)\.tsv"
)


def check_output_dir(output_dir: pathlib.Path) -> dict | None:
    """Returns the manifest of an earlier run, or None for a fresh directory.

    Raises:
      ConfigError: If the directory holds anything that this tool did not write.
    """
    if not output_dir.exists():
        return None
    if not output_dir.is_dir():
        raise errors.ConfigError(
            f"--output_dir is not a directory: {output_dir}"
        )
    digests = _digests_in(output_dir)
    manifest = _read_manifest(output_dir / MANIFEST)
    # Earlier versions did not note what they wrote.
    written = manifest.get("outputs") or {
        name: digest
        for name, digest in digests.items()
        if manifest and OUTPUT_NAMES.fullmatch(name)
    }
    if manifest:
        written[MANIFEST] = digests[MANIFEST]
    for name, digest in digests.items():
        if written.get(name) != digest:
            raise errors.ConfigError(
                "--output_dir holds files that this tool did not write: "
                f"{name!r} in {output_dir}. Choose another directory or empty "
                "it."
            )
    # What is missing is built again.
    return manifest if manifest and written == digests else None


def _digests_in(directory: pathlib.Path) -> dict[str, str]:
    """The files in a directory, at any depth, and the SHA-256 of each."""
    return {
        path.relative_to(directory).as_posix(): ""
        if path.is_symlink()
        else files_lib.sha256_of_file(str(path))
        for path in sorted(directory.rglob("*"))
        if path.is_symlink() or not path.is_dir()
    }


def _read_manifest(path: pathlib.Path) -> dict:
    """The manifest of an earlier run; empty where it is none of ours."""
    with contextlib.suppress(OSError, ValueError):
        manifest = json.loads(path.read_text("utf-8"))
        if isinstance(manifest, dict) and manifest.get("tool") == TOOL:
            return manifest
    return {}


def replace_directory(new: pathlib.Path, output_dir: pathlib.Path) -> None:
    """Puts a directory in the place of another, which stays if that fails."""
    old = output_dir.with_name(f"{output_dir.name}.old-{os.getpid()}")
    if output_dir.exists():
        output_dir.rename(old)
    try:
        new.rename(output_dir)
    except OSError:
        if old.exists():
            old.rename(output_dir)
        raise
    shutil.rmtree(old, ignore_errors=True)


def build_corpus(args: argparse.Namespace) -> dict:
    """Builds the corpus that the flags describe and returns its manifest.

    Raises:
      ConfigError: On any mistake that the user can mend.
    """
    start = time.monotonic()
    output_dir = pathlib.Path(args.output_dir).absolute()
    roots, stdlib_root = docstring_files.installed_roots()
    if args.root:
        roots, stdlib_root = [args.root], ""
    stdlib_root = args.stdlib_root or stdlib_root
    earlier = check_output_dir(output_dir)
    files = docstring_files.find_files(roots, stdlib_root, args.packages)
    # Other flags do not decide the bytes of the corpus.
    flags = vars(args).keys() - {"output_dir", "num_processes"}
    identity = {
        "tool": TOOL,
        "tool_hash": _hash_of_sources(),
        "python": platform.python_version(),
        "flags": {k: v for k, v in vars(args).items() if k in flags},
        "versions": docstring_files.package_versions(
            roots, {file.package for file in files}
        ),
    }
    if earlier and all(earlier.get(k) == v for k, v in identity.items()):
        print(
            f"{output_dir} is up to date: same tool, flags and package "
            "versions; nothing done.",
            file=sys.stderr,
        )
        return earlier
    temporary = output_dir.with_name(f"{output_dir.name}.tmp-{os.getpid()}")
    try:
        output_dir.parent.mkdir(parents=True, exist_ok=True)
        temporary.mkdir()
        manifest = _build_into(temporary, files, args, identity)
        manifest["outputs"] = _digests_in(temporary)
        manifest["seconds"] = round(time.monotonic() - start, 1)
        text = json.dumps(manifest, indent=2, ensure_ascii=False) + "\n"
        docstring_documents.write_text(temporary / MANIFEST, text)
        replace_directory(temporary, output_dir)
    except OSError as error:
        raise errors.ConfigError(
            f"--output_dir cannot be written: {output_dir}: {error.strerror}."
        ) from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return manifest


def _build_into(
    directory: pathlib.Path,
    files: Sequence[SourceFile],
    args: argparse.Namespace,
    identity: dict,
) -> dict:
    dropped: collections.Counter = collections.Counter()
    documents = _read_documents(files, args, dropped)
    documents = docstring_documents.drop_repeats(documents, dropped)
    if args.max_megabytes:
        limit = args.max_megabytes * 1e6
        documents = docstring_documents.limit_size(
            documents, limit, args.seed, dropped
        )
    splits = {
        "train": [d for d in documents if d.split == "train"],
        "heldout": [d for d in documents if d.split != "train"],
    }
    for name, part in splits.items():
        if not part:
            raise errors.ConfigError(
                f"No {name} prose found in {len(files)} files of "
                f"{len(identity['versions'])} packages; name more --packages, "
                "or change --max_megabytes or --heldout_fraction."
            )
    for name, part in splits.items():
        num_files = getattr(args, f"num_{name}_files")
        docstring_documents.write_documents(
            part, directory / name, num_files, args.seed, args.document
        )
    sizes = {
        split: getattr(args, f"labelled_{split}_size")
        for split in docstring_documents.SPLITS
    }
    present = {document.package for document in documents}
    labels = [
        x for x in args.labels if present.intersection(labelled_texts.LABELS[x])
    ]
    rows = labelled_texts.build_labelled(documents, labels, sizes, args.seed)
    labelled_texts.write_labelled(rows, directory / "labelled")
    totals = {name: _totals(part) for name, part in splits.items()}
    return {
        **identity,
        "totals": {"files": len(files)} | totals,
        "labelled": {
            split: dict(sorted(collections.Counter(x for _, x in part).items()))
            for split, part in rows.items()
        },
        "dropped": dict(sorted(dropped.items())),
        "packages": _package_totals(documents, files),
    }


def _read_documents(
    files: Sequence[SourceFile],
    args: argparse.Namespace,
    dropped: collections.Counter,
) -> list[Document]:
    documents = []
    live = progress.Progress("reading", sum(file.num_bytes for file in files))
    num_bytes = 0
    read = docstring_files.read_files(files, args.num_processes)
    for number, (file, prose) in enumerate(zip(files, read, strict=True), 1):
        num_bytes += file.num_bytes
        live.update(num_bytes, f"{number} of {len(files)} files")
        if prose.problem:
            dropped[f"files_{prose.problem}"] += 1
        dropped["documents_over_file_cap"] += prose.num_over_file_cap
        split = docstring_documents.split_of_module(
            file.module, args.seed, args.heldout_fraction
        )
        for sentences in prose.documents:
            if not sentences:
                dropped["documents_without_prose"] += 1
                continue
            documents.append(
                Document(file.module, file.package, split, list(sentences))
            )
    live.close()
    return documents


def _totals(documents: Sequence[Document]) -> dict:
    return {
        "modules": len({document.module for document in documents}),
        "documents": len(documents),
        "sentences": sum(len(document.sentences) for document in documents),
        "words": sum(document.num_words() for document in documents),
        "characters": sum(document.num_characters() for document in documents),
    }


def _package_totals(
    documents: Sequence[Document], files: Sequence[SourceFile]
) -> dict:
    of_packages = collections.defaultdict(list)
    for document in documents:
        of_packages[document.package].append(document)
    num_files = collections.Counter(file.package for file in files)
    packages = {}
    for name, count in sorted(num_files.items()):
        totals = _totals(of_packages[name])
        del totals["sentences"], totals["words"]
        packages[name] = {"files": count} | totals
    return packages


def _hash_of_sources() -> str:
    """Of all that decides what is written."""
    modules = docstring_files, docstring_prose, docstring_documents
    sources = [__file__, *(m.__file__ for m in (*modules, labelled_texts))]
    source = b"".join(pathlib.Path(str(path)).read_bytes() for path in sources)
    return hashlib.blake2b(source, digest_size=8).hexdigest()


def _names(text: str) -> list[str]:
    # As it comes back from the manifest.
    return list(arguments.names(text))


def _check_flags(args: argparse.Namespace) -> None:
    least = {"num_processes": 1, "num_train_files": 1, "num_heldout_files": 1}
    least["max_megabytes"] = 0
    least |= {
        f"labelled_{split}_size": 0 for split in docstring_documents.SPLITS
    }
    for name, number in least.items():
        if (value := getattr(args, name)) < number:
            raise errors.ConfigError(
                f"--{name} must be at least {number}. Received: {value}"
            )
    if not 0 < args.heldout_fraction < 1:
        raise errors.ConfigError(
            "--heldout_fraction must lie between 0 and 1. "
            f"Received: {args.heldout_fraction}"
        )
    if unknown := sorted(set(args.labels) - set(labelled_texts.LABELS)):
        raise errors.ConfigError(
            f"--labels must be among {', '.join(labelled_texts.LABELS)}. "
            f"Received: {', '.join(unknown)}"
        )
    for name in ("root", "stdlib_root"):
        if (value := getattr(args, name)) and not os.path.isdir(value):
            raise errors.ConfigError(f"--{name} is not a directory: {value}")


def _build(args: argparse.Namespace) -> None:
    _check_flags(args)
    manifest = build_corpus(args)
    for split in ("train", "heldout"):
        totals = manifest["totals"][split]
        print(
            f"{split}: {totals['characters'] / 1e6:.1f} MB, "
            f"{totals['documents']} documents of {totals['modules']} modules"
        )
    for split, counts in manifest["labelled"].items():
        print(f"labelled/{split}.tsv: {sum(counts.values())} rows")
    print(f"{args.output_dir}: {manifest['seconds']} s")


def main(argv=None) -> int:
    """Parses the flags and builds; returns the exit code."""
    parser = arguments.ArgumentParser(
        prog=TOOL,
        description="Builds a corpus of English prose, split by module, from "
        "the docstrings of installed packages.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add = parser.add_argument
    add("--output-dir", required=True, help="directory to write")
    add("--num-processes", type=int, default=2, help="files read at a time")
    add("--seed", type=int, default=0, help="seed of splits and order")
    add(
        "--packages",
        type=_names,
        default="",
        help="packages to read, with commas; python is the standard library; "
        "empty for all that are installed",
    )
    add(
        "--max-megabytes",
        type=float,
        default=0,
        help="most prose to keep, held-out included; 0 for no limit",
    )
    add(
        "--heldout-fraction",
        type=float,
        default=0.2,
        help="share of modules that are held out",
    )
    add(
        "--document",
        choices=["docstring", "module"],
        default="docstring",
        help="what a blank line closes; a module packs into longer examples",
    )
    add("--num-train-files", type=int, default=8, help="files in train/")
    add("--num-heldout-files", type=int, default=2, help="files in heldout/")
    add(
        "--labels",
        type=_names,
        default=",".join(labelled_texts.LABELS),
        help="libraries to tell apart in labelled/",
    )
    add("--labelled-train-size", type=int, default=1600, help="rows")
    add("--labelled-dev-size", type=int, default=800, help="rows")
    add("--labelled-test-size", type=int, default=1600, help="rows")
    add(
        "--root",
        default="",
        help="directory of packages to read in place of site-packages; the "
        "standard library is then read only with --stdlib-root",
    )
    add("--stdlib-root", default="", help="directory of the standard library")
    return arguments.run(_build, parser, argv)


if __name__ == "__main__":
    gc.disable()  # Nothing here is cyclic, and the collector costs seconds.
    sys.exit(main())
