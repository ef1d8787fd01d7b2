"""Sizes of the networks, read from their tensors.

All formats are read into tensors with the original's names, so one place knows
what the shapes say. Two networks may be in a checkpoint: the discriminator in
the scope "electra" and the generator in the scope "generator", or the two
towers of Electric's generator. A generator without embedding tables of its own
shares the discriminator's.

Throughout, `tensors` are name -> weights, with the original's names, and
`source` is the path of a checkpoint, for error messages.
"""

import dataclasses
import re
import typing
from collections.abc import Iterable, Mapping

import numpy as np

from electra_tf import configs, errors, validation
from electra_tf.checkpoints.checkpoint import Checkpoint
from electra_tf.command_line import original_settings
from electra_tf.errors import CheckpointError

# Name of a variable -> its shape.
Shapes = dict[str, tuple[int, ...]]

# What no shape tells.
NOT_IN_TENSORS = original_settings.NOT_IN_TENSORS

# Size of an encoder -> the field of `configs.ElectraConfig` that is the
# generator's share of it.
SHARES = {
    "hidden_size": "generator_hidden_size",
    "num_hidden_layers": "generator_layers",
}

# Of Electric's generator.
TOWERS = ("generator_ltr", "generator_rtl")

# Of an ELECTRA, and of the original's generators if there is room for it.
HEAD_WIDTH = 64

# Its shape says how wide a network is.
_FIRST_KERNEL = "encoder/layer_0/intermediate/dense/kernel"

# First parts of the names that an ELECTRA has.
SCOPES = (
    "electra",
    "generator",
    *TOWERS,
    "generator_predictions",
    "cloze_predictions",
    "discriminator_predictions",
    "task_specific",
)

# Embedding table -> size that is the number of its rows.
_TABLES = {
    "word": "vocab_size",
    "token_type": "type_vocab_size",
    "position": "max_position_embeddings",
}


def read_sizes(
    tensors: dict[str, np.ndarray],
    source: str,
    known: Mapping[str, Mapping],
) -> Checkpoint:
    """Reads the sizes, and checks that the networks are whole.

    Args:
      tensors: Of all its networks.
      source: Of these.
      known: Scope -> fields of `configs.EncoderConfig`, as far as something
        beside the tensors says them.

    Raises:
      CheckpointError: If there is no ELECTRA, or a tensor of one is missing
        or has a shape that does not fit, or is not what is said.
    """
    refuse_other_architecture(tensors, source)
    encoders: dict[str, configs.EncoderConfig] = {}
    assumed: set[str] = set()
    for scope in ("electra", "generator"):
        if f"{scope}/{_FIRST_KERNEL}" in tensors:
            settings = known.get(scope, {})
            unsaid = set(NOT_IN_TENSORS) - set(settings)
            if scope == "generator":  # See `encoder_config`.
                unsaid.discard("num_attention_heads")
            assumed |= unsaid
            encoders[scope] = encoder_config(tensors, scope, source, settings)
    tower_config(tensors, source)
    if not encoders and not any(n.startswith("generator_") for n in tensors):
        raise CheckpointError(
            f"Expected an ELECTRA in {source}. Received: tensors of none, such "
            f"as {min(tensors)}"
        )
    return Checkpoint(
        tensors,
        encoders.get("electra"),
        encoders.get("generator"),
        assumed=tuple(n for n in NOT_IN_TENSORS if n in assumed),
    )


def not_in_tensors(config: configs.EncoderConfig) -> dict:
    """The settings of an encoder that no shape tells."""
    return {name: getattr(config, name) for name in NOT_IN_TENSORS}


def usual_heads(hidden_size: int) -> int:
    """How many heads an ELECTRA has if nothing says otherwise; at least 1."""
    return max(1, hidden_size // HEAD_WIDTH)


def refuse_other_architecture(names: Iterable[str], source: str) -> None:
    """Refuses a checkpoint of BERT and the like, by its tensors' names."""
    scopes = sorted({re.split("[/.]", name)[0] for name in names})
    if not any(scope in SCOPES for scope in scopes):
        raise CheckpointError(
            f"Expected an ELECTRA in {source}. Received: tensors in the scopes "
            f"{', '.join(scopes[:4]) or 'none'}"
        )


def encoder_config(
    tensors: Mapping[str, np.ndarray],
    scope: str,
    source: str,
    settings: Mapping | None = None,
) -> configs.EncoderConfig:
    """Reads the sizes of one encoder and checks all its tensors.

    What no shape tells and `settings` do not say has its defaults. A
    generator's heads are then the usual ones, as in the original.
    """
    said = settings or {}
    settings = {name: said[name] for name in NOT_IN_TENSORS if name in said}
    own = has_tables(tensors, scope)
    tables = f"{scope if own else 'electra'}/embeddings"
    names = [f"{tables}/{kind}_embeddings" for kind in _TABLES]
    shapes = []
    for name in (*names, f"{scope}/{_FIRST_KERNEL}"):
        if name not in tensors or tensors[name].ndim != 2:
            raise CheckpointError(f"{source} lacks the tensor {name}, a matrix")
        shapes.append(tensors[name].shape)
    *rows, (hidden_size, intermediate_size) = shapes
    layer = re.compile(rf"{scope}/encoder/layer_([^/]+)/")
    layers = {m.group(1) for name in tensors if (m := layer.match(name))}
    # Not the greatest number: a damaged name may have any.
    gaps = layers - {str(i) for i in range(len(layers))}
    if gaps:
        raise CheckpointError(
            f"{source}: expected the layers 0 to {len(layers) - 1} in the "
            f"scope {scope!r}, as there are {len(layers)}. Received: one with "
            f"the number {min(gaps)[:40]}"
        )
    is_known = "num_attention_heads" in settings or scope != "electra"
    is_usual = hidden_size % HEAD_WIDTH == 0
    settings.setdefault(
        "num_attention_heads",
        usual_heads(hidden_size) if is_known or is_usual else 1,
    )
    try:
        config = configs.EncoderConfig(
            vocab_size=rows[0][0],
            type_vocab_size=rows[1][0],
            max_position_embeddings=rows[2][0],
            embedding_size=rows[0][1],
            hidden_size=hidden_size,
            num_hidden_layers=len(layers),
            intermediate_size=intermediate_size,
            **settings,
        )
    except errors.ConfigError as error:
        line = errors.first_line(error)
        raise CheckpointError(f"{source}, scope {scope!r}: {line}") from None
    for name, value in said.items():
        if (known := getattr(config, name)) != value:
            raise CheckpointError(
                f"The settings of {source} say {name}={value!r}, but its "
                f"tensors have {name}={known!r}"
            )
    check_shapes(tensors, encoder_shapes(config, scope, own), source)
    if not is_known and not is_usual:
        raise CheckpointError(
            f"{source}: nothing says the num_attention_heads of the scope "
            f"{scope!r}, and ELECTRA's, {HEAD_WIDTH} wide, do not divide its "
            f"hidden_size. Received: hidden_size={hidden_size}; write "
            '{"num_attention_heads": ...} to hparams.json beside the '
            "checkpoint (--hparams of electra-tf convert)"
        )
    return config


def tower_config(
    tensors: Mapping[str, np.ndarray], source: str
) -> configs.EncoderConfig | None:
    """The sizes of each of Electric's towers, heads 64 wide; None for none."""
    if not has_towers(tensors):
        return None
    left, right = (encoder_config(tensors, scope, source) for scope in TOWERS)
    if left != right or len({has_tables(tensors, s) for s in TOWERS}) > 1:
        raise CheckpointError(
            f"{source}: the towers {' and '.join(TOWERS)} must be of one size, "
            "with tables of their own or without. Received: two that differ"
        )
    if any(name.startswith("cloze_predictions/") for name in tensors):
        head = masked_lm_head_shapes(left, "cloze_predictions", 2)
        check_shapes(tensors, head, source)
    return left


def has_towers(tensors: Iterable[str]) -> bool:
    """Whether the generator is Electric's."""
    return any(name.split("/")[0] in TOWERS for name in tensors)


def has_tables(tensors: Mapping[str, np.ndarray], scope: str) -> bool:
    """Whether the encoder of a scope has embedding tables of its own."""
    return any(name.startswith(f"{scope}/embeddings/") for name in tensors)


def with_own_tables(
    tensors: Mapping[str, np.ndarray],
) -> dict[str, np.ndarray]:
    """Tensors with tables for the generator: its own, or those it shares."""
    shared = {
        name.replace("electra/", "generator/", 1): tensor
        for name, tensor in tensors.items()
        if name.startswith("electra/embeddings/")
    }
    return shared | dict(tensors)


def check_shapes(
    tensors: Mapping[str, np.ndarray],
    expected: Shapes,
    source: str,
) -> None:
    """Refuses tensors of which one is missing or has another shape."""
    missing = [name for name in expected if name not in tensors]
    if missing:
        raise CheckpointError(
            f"{source} lacks {len(missing)} tensor(s), such as {missing[0]}"
        )
    for name, shape in expected.items():
        if (received := tuple(tensors[name].shape)) != tuple(shape):
            raise CheckpointError(
                f"{source}: {name} must have the shape {list(shape)}. "
                f"Received: {list(received)}"
            )


def encoder_shapes(
    config: configs.EncoderConfig, scope: str, own_embeddings: bool = True
) -> Shapes:
    """Name -> shape of an encoder's variables, in a scope such as "electra"."""
    width = typing.cast(int, config.embedding_size)
    hidden, wide = config.hidden_size, config.intermediate_size
    shapes: Shapes = {}
    if own_embeddings:
        for table, size in _TABLES.items():
            rows = getattr(config, size)
            shapes[f"embeddings/{table}_embeddings"] = (rows, width)
        shapes |= _layer_norm("embeddings", width)
    if width != hidden:
        shapes |= _dense("embeddings_project", width, hidden)
    for index in range(config.num_hidden_layers):
        layer = f"encoder/layer_{index}"
        for name in ("query", "key", "value"):
            shapes |= _dense(f"{layer}/attention/self/{name}", hidden, hidden)
        shapes |= _dense(f"{layer}/attention/output/dense", hidden, hidden)
        shapes |= _layer_norm(f"{layer}/attention/output", hidden)
        shapes |= _dense(f"{layer}/intermediate/dense", hidden, wide)
        shapes |= _dense(f"{layer}/output/dense", wide, hidden)
        shapes |= _layer_norm(f"{layer}/output", hidden)
    return {f"{scope}/{name}": shape for name, shape in shapes.items()}


def any_sizes(num_layers: int, project: bool = True) -> configs.EncoderConfig:
    """Sizes of no model, to list the names of every one with so many layers."""
    return configs.EncoderConfig(
        vocab_size=1,
        hidden_size=2,
        num_hidden_layers=num_layers,
        num_attention_heads=1,
        intermediate_size=1,
        embedding_size=1 if project else 2,
    )


def masked_lm_head_shapes(
    config: configs.EncoderConfig,
    name: str = "generator_predictions",
    num_towers: int = 1,
) -> Shapes:
    """Names and shapes of a softmax head, above one encoder or two towers.

    Electric's head, above two, is called "cloze_predictions".
    """
    width = typing.cast(int, config.embedding_size)
    shapes = _dense(f"{name}/dense", num_towers * config.hidden_size, width)
    shapes |= _layer_norm(name, width)
    return shapes | {f"{name}/output_bias": (config.vocab_size,)}


def discriminator_head_shapes(config: configs.EncoderConfig) -> Shapes:
    """Names and shapes of the discriminator's head, above an encoder."""
    width = config.hidden_size
    return _dense("discriminator_predictions/dense", width, width) | _dense(
        "discriminator_predictions/dense_1", width, 1
    )


def masked_lm_encoder(tensors: Mapping[str, np.ndarray]) -> str | None:
    """The scope of the encoder below the masked language model's head, if any.

    It is "generator", or "electra" for a masked language model and for a
    generator that shares all weights.
    """
    if "generator_predictions/dense/kernel" not in tensors:
        return None
    scopes = {name.split("/")[0] for name in tensors}
    return "generator" if "generator" in scopes else "electra"


def as_dict(config: configs.EncoderConfig) -> dict[str, typing.Any]:
    """Name -> value of an encoder's sizes; dropout and the like are none."""
    skipped = set(NOT_IN_TENSORS) - {"num_attention_heads"}
    fields = dataclasses.asdict(config).items()
    return {name: value for name, value in fields if name not in skipped}


def require_same(
    model: configs.ElectraConfig, checkpoint: Checkpoint, source: str
) -> None:
    """Refuses a checkpoint for a model of other sizes, generator included.

    Raises:
      ConfigError: If they differ; it names the generator's shares that give
        the sizes there.
      CheckpointError: If towers of the checkpoint are not whole.
    """
    may_differ = []
    if "num_attention_heads" in checkpoint.assumed:
        may_differ = [
            f"{x}.num_attention_heads" for x in ("EncoderConfig", "generator")
        ]
    here: dict[str, typing.Any] = {}
    there: dict[str, typing.Any] = {}
    way_out = "The model must have those of the checkpoint"
    whole = checkpoint.discriminator
    if whole is not None:
        here["EncoderConfig"] = as_dict(model.encoder)
        there["EncoderConfig"] = as_dict(whole)
    generator, scope = checkpoint.generator, "generator"
    if model.two_tower_generator:
        generator, scope = tower_config(checkpoint.tensors, source), TOWERS[0]
        # Of two towers the shapes alone are known.
        may_differ.append("generator.num_attention_heads")
    if model.untied_generator and generator is not None:
        here["generator"] = as_dict(model.generator)
        there["generator"] = as_dict(generator)
        if whole is not None:  # As in the original, one for both networks.
            here["generator"]["hidden_act"] = whole.hidden_act
            there["generator"]["hidden_act"] = generator.hidden_act
        for size, name in SHARES.items():
            part = getattr(generator, size)
            if part != getattr(model.generator, size):
                part = share(part, getattr(whole or model.encoder, size))
                way_out += f", ElectraConfig.{name}={part}"
        own = model.untied_generator_embeddings or model.disentangled_embeddings
        if has_tables(checkpoint.tensors, scope) and not own:
            here["ElectraConfig.untied_generator_embeddings"] = False
            there["ElectraConfig.untied_generator_embeddings"] = True
    validation.require_same(
        here, there, f"{source} has other sizes", may_differ, way_out
    )


def share(part: int, whole: int) -> float:
    """A share of which `configs.share_of`, as the original, makes the part.

    Four digits do for wholes of up to 5000, such as 0.3333 for 256 of 768.
    """
    shares = (round(part / whole, digits) for digits in range(4, 17))
    fitting = (s for s in shares if configs.share_of(whole, s) == part)
    return next(fitting, part / whole)


def _dense(name, inputs, outputs) -> Shapes:
    return {f"{name}/kernel": (inputs, outputs), f"{name}/bias": (outputs,)}


def _layer_norm(name, width) -> Shapes:
    return {
        f"{name}/LayerNorm/beta": (width,),
        f"{name}/LayerNorm/gamma": (width,),
    }
