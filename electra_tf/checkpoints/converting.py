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
from collections.abc import Iterator

from electra_tf import errors, files
from electra_tf.checkpoints import hub, reading, sizes, tensor_files, verify
from electra_tf.checkpoints.checkpoint import Checkpoint, summarize


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
    settings = {}
    if asked.hparams:
        if input_format != "original":
            raise ValueError(
                "--hparams is for checkpoints of the original. Received: "
                f"{asked.input}, {title}"
            )
        settings["hparams"] = files.read_json(asked.hparams)
    source = reading.read_checkpoint(
        asked.input,
        asked.vocab_file,
        asked.do_lower_case,
        asked.strip_accents,
        **settings,
    )
    if asked.encoder_only:
        checkpoint = source.encoder_only()
    else:
        source.refuse_other_head(asked.input)
        checkpoint = source
    print(f"{asked.input}: {title}")
    _describe(checkpoint)
    with whole_folder(asked.output) as temporary:
        with tensor_files.writing(asked.output):
            os.makedirs(temporary)
            writer.write(checkpoint, temporary)
        with warnings.catch_warnings(action="ignore", category=errors.Notice):
            read_again = reading.read_checkpoint(temporary)
        lost = verify.lost_settings(checkpoint, read_again)
        kept = _kept(checkpoint, read_again, asked.verify)
        if asked.verify:
            _compare("input", path, input_format, checkpoint)
            _compare("output", temporary, asked.output_format, read_again)
        if hasattr(writer, "write_card"):
            writer.write_card(checkpoint, temporary, asked.output, title)
        rest = {*source.tensors, *source.optimizer, *source.unused} - kept
        for row, names in (("used", kept), ("unused", rest)):
            listed = f": {summarize(names)}" if names else ""
            print(f"  {row:14} {len(names)} tensors{listed}")
    if lost:
        errors.warn(f"the new format cannot hold: {', '.join(lost)}")
    print(f"wrote {asked.output}: {reading.TITLES[asked.output_format]}")


@contextlib.contextmanager
def whole_folder(path: str) -> Iterator[str]:
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


def _kept(
    checkpoint: Checkpoint, read_again: Checkpoint, verified: bool
) -> set[str]:
    """The names of what was written that the output holds, bit by bit."""
    unequal, absent = verify.unequal_tensors(checkpoint, read_again)
    kept = {*checkpoint.tensors, *checkpoint.optimizer} - set(absent)
    if not verified:
        return kept
    for scope, config in checkpoint.encoders.items():
        here = sizes.as_dict(config)
        there = sizes.as_dict(read_again.encoders.get(scope, config))
        unequal += [name for name in here if here[name] != there[name]]
    if unequal:
        raise errors.CheckpointError(
            f"The output does not hold what was read: {len(unequal)} tensors "
            f"differ, such as {unequal[0]}; no output was left"
        )
    print(f"  read again     {len(kept)} tensors are equal bit by bit")
    return kept


def _compare(side: str, path: str, name: str, computed: Checkpoint) -> None:
    """Compares with what a format's own library computes on random inputs."""
    config = computed.discriminator or computed.generator
    module = reading.format_module(name)
    if config is None or not hasattr(module, "forward"):
        return
    inputs = verify.random_inputs(config, computed.head)
    try:
        expected = module.forward(path, inputs)
    except ImportError as error:
        print(
            f"  not compared   {reading.TITLES[name]}: the package "
            f"{error.name} is not installed"
        )
        return
    # Models are garbage in cycles, and each is as large as the checkpoint.
    gc.collect()
    outputs = verify.forward(computed, inputs)
    gc.collect()
    differences = verify.compare(outputs, expected, inputs["input_mask"])
    print(f"  parity of the {side} with {name} itself, on random inputs:")
    print(f"    {'output':26} {'largest difference':>18} {'of':>10} share")
    for d in differences:
        print(
            f"    {d.output:26} {d.largest:18.2e} {d.magnitude:10.2e} "
            f"{d.share:.1e}"
        )
    for d in differences:
        if not d.fits:
            raise errors.CheckpointError(
                f"{d.output} of electra_tf and of {name} itself differ by "
                f"{d.largest:.2e} of {d.magnitude:.2e}, more than "
                f"{verify.TOLERANCE:.0e}; no output was left"
            )


def _describe(checkpoint: Checkpoint) -> None:
    rows = {}
    for scope, config in checkpoint.encoders.items():
        rows["discriminator" if scope == "electra" else scope] = (
            f"{config.num_hidden_layers} layers, {config.hidden_size} wide "
            f"({config.num_attention_heads} heads, feed-forward "
            f"{config.intermediate_size}), embeddings "
            f"{config.embedding_size} wide, vocabulary {config.vocab_size},"
            f" {config.max_position_embeddings} positions"
        )
    head, vocab = checkpoint.head, checkpoint.vocabulary
    if head is not None:
        tags = ", ".join(dict.fromkeys(head.tags or ()))
        rows["head"] = f"{head.kind} {head.task_name!r}, {head.num_outputs} "
        rows["head"] += f"outputs, labels {tags}" if tags else "outputs"
    if checkpoint.optimizer:
        rows["optimizer"] = f"{len(checkpoint.optimizer)} slots"
    if checkpoint.global_step is not None:
        rows["step"] = str(checkpoint.global_step)
    rows["vocabulary"] = "none"
    if vocab is not None:
        case = "lower-cased" if vocab.lower_cases() else "cased"
        rows["vocabulary"] = f"{len(vocab.tokens)} tokens, {case}"
    for name, text in rows.items():
        print(f"  {name:14} {text}")
