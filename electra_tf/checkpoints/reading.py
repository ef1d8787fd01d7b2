"""Reading a checkpoint of any format: the one way in for everybody else."""

import dataclasses
import importlib
import os
import types
import typing
from collections.abc import Iterable

import keras
import numpy as np

from electra_tf import errors
from electra_tf.checkpoints import hub, sizes, task_heads
from electra_tf.checkpoints.checkpoint import Checkpoint
from electra_tf.checkpoints.formats import FORMATS
from electra_tf.errors import CheckpointError
from electra_tf.model import electra, encoder, task_head
from electra_tf.model.finetuning_model import FinetuningModel
from electra_tf.text import vocabulary

_ARCHIVES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.xz", ".tar.bz2")
TITLES = {name: title for name, (_, title) in FORMATS.items()}


def format_module(name: str) -> types.ModuleType:
    """The module of one of `FORMATS`.

    It has `recognise(path)`, `read(path)` and `write(checkpoint, path)`, the
    path of a folder; both warn of what the other side has not got. Where models
    have a page that says what they are, it has
    `write_card(checkpoint, folder, path, source)`.

    Where another library can run the format, `forward(path, inputs)` takes
    `input_ids`, `input_mask` and `segment_ids` <int32>[B, L] and returns what
    that library computes without dropout, under the names of `verify.forward`.
    It raises ImportError where the library is not installed.
    """
    return importlib.import_module(
        f"electra_tf.checkpoints.formats.{FORMATS[name][0]}"
    )


def recognise(path: str | os.PathLike) -> str:
    """The format of a checkpoint.

    Args:
      path: A directory or file, the prefix of a TensorFlow checkpoint, or a
        handle: see `hub.local_path`.

    Returns:
      One of `FORMATS`.

    Raises:
      CheckpointError: If there is none, or of no format known here.
    """
    path = hub.local_path(path)
    for name in FORMATS:
        if format_module(name).recognise(path):
            return name
    received = f"the file {path}"
    if path.endswith(_ARCHIVES):
        received += ": unpack it, and name the folder"
    elif not os.path.exists(path):
        received = f"{path}, does not exist"
        if hub.is_handle(hub.HANDLE + path):
            received += f" (of the Hugging Face Hub: {hub.HANDLE}{path})"
    elif os.path.isdir(path):
        names = sorted(os.listdir(path))
        listed = ", ".join(names[:5]) or "nothing in it"
        received = f"{path}, a folder with {listed}"
        if several := [n for n in names if n.endswith(".index")]:
            last = os.path.join(path, several[-1].removesuffix(".index"))
            received += (
                f", of which nothing says the last: name one, such as {last}"
            )
    raise CheckpointError(
        "Expected a checkpoint: a model directory of electra_tf, a folder or "
        "prefix of the original's model.ckpt-N, or a directory of Hugging "
        f"Face, KerasHub or the Model Garden. Received: {received}"
    )


def read_checkpoint(
    path: str | os.PathLike,
    vocab_file: str | None = None,
    do_lower_case: bool | None = None,
    strip_accents: bool | None = None,
    **settings,
) -> Checkpoint:
    """Reads a checkpoint of any format, and warns of what is odd in it.

    Args:
      path: See `recognise`.
      vocab_file: A vocabulary in place of the checkpoint's own.
      do_lower_case: Whether text is lower-cased; None for what the vocabulary
        or the checkpoint says, and where neither does, whether the vocabulary
        has no capitals.
      strip_accents: Likewise for accents; they follow lower-casing.
      **settings: What else the format's `read` takes.

    Raises:
      CheckpointError: If it cannot be read, is no ELECTRA, or its vocabulary
        or what is said of its head does not fit the weights.
    """
    path = hub.local_path(path)
    checkpoint = format_module(recognise(path)).read(path, **settings)
    vocab = checkpoint.vocabulary
    if vocab_file:
        given = vocabulary.read(vocab_file)
        if given is None:
            raise CheckpointError(
                f"Expected a vocabulary file. Received: {vocab_file}, which "
                "does not exist"
            )
        vocab = vocabulary.in_place_of(vocab, given, vocab_file)
    vocab = _treated(vocab, path, do_lower_case, strip_accents)
    config = checkpoint.discriminator or checkpoint.generator
    if vocab and config:
        vocab = vocab.padded(config.vocab_size)
    checkpoint = dataclasses.replace(checkpoint, vocabulary=vocab)
    checkpoint.check_vocabulary(vocab_file or path)
    checkpoint.check_head(path)
    if checkpoint.head is not None:
        head = task_heads.with_options_of_task(checkpoint.head)
        checkpoint = dataclasses.replace(checkpoint, head=head)
        if head.kind == "tagging" and head.segment is None:
            errors.warn(
                f"{path}: nothing says in which segment the tagger reads its "
                f"words: taken as {head.segment_of_words()}, as in the original"
            )
    odd = [n for n, t in checkpoint.tensors.items() if not np.isfinite(t).all()]
    if odd:  # No refusal: a run that diverged may be looked at.
        errors.warn(
            f"{path}: {len(odd)} tensors hold NaN or infinity, such as {odd[0]}"
        )
    doubts = ("num_attention_heads", "hidden_act")  # Answers depend on them.
    if names := [n for n in doubts if n in checkpoint.assumed]:
        assumed = ", ".join(f"{n}={getattr(config, n)}" for n in names)
        errors.warn(
            f"{path}: nothing beside the weights says it, so assumed: {assumed}"
            " (a file hparams.json beside a checkpoint of the original says it)"
        )
    return checkpoint


def _treated(
    vocab: vocabulary.Vocabulary | None,
    path: str,
    do_lower_case: bool | None,
    strip_accents: bool | None,
) -> vocabulary.Vocabulary | None:
    """A vocabulary that says how text is treated: what is asked for counts."""
    asked = {"do_lower_case": do_lower_case, "strip_accents": strip_accents}
    asked = {name: value for name, value in asked.items() if value is not None}
    if vocab is None:
        if asked:
            raise CheckpointError(
                f"{path} has no vocabulary for --do-lower-case and "
                "--strip-accents: add --vocab-file"
            )
        return None
    known = vocab.do_lower_case
    if None not in (known, do_lower_case) and known != do_lower_case:
        errors.warn(
            f"{path} says do_lower_case={known}: {do_lower_case} counts"
        )
        # What was said of accents was said with the other.
        vocab = dataclasses.replace(vocab, strip_accents=None)
    elif known and strip_accents not in (None, vocab.strips_accents()):
        errors.warn(
            f"{path} says strip_accents={vocab.strips_accents()}: "
            f"{strip_accents} counts"
        )
    vocab = dataclasses.replace(vocab, **asked)  # type: ignore[arg-type]
    if vocab.do_lower_case is not None:
        return vocab
    lower = vocab.lower_cases()
    errors.warn(
        f"nothing says whether text is lower-cased: taken as {lower}, since "
        f"the vocabulary has {'no ' if lower else ''}capitals (electra-tf "
        "convert --do-lower-case says it)"
    )
    return vocab.settled()


def is_electric(checkpoint: Checkpoint) -> bool:
    """Whether a discriminator adds its generator's verdict.

    Where nothing says it, two towers are Electric's, which came with them.
    """
    has_towers = sizes.has_towers(checkpoint.tensors)
    return has_towers and checkpoint.is_electric is not False


class MaskedLm(typing.NamedTuple):
    """A masked language model: its encoder, and the head on top."""

    encoder: encoder.Encoder
    head: electra.MaskedLmHead


def load_model(
    path: str | os.PathLike,
    kind: str = "",
    checkpoint: Checkpoint | None = None,
) -> typing.Any:
    """The network of a checkpoint of any format, with its weights.

    Args:
      path: See `recognise`.
      kind: "encoding" for an `encoder.Encoder`, "detection" for an
        `electra.Discriminator` that judges tokens, "energies" for Electric's,
        "masked_lm" for a `MaskedLm`, or "" for the most that there is of a
        discriminator: the `FinetuningModel`, or the discriminator, or the
        encoder alone.
      checkpoint: What `read_checkpoint` has read there, if that was done.

    Raises:
      CheckpointError: If it cannot be read, or the network is not in it.
    """
    source = os.fspath(path)
    if checkpoint is None:
        checkpoint = read_checkpoint(path)
    if kind == "masked_lm":
        return _load_masked_lm(checkpoint, source)
    config, head = checkpoint.required_sizes(source), checkpoint.head
    has_detector = (
        "discriminator_predictions/dense/kernel" in checkpoint.tensors
    )
    network: typing.Any
    if kind == "":
        checkpoint.refuse_other_head(source)
    if kind == "detection" and is_electric(checkpoint):
        raise CheckpointError(
            "Expected a discriminator that judges tokens by itself. Received: "
            f"{source}, Electric, which adds its generator's verdict"
        )
    if head is not None and kind == "":
        network = FinetuningModel(config, [task_head.make_head(head, config)])
    elif has_detector and kind != "encoding":
        network = electra.Discriminator(config)
    elif kind in ("", "encoding"):
        network = encoder.Encoder(config, "electra")
        network.build()
    else:
        held = "with an encoder, but without such a head"
        if head is not None:
            held = f"fine-tuned for {head.kind}"
        raise CheckpointError(
            "Expected a pre-trained checkpoint with the discriminator's head, "
            f"which tells replaced tokens. Received: {source}, {held}"
        )
    variables = getattr(network, "keras_variables", network.variables)
    assign_all(checkpoint, variables, source, "the model")
    return network


def _load_masked_lm(checkpoint: Checkpoint, source: str) -> MaskedLm:
    scope = sizes.masked_lm_encoder(checkpoint.tensors)
    if scope is None or scope not in checkpoint.encoders:
        raise CheckpointError(
            f"Expected a masked language model. Received: {source}, without one"
        )
    config = checkpoint.encoders[scope]
    network = encoder.Encoder(config, scope)
    network.build()
    head = electra.MaskedLmHead(
        config, network.embeddings, config.hidden_size, "generator_predictions"
    )
    head.build()
    # Tables that a generator shares are the discriminator's.
    tensors = sizes.with_own_tables(checkpoint.tensors)
    assign_all(
        dataclasses.replace(checkpoint, tensors=tensors),
        [*network.variables, *head.variables],
        source,
        "the masked language model",
    )
    return MaskedLm(network, head)


def assign(
    checkpoint: Checkpoint, variables: Iterable[keras.Variable], source: str
) -> dict[str, list[str]]:
    """Assigns a checkpoint's weights to variables of the same names.

    Nothing is assigned unless everything that has a name in common fits.

    Returns:
      "used" -> the variables that were loaded, "unused" -> tensors without a
      variable, such as optimizer slots, "missing" -> variables without a
      tensor, which keep their values; sorted.

    Raises:
      CheckpointError: If the shape of a tensor is not that of its variable.
    """
    by_name = {variable.path: variable for variable in variables}
    tensors = checkpoint.tensors
    used = sorted(by_name.keys() & tensors.keys())
    for name in used:
        expected, received = tuple(by_name[name].shape), tensors[name].shape
        if expected != tuple(received):
            raise CheckpointError(
                f"{source}: {name} must have the shape {list(expected)}. "
                f"Received: {list(received)}. Is the checkpoint of another "
                "model size or vocabulary?"
            )
    for name in used:
        by_name[name].assign(np.asarray(tensors[name]))
    unused, missing = tensors.keys() - by_name, by_name.keys() - tensors
    return {"used": used, "unused": sorted(unused), "missing": sorted(missing)}


def assign_all(
    checkpoint: Checkpoint,
    variables: Iterable[keras.Variable],
    source: str,
    what: str,
) -> None:
    """Like `assign`, for variables all of which must be in the checkpoint.

    Raises:
      CheckpointError: If one of `what` is missing or does not fit.
    """
    variables = list(variables)
    missing = {v.path for v in variables} - set(checkpoint.tensors)
    if missing:
        raise CheckpointError(
            f"Expected all weights of {what} in {source}. Received: a "
            f"checkpoint without {len(missing)} of them, such as {min(missing)}"
        )
    assign(checkpoint, variables, source)
