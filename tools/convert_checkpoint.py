"""Converts a checkpoint of ELECTRA from one format to another.

    python tools/convert_checkpoint.py --input=models/electra_small \\
        --output=models/electra_small_hf --output-format=huggingface

The format of --input is recognised: a folder or prefix of the original's
model.ckpt-N, a Hugging Face directory (or a folder with `generator` and
`discriminator`), a KerasHub preset, a checkpoint of the Model Garden, a model
directory of electra_tf. Sizes are read from the tensors.

Generator, discriminator, heads, optimizer slots, step and vocabulary travel as
far as the output's format can hold them; the command says what stays behind,
and docs/checkpoints.md has the table.

The output is read again and compared bit by bit, and where the other format's
library is installed, both sides compute the same random inputs. A mismatch, or
any other error, leaves no output.
"""

import argparse
import dataclasses
import gc
import os
import shutil
import sys
import typing

from electra_tf.command_line import arguments

OUTPUT_FORMATS = (
    "original",
    "huggingface",
    "kerashub",
    "electra_tf",
    "model_garden",
)


def main(argv=None) -> int:
    """Parses the flags and converts; returns the exit code."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    return arguments.run(_convert, make_parser(), argv)


def make_parser() -> arguments.ArgumentParser:
    """The command's flags."""
    parser = arguments.ArgumentParser(
        prog="convert_checkpoint", description=__doc__
    )
    parser.add_argument(
        "--input", required=True, help="the checkpoint, of any format"
    )
    parser.add_argument(
        "--output", required=True, help="a folder that is new or empty"
    )
    parser.add_argument(
        "--output-format", required=True, choices=OUTPUT_FORMATS
    )
    parser.add_argument(
        "--vocab-file",
        help="the vocabulary, one token a line, where the input carries none",
    )
    parser.add_argument(
        "--do-lower-case",
        type=_boolean,
        metavar="true|false",
        help="whether text is lower-cased, where the input does not say",
    )
    parser.add_argument(
        "--strip-accents",
        type=_boolean,
        metavar="true|false",
        help="whether accents are dropped (default: with lower-casing)",
    )
    parser.add_argument(
        "--hparams",
        metavar="FILE",
        help="what the original's --hparams was, for a checkpoint of the "
        "original without a file hparams.json beside it: needed where "
        "attention heads are not 64 wide, as no tensor tells their number",
    )
    parser.add_argument(
        "--encoder-only",
        action="store_true",
        help="leave everything behind but the discriminator's encoder",
    )
    parser.add_argument(
        "--verify",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="compare the output with the input (default)",
    )
    parser.add_argument(
        "--verbose", action="store_true", help="name every variable"
    )
    return parser


def _boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise argparse.ArgumentTypeError(
            f"expected true or false, received {text!r}"
        )
    return text.lower() == "true"


def _convert(args: argparse.Namespace) -> None:
    output = os.path.normpath(args.output)
    _refuse_used(output)
    from absl import logging

    logging.set_verbosity(logging.ERROR)
    # Imports TensorFlow: late, so that --help and mistakes are quick.
    from electra_tf.checkpoints import reading

    input_format = reading.recognise(args.input)
    writer = reading.format_module(args.output_format)
    source = _read(args, input_format)
    checkpoint = _complete(source, args)
    print(f"{args.input}: {reading.TITLES[input_format]}")
    _describe(checkpoint)
    temporary = f"{output}.tmp{os.getpid()}"
    try:
        os.makedirs(temporary)
        writer.write(checkpoint, temporary)
        kept = None
        if args.verify:
            kept = _verify(args, checkpoint, input_format, temporary)
        _report(args, source, checkpoint, writer, kept)
        os.replace(temporary, output)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    print(f"wrote {output}: {reading.TITLES[args.output_format]}")


def _read(args: argparse.Namespace, input_format: str):
    """Reads the input, with the settings of --hparams if there are any."""
    from electra_tf.checkpoints import reading
    from electra_tf.files import read_json

    if not args.hparams:
        return reading.read_checkpoint(args.input)
    if input_format != "original":
        raise ValueError(
            "--hparams is for checkpoints of the original. Received: "
            f"{args.input}, {reading.TITLES[input_format]}"
        )
    checkpoint = reading.format_module(input_format).read(
        args.input, read_json(args.hparams)
    )
    checkpoint.check_vocabulary(args.input)
    return checkpoint


def _refuse_used(output: str) -> None:
    """An output that exists is never touched."""
    if os.path.isdir(output) and not os.listdir(output):
        return
    if os.path.lexists(output):
        what = (
            f"a folder with {len(os.listdir(output))} entries"
            if os.path.isdir(output)
            else "a file"
        )
        raise ValueError(
            "--output must be a new or empty folder. Received: "
            f"{output}, {what}"
        )


def _complete(checkpoint, args):
    """The checkpoint with what the flags add and leave out."""
    from electra_tf.text import vocabulary

    if args.vocab_file:
        found = vocabulary.read(args.vocab_file)
        if found is None:
            raise ValueError(f"--vocab-file: {args.vocab_file} does not exist")
        if found.do_lower_case is None and checkpoint.vocabulary is not None:
            found = dataclasses.replace(
                checkpoint.vocabulary, tokens=found.tokens
            )
        checkpoint = dataclasses.replace(checkpoint, vocabulary=found)
        checkpoint.check_vocabulary(args.vocab_file)
    flags = {
        name: getattr(args, name)
        for name in ("do_lower_case", "strip_accents")
        if getattr(args, name) is not None
    }
    if flags and checkpoint.vocabulary is None:
        raise ValueError(
            f"{args.input} has no vocabulary for --do-lower-case and "
            "--strip-accents: add --vocab-file"
        )
    if flags:
        checkpoint = dataclasses.replace(
            checkpoint,
            vocabulary=dataclasses.replace(checkpoint.vocabulary, **flags),
        )
    return checkpoint.encoder_only() if args.encoder_only else checkpoint


def _describe(checkpoint) -> None:
    """Says what was found."""

    def line(what: str, text: str) -> None:
        print(f"  {what:14} {text}")

    for name, config in (
        ("discriminator", checkpoint.discriminator),
        ("generator", checkpoint.generator),
    ):
        if config is not None:
            line(
                name,
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
        line("head", f"{head.kind} {head.task_name!r}{outputs}{labels}")
    if checkpoint.optimizer:
        line("optimizer", f"{len(checkpoint.optimizer)} slots")
    if checkpoint.global_step is not None:
        line("step", str(checkpoint.global_step))
    vocabulary = checkpoint.vocabulary
    if vocabulary is None:
        line("vocabulary", "none")
    else:
        case = {None: "case not known", True: "lower-cased", False: "cased"}[
            vocabulary.do_lower_case
        ]
        line("vocabulary", f"{len(vocabulary.tokens)} tokens, {case}")
    if checkpoint.assumed:
        config = checkpoint.discriminator or checkpoint.generator
        assumed = [f"{n}={getattr(config, n)}" for n in checkpoint.assumed]
        line("assumed", ", ".join(assumed))


def _verify(args, checkpoint, input_format: str, temporary: str) -> set[str]:
    """Compares the output with the input; returns the names that it holds.

    Raises:
      CheckpointError: If they differ.
    """
    from electra_tf import errors
    from electra_tf.checkpoints import reading, sizes, verify

    read_again = reading.read_checkpoint(temporary)
    unequal, absent = verify.unequal_tensors(checkpoint, read_again)
    for ours, theirs in (
        (checkpoint.discriminator, read_again.discriminator),
        (checkpoint.generator, read_again.generator),
    ):
        if ours is not None and theirs is not None:
            unequal += [n for n, *_ in sizes.differences(ours, theirs)]
    if unequal:
        raise errors.CheckpointError(
            f"The output does not hold what was read: {len(unequal)} tensors "
            f"differ, such as {unequal[0]}; no output was left"
        )
    names = set(read_again.tensors) | set(read_again.optimizer)
    # What the output's format computes: it may have one GELU only.
    as_written = verify.with_activation_of(checkpoint, read_again)
    del read_again
    # Models are garbage in cycles, and each is as large as the checkpoint.
    gc.collect()
    kept = (set(checkpoint.tensors) | set(checkpoint.optimizer)) - set(absent)
    assert kept <= names
    print(f"  read again     {len(kept)} tensors are equal bit by bit")
    config = checkpoint.discriminator or checkpoint.generator
    if config is None:
        return kept
    inputs = verify.random_inputs(config)
    of_input = None
    for path, name, computed in (
        (args.input, input_format, checkpoint),
        (temporary, args.output_format, as_written),
    ):
        module = reading.format_module(name)
        if not hasattr(module, "forward"):
            continue
        try:
            theirs_outputs = module.forward(path, inputs)
        except ImportError as error:
            print(
                f"  not compared   {reading.TITLES[name]}: the package "
                f"{error.name} is not installed"
            )
            continue
        gc.collect()
        if of_input is None:
            of_input = verify.forward(checkpoint, inputs)
            gc.collect()
        ours_outputs = of_input
        if computed.activations != checkpoint.activations:
            ours_outputs = verify.forward(computed, inputs)
            gc.collect()
        found = verify.compare(
            ours_outputs, theirs_outputs, inputs["input_mask"]
        )
        _print_parity("input" if path == args.input else "output", name, found)
        if computed.activations != checkpoint.activations:
            _print_change(
                name,
                computed,
                checkpoint,
                verify.compare(of_input, theirs_outputs, inputs["input_mask"]),
            )
        wrong = [d for d in found if not d.fits]
        if wrong:
            raise errors.CheckpointError(
                f"{wrong[0].output} of electra_tf and of {name} differ by "
                f"{wrong[0].largest:.2e} of {wrong[0].magnitude:.2e}, more "
                f"than {verify.TOLERANCE:.0e}; no output was left"
            )
    return kept


def _print_parity(side: str, name: str, differences) -> None:
    print(f"  parity of the {side} with {name} itself, on random inputs:")
    print(f"    {'output':26} {'largest difference':>18} {'of':>10} share")
    for d in differences:
        share = d.largest / d.magnitude if d.magnitude else 0.0
        print(
            f"    {d.output:26} {d.largest:18.2e} {d.magnitude:10.2e} "
            f"{share:.1e}"
        )


def _print_change(name: str, computed, checkpoint, differences) -> None:
    """Says what another activation makes of the outputs."""
    share = max(d.largest / (d.magnitude or 1.0) for d in differences)
    print(
        f"  of the input, they differ by {share:.1e}: {name} computes "
        f"{'/'.join(computed.activations)}, the input "
        f"{'/'.join(checkpoint.activations)}"
    )


def _report(args, source, checkpoint, writer, kept: set[str] | None) -> None:
    """Says what travelled and what did not."""
    from electra_tf.checkpoints import sizes

    everything = set(source.tensors) | set(source.optimizer)
    if kept is not None:
        _names("used", kept, args.verbose)
        unused = (everything - kept) | set(source.unused)
    else:
        unused = set(source.unused)
    _names("unused", unused, args.verbose)
    expected: dict[str, typing.Any] = {}
    if checkpoint.discriminator is not None and checkpoint.head is None:
        expected |= sizes.discriminator_head_shapes(checkpoint.discriminator)
    if checkpoint.generator is not None:
        expected |= sizes.masked_lm_head_shapes(checkpoint.generator)
    missing = set() if args.encoder_only else set(expected) - everything
    _names("missing", missing, args.verbose)
    written = checkpoint.notes + getattr(writer, "notes", lambda _: ())(
        checkpoint
    )
    for note in dict.fromkeys(written):
        print(f"  note: {note}")


def _names(what: str, names: set[str], verbose: bool) -> None:
    """A count, with all names or with the parts that they are in."""
    from electra_tf.checkpoints.checkpoint import summarize

    if not names:
        print(f"  {what:14} 0 tensors")
        return
    if verbose:
        print(f"  {what:14} {len(names)} tensors:")
        for name in sorted(names):
            print(f"    {name}")
        return
    print(f"  {what:14} {len(names)} tensors: {summarize(names)}")


if __name__ == "__main__":
    sys.exit(main())
