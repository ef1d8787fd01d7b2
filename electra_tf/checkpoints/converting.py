"""A checkpoint of one format -> the same ELECTRA in another, compared with it.

Generator, discriminator, heads, optimizer slots, step and vocabulary travel as
far as the output's format can hold them. What travelled and what stayed behind
is printed.
"""

import contextlib
import dataclasses
import gc
import os
import shutil
import signal
import sys
import threading
import warnings
from collections.abc import Iterator, Sequence

from electra_tf import errors, files
from electra_tf.checkpoints import (
    hub,
    reading,
    run_scores,
    sizes,
    tensor_files,
    verify,
)
from electra_tf.checkpoints.checkpoint import Checkpoint, summarize
from electra_tf.text import vocabulary

# Bytes of an output beside its tensors: vocabulary, settings, names.
_FOR_THE_REST = 1 << 20


@dataclasses.dataclass(frozen=True)
class Conversion:
    """What is to be converted: the flags of tools/convert_checkpoint.py."""

    input: str
    output: str
    output_format: str
    vocab_file: str | None = None
    do_lower_case: bool | None = None
    strip_accents: bool | None = None
    hparams: str | None = None
    encoder_only: bool = False
    verify: bool = True
    verbose: bool = False


def convert(asked: Conversion) -> None:
    """Converts a checkpoint; whatever ends it before its end leaves no output.

    The output is read again and compared bit by bit, and where the other
    format's library is installed, both sides compute the same random inputs.

    Raises:
      ValueError: If the input cannot be read, the output cannot hold it, or
        the two differ.
    """
    files.refuse_used(asked.output, "--output")
    path = hub.local_path(asked.input)
    input_format = reading.recognise(path)
    title = reading.TITLES[input_format]
    writer = reading.format_module(asked.output_format)
    source = _read(asked, input_format)
    checkpoint = source.encoder_only() if asked.encoder_only else source
    print(f"{asked.input}: {title}")
    _describe(checkpoint)
    with _whole_folder(asked.output) as temporary:
        with tensor_files.writing(asked.output):
            os.makedirs(temporary)
            _check_room(checkpoint, temporary)
            writer.write(checkpoint, temporary)
        with warnings.catch_warnings(action="ignore", category=errors.Notice):
            read_again = reading.read_checkpoint(temporary)
        lost = verify.lost_settings(checkpoint, read_again)
        kept = _kept(checkpoint, read_again, asked.verify)
        as_written = verify.with_activation_of(checkpoint, read_again)
        del read_again
        # Models are garbage in cycles, and each is as large as the checkpoint.
        gc.collect()
        if asked.verify:
            _compare_outputs(
                ("input", path, input_format, checkpoint),
                ("output", temporary, asked.output_format, as_written),
            )
        if hasattr(writer, "write_card"):
            scores = None
            if input_format == "electra_tf" and not asked.encoder_only:
                scores = run_scores.read(path, checkpoint.global_step)
            writer.write_card(
                checkpoint, temporary, asked.output, title, scores
            )
        _report(asked, source, checkpoint, kept)
    notes = writer.notes(checkpoint) if hasattr(writer, "notes") else ()
    for note in notes:
        if note not in checkpoint.remarks:  # Which were said on reading.
            errors.warn(note)
    if lost:
        errors.warn(f"the new format cannot hold: {', '.join(lost)}")
    print(f"wrote {asked.output}: {reading.TITLES[asked.output_format]}")


@contextlib.contextmanager
def _whole_folder(path: str) -> Iterator[str]:
    """The name under which a folder is written, until it is whole."""
    path = os.path.realpath(path)  # Of a link that to which it points.
    temporary = f"{path}.tmp{os.getpid()}"
    is_main = threading.current_thread() is threading.main_thread()
    if is_main:
        before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        yield temporary
        os.replace(temporary, path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        if is_main:
            signal.signal(signal.SIGTERM, before)


def _read(asked: Conversion, input_format: str) -> Checkpoint:
    """The input, with what the flags say beside it."""
    settings = {}
    if asked.hparams:
        if input_format != "original":
            raise ValueError(
                "--hparams is for checkpoints of the original. Received: "
                f"{asked.input}, {reading.TITLES[input_format]}"
            )
        settings["hparams"] = files.read_json(asked.hparams)
    checkpoint = reading.read_checkpoint(
        asked.input, asked.vocab_file, **settings
    )
    if not asked.encoder_only:
        checkpoint.refuse_other_head(asked.input)
    vocab, lower = checkpoint.vocabulary, asked.do_lower_case
    said = {n: getattr(asked, n) for n in vocabulary.TREATMENT}
    said = {name: value for name, value in said.items() if value is not None}
    if vocab is None and said:
        raise ValueError(
            f"{asked.input} has no vocabulary for --do-lower-case and "
            "--strip-accents: add --vocab-file"
        )
    if vocab is not None:
        known = vocab.do_lower_case
        if None not in (known, lower) and known != lower:
            # What was said of accents was said with the other.
            said = {"strip_accents": None} | said
        vocab = dataclasses.replace(vocab, **said)
    return dataclasses.replace(checkpoint, vocabulary=vocab)


def _check_room(checkpoint: Checkpoint, folder: str) -> None:
    """Refuses a full disk, of which HDF5 dies."""
    # Slots are not read for it: there are two of each variable's size.
    of_tensors = sum(t.nbytes for t in checkpoint.tensors.values())
    needed = of_tensors * (3 if checkpoint.optimizer else 1) + _FOR_THE_REST
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise OSError(
            f"it takes {needed / 1e6:,.1f} MB, {free / 1e6:,.1f} MB are free"
        )


# --- Comparing ---------------------------------------------------------------


def _kept(
    checkpoint: Checkpoint, read_again: Checkpoint, verified: bool
) -> set[str]:
    """The names of what was written that the output holds, bit by bit."""
    unequal, absent = verify.unequal_tensors(checkpoint, read_again)
    kept = {*checkpoint.tensors, *checkpoint.optimizer} - set(absent)
    if not verified:
        return kept
    reformed: set[str] = set()
    head, again = checkpoint.head, read_again.head
    if head and again and head.hidden_activation != again.hidden_activation:
        # Of many labels, Hugging Face's hidden layer cannot be undone to the
        # bits: what the head computes is compared.
        scope = f"task_specific/{head.task_name}/"
        reformed = {name for name in kept if name.startswith(scope)}
    unequal = [name for name in unequal if name not in reformed]
    for scope, ours in checkpoint.encoders.items():
        theirs = sizes.as_dict(read_again.encoders.get(scope, ours))
        unequal += [
            n for n, size in sizes.as_dict(ours).items() if size != theirs[n]
        ]
    if unequal:
        raise errors.CheckpointError(
            f"The output does not hold what was read: {len(unequal)} tensors "
            f"differ, such as {unequal[0]}; no output was left"
        )
    print(
        f"  read again     {len(kept - reformed)} tensors are equal bit by bit"
    )
    if reformed:
        inputs = verify.random_inputs(checkpoint.encoders["electra"], head)
        as_read = verify.with_activation_of(read_again, checkpoint)
        differences = verify.compare(
            verify.forward(checkpoint, inputs),
            verify.forward(as_read, inputs),
            inputs["input_mask"],
        )
        _check_parity("input", "the output's other form of head", differences)
    return kept


def _compare_outputs(*sides: tuple[str, str, str, Checkpoint]) -> None:
    """Compares with what the formats' own libraries compute on random inputs.

    A side is "input" or "output", its path, its format and what it is: of the
    output, what was read with the activations of the output's format.
    """
    checkpoint = sides[0][-1]
    config = checkpoint.discriminator or checkpoint.generator
    if config is None:
        return
    inputs = verify.random_inputs(config, checkpoint.head)
    mask = inputs["input_mask"]
    for side, path, name, computed in sides:
        module = reading.format_module(name)
        if not hasattr(module, "forward"):
            continue
        try:
            theirs = module.forward(path, inputs)
        except ImportError as error:
            print(
                f"  not compared   {reading.TITLES[name]}: the package "
                f"{error.name} is not installed"
            )
            continue
        gc.collect()
        ours = verify.forward(computed, inputs)
        gc.collect()
        _check_parity(
            side, f"{name} itself", verify.compare(ours, theirs, mask)
        )
        if computed.activations != checkpoint.activations:
            changed = verify.compare(
                verify.forward(checkpoint, inputs), theirs, mask
            )
            print(
                "  of the input, they differ by "
                f"{max(d.share for d in changed):.1e}: {name} computes "
                f"{'/'.join(computed.activations)}, the input "
                f"{'/'.join(checkpoint.activations)}"
            )


def _check_parity(
    side: str, name: str, differences: Sequence[verify.Difference]
) -> None:
    """Prints differences of outputs, and refuses those that are too large."""
    print(f"  parity of the {side} with {name}, on random inputs:")
    print(f"    {'output':26} {'largest difference':>18} {'of':>10} share")
    for d in differences:
        print(
            f"    {d.output:26} {d.largest:18.2e} {d.magnitude:10.2e} "
            f"{d.share:.1e}"
        )
    for d in differences:
        if not d.fits:
            raise errors.CheckpointError(
                f"{d.output} of electra_tf and of {name} differ by "
                f"{d.largest:.2e} of {d.magnitude:.2e}, more than "
                f"{verify.TOLERANCE:.0e}; no output was left"
            )


# --- What is printed ---------------------------------------------------------


def _describe(checkpoint: Checkpoint) -> None:
    """Says what was read."""
    lines = {}
    for scope, config in checkpoint.encoders.items():
        lines["discriminator" if scope == "electra" else scope] = (
            f"{config.num_hidden_layers} layers, {config.hidden_size} wide "
            f"({config.num_attention_heads} heads, feed-forward "
            f"{config.intermediate_size}), embeddings "
            f"{config.embedding_size} wide, vocabulary {config.vocab_size},"
            f" {config.max_position_embeddings} positions"
        )
    head, vocab = checkpoint.head, checkpoint.vocabulary
    if head is not None:
        lines["head"] = f"{head.kind} {head.task_name!r}" + "".join(
            f", {said}"
            for said, value in (
                (f"{head.num_outputs} outputs", head.num_outputs),
                (f"segment {head.segment}", head.segment is not None),
                (f"labels {', '.join(head.labels or ())}", head.labels),
            )
            if value
        )
    if checkpoint.optimizer:
        lines["optimizer"] = f"{len(checkpoint.optimizer)} slots"
    if checkpoint.global_step is not None:
        lines["step"] = str(checkpoint.global_step)
    lines["vocabulary"] = "none"
    if vocab is not None:
        cases = {None: "case not known", True: "lower-cased", False: "cased"}
        case = cases[vocab.do_lower_case]
        lines["vocabulary"] = f"{len(vocab.tokens)} tokens, {case}"
    for what, text in lines.items():
        print(f"  {what:14} {text}")


def _report(
    asked: Conversion,
    source: Checkpoint,
    checkpoint: Checkpoint,
    kept: set[str],
) -> None:
    """Says what travelled and what did not."""
    everything = set(source.tensors) | set(source.optimizer)
    expected: set[str] = set()
    if checkpoint.discriminator is not None and checkpoint.head is None:
        expected |= set(
            sizes.discriminator_head_shapes(checkpoint.discriminator)
        )
    if checkpoint.generator is not None:
        expected |= set(sizes.masked_lm_head_shapes(checkpoint.generator))
    for what, names in (
        ("used", kept),
        ("unused", set(source.unused) | everything - kept),
        ("missing", set() if asked.encoder_only else expected - everything),
    ):
        counted = f"  {what:14} {len(names)} tensors"
        if asked.verbose and names:
            print(f"{counted}:", *sorted(names), sep="\n    ")
        else:
            print(f"{counted}: {summarize(names)}" if names else counted)
