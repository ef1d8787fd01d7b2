"""A checkpoint of one format -> the same ELECTRA in another, compared with it.

Generator, discriminator, heads, optimizer slots, step and vocabulary travel as
far as the output's format can hold them. What travelled and what stayed behind
is printed.
"""

import dataclasses
import gc
import os
import shutil
import types
from collections.abc import Sequence

import numpy as np

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
    """What is to be converted, under the names of the tool's flags.

    Attributes:
      input: Path of the checkpoint, of any format, or hf://owner/name.
      output: A folder that is new or empty.
      output_format: One of `reading.FORMATS`.
      vocab_file: Vocabulary to go with it, one token a line.
      do_lower_case: Whether text is lower-cased, where the input does not say.
      strip_accents: Whether accents are dropped, likewise; with lower-casing
        where `do_lower_case` is not what the input says.
      hparams: What the original's --hparams was, a file of JSON.
      encoder_only: Whether only the discriminator's encoder travels.
      verify: Whether the output is read again and compared.
      verbose: Whether every variable is named.
    """

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
    """Converts a checkpoint; a mismatch, or any other error, leaves no output.

    The output is read again and compared bit by bit, and where the other
    format's library is installed, both sides compute the same random inputs.

    Raises:
      ValueError: If the input cannot be read, the output cannot hold it, or
        the two differ.
    """
    files.refuse_used(asked.output, "--output")
    # Of a link that to which it points.
    output = os.path.realpath(asked.output)
    path = hub.local_path(asked.input)
    input_format = reading.recognise(path)
    writer = reading.format_module(asked.output_format)
    source = _read(asked, path, input_format)
    checkpoint = _complete(source, asked)
    print(f"{asked.input}: {reading.TITLES[input_format]}")
    _describe(checkpoint)
    temporary = f"{output}.tmp{os.getpid()}"
    try:
        with tensor_files.writing(asked.output):
            os.makedirs(temporary)
            _check_room(checkpoint, temporary)
            writer.write(checkpoint, temporary)
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
                checkpoint,
                temporary,
                asked.output,
                reading.TITLES[input_format],
                scores,
            )
        _report(asked, source, checkpoint, writer, kept, lost)
        os.replace(temporary, output)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    print(f"wrote {asked.output}: {reading.TITLES[asked.output_format]}")


def _read(asked: Conversion, path: str, input_format: str) -> Checkpoint:
    """Reads the input, with the settings of --hparams if there are any."""
    if not asked.hparams:
        return reading.read_checkpoint(path)
    if input_format != "original":
        raise ValueError(
            "--hparams is for checkpoints of the original. Received: "
            f"{asked.input}, {reading.TITLES[input_format]}"
        )
    hparams = files.read_json(asked.hparams)
    return reading.read_checkpoint(path, hparams=hparams)


def _complete(checkpoint: Checkpoint, asked: Conversion) -> Checkpoint:
    """The checkpoint with what was asked to be added and left out."""
    vocab = checkpoint.vocabulary
    if asked.vocab_file:
        found = vocabulary.read(asked.vocab_file)
        if found is None:
            raise ValueError(f"--vocab-file: {asked.vocab_file} does not exist")
        vocab, remarks = vocabulary.in_place_of(vocab, found, asked.vocab_file)
        checkpoint = dataclasses.replace(
            checkpoint, notes=(*checkpoint.notes, *remarks)
        )
    said = {
        name: getattr(asked, name)
        for name in vocabulary.TREATMENT
        if getattr(asked, name) is not None
    }
    if vocab is not None:
        known, lower = vocab.do_lower_case, asked.do_lower_case
        if None not in (known, lower) and known != lower:
            # What was said of accents was said with the other.
            said = {"strip_accents": None} | said
        vocab = dataclasses.replace(vocab, **said)
    elif said:
        raise ValueError(
            f"{asked.input} has no vocabulary for --do-lower-case and "
            "--strip-accents: add --vocab-file"
        )
    checkpoint = dataclasses.replace(checkpoint, vocabulary=vocab)
    checkpoint.check_vocabulary(asked.vocab_file or asked.input)
    return checkpoint.encoder_only() if asked.encoder_only else checkpoint


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
    """The names of what was written that the output holds.

    Args:
      checkpoint: What was written.
      read_again: What was read of the output.
      verified: Whether a difference is an error.

    Raises:
      CheckpointError: If they differ.
    """
    unequal, absent = verify.unequal_tensors(checkpoint, read_again)
    kept = (set(checkpoint.tensors) | set(checkpoint.optimizer)) - set(absent)
    if not verified:
        return kept
    reformed = _reformed_head(checkpoint, read_again)
    unequal = [name for name in unequal if name not in reformed]
    for scope, ours in checkpoint.encoders.items():
        theirs = read_again.encoders.get(scope, ours)
        unequal += [name for name, *_ in sizes.differences(ours, theirs)]
    if unequal:
        raise errors.CheckpointError(
            f"The output does not hold what was read: {len(unequal)} tensors "
            f"differ, such as {unequal[0]}; no output was left"
        )
    print(
        f"  read again     {len(kept - reformed)} tensors are equal bit by bit"
    )
    if reformed:
        inputs = verify.random_inputs(
            checkpoint.encoders["electra"], checkpoint.head
        )
        found = verify.compare(
            verify.forward(checkpoint, inputs),
            verify.forward(
                verify.with_activation_of(read_again, checkpoint), inputs
            ),
            inputs["input_mask"],
        )
        _print_parity("input", "the output, whose head has another form", found)
        _refuse_others(found, "its output")
    return kept


def _reformed_head(checkpoint: Checkpoint, read_again: Checkpoint) -> set[str]:
    """The tensors of a head that was written as one with another layer.

    Of many labels, Hugging Face's hidden layer cannot be undone to the bits.
    """
    head, theirs = checkpoint.head, read_again.head
    if (
        head is None
        or theirs is None
        or head.hidden_activation == theirs.hidden_activation
    ):
        return set()
    scope = f"task_specific/{head.task_name}/"
    return {name for name in checkpoint.tensors if name.startswith(scope)}


def _refuse_others(found: Sequence[verify.Difference], name: str) -> None:
    """Refuses outputs that are not those of this package.

    Args:
      found: What was compared.
      name: With whose.

    Raises:
      CheckpointError: If some differ.
    """
    wrong = [d for d in found if not d.fits]
    if wrong:
        raise errors.CheckpointError(
            f"{wrong[0].output} of electra_tf and of {name} differ by "
            f"{wrong[0].largest:.2e} of {wrong[0].magnitude:.2e}, more "
            f"than {verify.TOLERANCE:.0e}; no output was left"
        )


def _compare_outputs(*sides: tuple[str, str, str, Checkpoint]) -> None:
    """Compares with what the formats' own libraries compute on random inputs.

    Args:
      *sides: "input" or "output", its path, its format and what it is: of the
        output, what was read with the activations of the output's format.

    Raises:
      CheckpointError: If they differ.
    """
    checkpoint = sides[0][-1]
    config = checkpoint.discriminator or checkpoint.generator
    if config is None:
        return
    inputs = verify.random_inputs(config, checkpoint.head)
    mask = inputs["input_mask"]
    of_input: dict[str, np.ndarray] = {}
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
        of_input = of_input or verify.forward(checkpoint, inputs)
        is_changed = computed.activations != checkpoint.activations
        ours = verify.forward(computed, inputs) if is_changed else of_input
        gc.collect()
        found = verify.compare(ours, theirs, mask)
        _print_parity(side, name, found)
        if is_changed:
            changed = verify.compare(of_input, theirs, mask)
            share = max(d.largest / (d.magnitude or 1.0) for d in changed)
            print(
                f"  of the input, they differ by {share:.1e}: {name} computes "
                f"{'/'.join(computed.activations)}, the input "
                f"{'/'.join(checkpoint.activations)}"
            )
        _refuse_others(found, name)


# --- What is printed ---------------------------------------------------------


def _describe(checkpoint: Checkpoint) -> None:
    """Says what was found."""

    def line(what: str, text: str) -> None:
        print(f"  {what:14} {text}")

    for scope, config in checkpoint.encoders.items():
        line(
            "discriminator" if scope == "electra" else scope,
            f"{config.num_hidden_layers} layers, {config.hidden_size} wide "
            f"({config.num_attention_heads} heads, feed-forward "
            f"{config.intermediate_size}), embeddings "
            f"{config.embedding_size} wide, vocabulary {config.vocab_size},"
            f" {config.max_position_embeddings} positions",
        )
    head = checkpoint.head
    if head is not None:
        labels = f", labels {', '.join(head.labels)}" if head.labels else ""
        outputs = f", {head.num_outputs} outputs" if head.num_outputs else ""
        if head.segment is not None:
            outputs += f", segment {head.segment}"
        line("head", f"{head.kind} {head.task_name!r}{outputs}{labels}")
    if checkpoint.optimizer:
        line("optimizer", f"{len(checkpoint.optimizer)} slots")
    if checkpoint.global_step is not None:
        line("step", str(checkpoint.global_step))
    vocab = checkpoint.vocabulary
    if vocab is None:
        line("vocabulary", "none")
    else:
        cases = {None: "case not known", True: "lower-cased", False: "cased"}
        case = cases[vocab.do_lower_case]
        line("vocabulary", f"{len(vocab.tokens)} tokens, {case}")
    if checkpoint.assumed:
        first = checkpoint.discriminator or checkpoint.generator
        assumed = [f"{n}={getattr(first, n)}" for n in checkpoint.assumed]
        line("assumed", ", ".join(assumed))


def _print_parity(
    side: str, name: str, differences: Sequence[verify.Difference]
) -> None:
    print(f"  parity of the {side} with {name} itself, on random inputs:")
    print(f"    {'output':26} {'largest difference':>18} {'of':>10} share")
    for d in differences:
        share = d.largest / d.magnitude if d.magnitude else 0.0
        print(
            f"    {d.output:26} {d.largest:18.2e} {d.magnitude:10.2e} "
            f"{share:.1e}"
        )


def _report(
    asked: Conversion,
    source: Checkpoint,
    checkpoint: Checkpoint,
    writer: types.ModuleType,
    kept: set[str],
    lost: list[str],
) -> None:
    """Says what travelled and what did not."""
    everything = set(source.tensors) | set(source.optimizer)
    _names("used", kept, asked.verbose)
    _names("unused", set(source.unused) | everything - kept, asked.verbose)
    expected: set[str] = set()
    if checkpoint.discriminator is not None and checkpoint.head is None:
        expected.update(
            sizes.discriminator_head_shapes(checkpoint.discriminator)
        )
    if checkpoint.generator is not None:
        expected.update(sizes.masked_lm_head_shapes(checkpoint.generator))
    missing = set() if asked.encoder_only else expected - everything
    _names("missing", missing, asked.verbose)
    written = checkpoint.notes
    if hasattr(writer, "notes"):
        written += writer.notes(checkpoint)
    if checkpoint.head is not None:
        written += tuple(checkpoint.head.notes())
    if lost:
        written += (f"the new format cannot hold: {', '.join(lost)}",)
    for note in dict.fromkeys(written):
        print(f"  note: {note}")


def _names(what: str, names: set[str], verbose: bool) -> None:
    """A count, with all names or with the parts that they are in."""
    counted = f"  {what:14} {len(names)} tensors"
    if verbose and names:
        print(f"{counted}:", *sorted(names), sep="\n    ")
    else:
        print(f"{counted}: {summarize(names)}" if names else counted)
