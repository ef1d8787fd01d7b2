"""Compares the pre-training model and its training with golden cases.

A case is a folder of pretrain/ with a config.json. Its model starts from the
recorded checkpoint and is fed the recorded draws (masked positions, which of
them become [MASK], Gumbel noise), so everything is determined.

Key biases have gradients that are zero but for rounding: a softmax does not
change when all its logits move together. Adam divides that rounding by its own
size, so after some updates these biases differ most between faithful
implementations. The tolerance from the case's own sensitivity covers them.

Two ways of training are recorded. They differ in the norm that clips the
gradients where an embedding table is only looked up in: `training_onehot` has
the true norm, which is the default here, and `training` has the norm of the
rows before equal ones are added, which is
the optimizer's clip_norm_of_unmerged_rows.
"""

import contextlib
import dataclasses
import functools
import pathlib
import re
from collections.abc import Iterator

import numpy as np
import tensorflow as tf

from electra_tf import configs, validation
from electra_tf.checkpoints.checkpoint import LoadReport
from electra_tf.checkpoints.formats import original
from electra_tf.command_line import original_settings
from electra_tf.model import ablations, electra, losses, masking
from electra_tf.training import optimization
from tests import helpers, original_configs
from tests.parity import comparison
from tests.parity.cases import Case
from tests.parity.check import Check

NOT_COMPARED = {
    "pretrain/*/config.json:seed": "of the original's own initial weights",
    "pretrain/*/config.json:numpy_adamw_check_max_abs_diff": (
        "how far the original is from its own update in float64"
    ),
}

BATCH_ARRAYS = (
    "input_ids",
    "input_mask",
    "segment_ids",
    "drawn_positions",
    "mask_uniform",
    "sample_uniform",
)
# The recorded evaluation reads this many batches.
NUM_EVAL_BATCHES = 3
# Settings of the original's transformer.
BERT_CONFIG_NAMES = (
    "attention_probs_dropout_prob",
    "hidden_act",
    "hidden_dropout_prob",
    "hidden_size",
    "initializer_range",
    "intermediate_size",
    "max_position_embeddings",
    "num_attention_heads",
    "num_hidden_layers",
    "type_vocab_size",
    "vocab_size",
)
# Settings of the run and the machine, without effect on a case's numbers.
RUN_SETTINGS = frozenset(
    (
        "debug",
        "do_eval",
        "do_lower_case",
        "do_train",
        "eval_batch_size",
        "gcp_project",
        "iterations_per_loop",
        "keep_checkpoint_max",
        "num_eval_steps",
        "num_tpu_cores",
        "save_checkpoints_steps",
        "tpu_job_name",
        "tpu_name",
        "tpu_zone",
        "train_batch_size",
        "use_tpu",
    )
)
NORMS = {
    "__global_norm_dense__": "global_norm_dense",
    "__global_norm_used_by_clip__": "global_norm_used_by_clip",
}


def cases(golden_dir: pathlib.Path) -> Iterator[Case]:
    """Every case of pretrain/."""
    for path in sorted((golden_dir / "pretrain").glob("*/config.json")):
        folder = path.parent
        yield Case(
            f"pretrain/{folder.name}",
            functools.partial(_compare_folder, folder),
        )


def _compare_folder(folder: pathlib.Path) -> Iterator[Check]:
    yield from _Folder(folder).checks()


def replaying_model(config: configs.ElectraConfig, special_ids):
    """A model for which `noise.positions` are the positions themselves."""

    class ReplayingModel(ablations.model_class(config)):
        def mask_inputs(self, inputs, noise):
            return masking.mask_positions(
                inputs, noise.positions, noise.mask, config, special_ids
            )

    return ReplayingModel(config, special_ids)


def forward(model: electra.PretrainingModel, batch: dict) -> dict:
    """One forward pass, its tensors under the names of the golden arrays.

    Args:
      model: A replaying model.
      batch: Tensors under the names of BATCH_ARRAYS.

    Returns:
      Golden name (without "batch0_") -> tensor; "metric_sums" as well.
    """
    features = {name: batch[name] for name in BATCH_ARRAYS[:3]}
    noise = masking.Noise(*(batch[name] for name in BATCH_ARRAYS[3:]))
    outputs = model(features, noise, return_layers=True)
    masked = outputs["masked_inputs"]
    mlm, fake = outputs["mlm_output"], outputs["fake_data"]
    candidate = masking.is_candidate(
        batch["input_ids"], batch["input_mask"], tuple(model.special_ids)
    )
    allowed = tf.cast(candidate, tf.float32)
    named = {
        "masked_input_ids": masked.input_ids,
        "masked_lm_positions": masked.masked_lm_positions,
        "masked_lm_ids": masked.masked_lm_ids,
        "masked_lm_weights": masked.masked_lm_weights,
        "mask_sample_logits": tf.math.log(
            allowed / tf.reduce_sum(allowed, axis=-1, keepdims=True)
        ),
        "generator_logits": mlm.logits,
        "mlm_preds": mlm.preds,
        "mlm_per_example_loss": mlm.per_example_loss,
        "mlm_loss": mlm.loss,
        "sampled_ids": fake.sampled_ids,
        "sample_margin": _sample_margin(model.config, mlm, masked, noise),
        "corrupted_input_ids": fake.inputs.input_ids,
        "disc_labels": fake.is_fake_tokens,
        "total_loss": outputs["total_loss"],
        "metric_sums": model.metric_sums(outputs),
    }
    if isinstance(model, ablations.TwoTowers):
        cloze = model.cloze_output(outputs)
        named |= {
            "cloze_logits": cloze.logits,
            "cloze_per_token_loss": cloze.per_example_loss,
            "cloze_weights": allowed,
            "cloze_loss": cloze.loss,
        }
        unmasked = [batch[name] for name in BATCH_ARRAYS[:3]]
        for name, tower in (
            ("generator_ltr", model.generator.left_to_right),
            ("generator_rtl", model.generator.right_to_left),
        ):
            named |= _encoder_outputs(
                name, tower(*unmasked, return_layers=True)
            )
        named["generator_sequence_output"] = outputs["generator_outputs"][
            "sequence_output"
        ]
    elif outputs["generator_outputs"] is not None:
        named |= _encoder_outputs("generator", outputs["generator_outputs"])
    if outputs["discriminator_outputs"] is not None:
        disc = outputs["disc_output"]
        named |= _encoder_outputs("disc", outputs["discriminator_outputs"])
        named |= {
            "disc_logits": disc.logits,
            "disc_probs": disc.probs,
            "disc_preds": disc.preds,
            "disc_per_example_loss": disc.per_example_loss,
            "disc_loss": disc.loss,
        }
    return named


def _encoder_outputs(prefix: str, outputs: dict) -> dict:
    named = {
        f"{prefix}_embedding_output": outputs["embedding_output"],
        f"{prefix}_sequence_output": outputs["sequence_output"],
        f"{prefix}_pooled_output": outputs["pooled_output"],
        f"{prefix}_attention_maps": tf.stack(outputs["attention_probs"]),
    }
    for index, layer in enumerate(outputs["all_encoder_layers"]):
        named[f"{prefix}_layer_{index}"] = layer
    return named


def _sample_margin(config, mlm, masked, noise):
    """The gap between the best and the second best noisy logit."""
    logits = mlm.logits / config.temperature
    if config.disallow_correct:
        logits = masking.disallow(logits, masked.masked_lm_ids)
    gumbel = -tf.math.log(
        -tf.math.log(noise.sample + masking.GUMBEL_FLOOR) + masking.GUMBEL_FLOOR
    )
    best = tf.math.top_k(logits + gumbel, k=2).values
    return best[..., 0] - best[..., 1]


def compare_output(
    name: str, golden: np.ndarray, ours: dict, goldens: dict
) -> tuple[float, float]:
    """Compares one array of a forward pass.

    Floats are compared relative to the largest one of the array. Ids and
    labels must be equal, except where a recorded margin or logit is so small
    that an error within the tolerance may turn the answer.

    Args:
      name: Of the golden array.
      golden: Its value.
      ours: All of our arrays.
      goldens: All golden arrays.

    Returns:
      The error and its tolerance.
    """
    if golden.dtype.kind == "f":
        error = comparison.relative_error(ours[name], golden)
        return error, comparison.FORWARD_TOLERANCE
    where = np.ones(golden.shape, bool)
    if name in ("sampled_ids", "corrupted_input_ids", "disc_labels"):
        slack = comparison.FORWARD_TOLERANCE * comparison.magnitude(
            ours["generator_logits"]
        )
        where = _certain(name, golden, ours, goldens["sample_margin"], slack)
    elif name == "mlm_preds" and "generator_logits" in goldens:
        where = ~_close_call(goldens["generator_logits"], ours[name])
    elif name == "disc_preds":
        logits = goldens["disc_logits"]
        where = np.abs(logits) > (
            comparison.FORWARD_TOLERANCE * comparison.magnitude(logits)
        )
    return comparison.num_different(ours[name], golden, where), 0.0


def _certain(name, golden, ours, margin, slack) -> np.ndarray:
    """Where a sample within the tolerance cannot be another one."""
    # Training records no margin (-1) for unused slots, which change nothing.
    uncertain = margin <= slack
    if name == "sampled_ids":
        return ~uncertain
    positions = ours["masked_lm_positions"]
    certain = np.ones(golden.shape, bool)
    *leading, _ = np.nonzero(uncertain)
    certain[(*leading, positions[uncertain])] = False
    return certain


def _close_call(logits: np.ndarray, preds: np.ndarray) -> np.ndarray:
    """Whether a prediction's logit is the best but for the tolerance."""
    chosen = np.take_along_axis(logits, preds[..., np.newaxis], -1)[..., 0]
    gap = logits.max(axis=-1) - chosen
    slack = comparison.FORWARD_TOLERANCE * comparison.magnitude(logits)
    return (gap > 0) & (gap <= slack)


@contextlib.contextmanager
def _graphs_as_traced() -> Iterator[None]:
    """Rewriting a graph takes longer than twenty steps of a tiny model."""
    tf.config.optimizer.set_experimental_options(
        {"disable_meta_optimizer": True}
    )
    try:
        yield
    finally:
        tf.config.optimizer.set_experimental_options(
            {"disable_meta_optimizer": False}
        )


def _names(names: list[str]) -> list[str]:
    return [name.removesuffix(":0") for name in names]


def _dense(gradients) -> list:
    return [
        None if gradient is None else tf.convert_to_tensor(gradient)
        for gradient in gradients
    ]


@dataclasses.dataclass
class _Training:
    """What one run of updates left behind.

    Attributes:
      arrays: Name, as in training.npz -> values, a row for each step.
      weights: Variable name -> final value.
      slots: Slot name -> final value.
      first_gradients: Variable name -> gradient of the first update.
    """

    arrays: dict[str, np.ndarray]
    weights: dict[str, np.ndarray]
    slots: dict[str, np.ndarray]
    first_gradients: dict[str, np.ndarray]


class _Folder:
    """One folder of pretrain/."""

    def __init__(self, folder: pathlib.Path):
        self.folder = folder
        self.name = f"pretrain/{folder.name}"
        self.golden = comparison.read_json(folder / "config.json")
        self.settings = self.golden["config"]
        self.sensitivity = self.golden["rounding_sensitivity"]
        with np.load(folder / "batches.npz") as batches:
            self.batches = {name: batches[name] for name in batches.files}
        self.config = original_configs.electra_config(self.settings)
        ids = self.golden["special_ids"]
        self.model = replaying_model(
            self.config,
            masking.SpecialIds(ids["[CLS]"], ids["[SEP]"], ids["[MASK]"]),
        )
        self.sparse_tables: set[str] = set()

    def checks(self) -> Iterator[Check]:
        yield from self._check_settings()
        yield from self._check_variables()
        yield from self._check_initial_checkpoint()
        outputs = self._forward_all()
        yield from self._check_outputs(outputs)
        yield from self._check_metrics(outputs)
        yield from self._check_training()

    def _check(self, compared, error, tolerance, *consumed: str) -> Check:
        return Check(
            self.name,
            compared,
            float(error),
            float(tolerance),
            frozenset(f"{self.name}/{entry}" for entry in consumed),
        )

    def _batch(self, index: int) -> dict[str, tf.Tensor]:
        return {
            name: tf.constant(self.batches[name][index])
            for name in BATCH_ARRAYS
        }

    def _check_settings(self) -> Iterator[Check]:
        """The same settings from the arguments as from all of them."""
        arguments = comparison.read_json(self.folder / "hparams.json")
        from_arguments = original_configs.electra_config(arguments)
        differences = validation.differences(
            dataclasses.asdict(from_arguments), dataclasses.asdict(self.config)
        )
        yield self._check(
            "settings: from hparams.json", len(differences), 0, "hparams.json"
        )
        optimizer = original_configs.optimizer_config(self.settings)
        encoder = self.config.encoder
        # What is compared with its value after the original's own defaults.
        values = {
            "embedding_size": encoder.embedding_size,
            "vocab_size": encoder.vocab_size,
            "max_seq_length": self.config.max_seq_length,
            "max_predictions_per_seq": self.config.max_predictions_per_seq,
            "learning_rate": optimizer.learning_rate,
            "num_warmup_steps": optimizer.num_warmup_steps,
            "lr_decay_power": optimizer.lr_decay_power,
            "weight_decay_rate": optimizer.weight_decay_rate,
        } | {
            name: getattr(self.config, name)
            for name, hparam in original_settings.PRETRAINING.items()
            if hparam.parameter == f"ElectraConfig.{name}"
        }
        if self.settings["embedding_size"] is None:
            values["embedding_size"] = None
        different = [
            name
            for name, value in values.items()
            if self.settings[name] != value
        ]
        yield self._check(
            f"settings: resulting {' '.join(different)}".rstrip(),
            len(different),
            0,
            "config.json:config/model_size",
            "config.json:config/model_hparam_overrides",
            "config.json:config/num_train_steps",
            *(f"config.json:config/{name}" for name in values),
        )
        others = self.settings.keys() - values.keys()
        others -= {"model_size", "model_hparam_overrides", "num_train_steps"}
        yield self._check(
            "settings: without a meaning here",
            len(others - RUN_SETTINGS),
            0,
            *(f"config.json:config/{name}" for name in others),
        )
        yield from self._check_bert_configs()
        special_ids = self.golden["special_ids"]
        vocab = (self.folder / "vocab.txt").read_text(encoding="utf-8")
        tokens = vocab.rstrip("\n").split("\n")
        yield self._check(
            "settings: special ids",
            sum(tokens.index(token) != i for token, i in special_ids.items())
            + (len(tokens) > encoder.vocab_size),
            0,
            "vocab.txt",
            "config.json:special_ids",
        )
        num_batches = len(self.batches["input_ids"])
        yield self._check(
            "settings: batches",
            abs(num_batches - self.golden["batches"]),
            0,
            "config.json:batches",
            *(f"batches.npz:{name}" for name in BATCH_ARRAYS),
        )

    def _check_bert_configs(self) -> Iterator[Check]:
        """The sizes of every network that the original built."""
        model, built = self.model, {"electra_0": self.model.electra.config}
        if isinstance(model, ablations.TwoTowers):
            built["generator_ltr"] = model.generator.left_to_right.config
            built["generator_rtl"] = model.generator.right_to_left.config
        elif isinstance(model, ablations.TiedNetworks):
            if self.config.has_discriminator:
                built["electra_1"] = model.electra.config
        elif self.config.has_generator_network:
            built["generator"] = model.generator.config
        golden = self.golden["bert_configs"]
        yield self._check(
            "settings: networks built", len(set(built) ^ set(golden)), 0
        )
        for network in sorted(set(built) & set(golden)):
            ours = {
                name: getattr(built[network], name)
                for name in BERT_CONFIG_NAMES
            }
            yield self._check(
                f"settings: {network}",
                len(validation.differences(ours, golden[network])),
                0,
                f"config.json:bert_configs/{network}",
            )

    def _check_variables(self) -> Iterator[Check]:
        ours = {v.path: list(v.shape) for v in self.model.trainable_variables}
        golden = {
            name.removesuffix(":0"): shape
            for name, shape in self.golden["trainable_variables"]
        }
        yield self._check(
            f"variables: {len(golden)} names and shapes",
            len(validation.differences(ours, golden)),
            0,
            "config.json:trainable_variables",
        )
        table = next(
            (
                f"{layer.embeddings.word_embeddings.path}:0"
                for layer in self.model.layers
                if isinstance(layer, electra.MaskedLmHead)
            ),
            None,
        )
        yield self._check(
            "variables: generator's embedding table",
            table != self.golden["generator_embedding_table"],
            0,
            "config.json:generator_embedding_table",
        )

    def _load(self, step: int) -> LoadReport:
        return helpers.load_original(
            str(self.folder / f"model.ckpt-{step}"),
            self.model.trainable_variables,
        )

    def _check_initial_checkpoint(self) -> Iterator[Check]:
        report = self._load(0)
        yield self._check(
            f"checkpoint 0: {len(report.used)} variables loaded",
            len(report.missing) + len(set(report.unused) - {"global_step"}),
            0,
            *(f"model.ckpt-0:{name}" for name in report.used),
        )
        yield self._check_global_step(0)

    def _check_global_step(self, step: int) -> Check:
        tensors = original.read_original_checkpoint(
            str(self.folder / f"model.ckpt-{step}")
        )
        return self._check(
            f"checkpoint {step}: global_step",
            abs(int(tensors["global_step"]) - step),
            0,
            f"model.ckpt-{step}:global_step",
        )

    def _forward_all(self) -> list[dict]:
        """`forward` of every batch, as numpy arrays."""
        return [
            tf.nest.map_structure(
                lambda x: x.numpy(), forward(self.model, self._batch(i))
            )
            for i in range(len(self.batches["input_ids"]))
        ]

    def _check_outputs(self, outputs: list[dict]) -> Iterator[Check]:
        ours = {}
        for name in outputs[0].keys() - {"metric_sums"}:
            ours[name] = np.stack([output[name] for output in outputs])
            ours[f"batch0_{name}"] = outputs[0][name]
        with np.load(self.folder / "outputs.npz") as npz:
            goldens = {name: npz[name] for name in npz.files}
        for name, golden in goldens.items():
            if name in ours:
                error, tolerance = compare_output(name, golden, ours, goldens)
                yield self._check(
                    f"outputs: {name}", error, tolerance, f"outputs.npz:{name}"
                )

    def _check_metrics(self, outputs: list[dict]) -> Iterator[Check]:
        sums: dict[str, losses.Sums] = {}
        for output in outputs[:NUM_EVAL_BATCHES]:
            for name, (value, weight) in output["metric_sums"].items():
                total = sums.get(name, losses.Sums(0.0, 0.0))
                sums[name] = losses.Sums(
                    total.value + value, total.weight + weight
                )
        metrics = losses.metrics_from_sums(sums)
        metrics["loss_mean_over_batches"] = np.mean(
            [output["total_loss"] for output in outputs[:NUM_EVAL_BATCHES]]
        )
        golden = comparison.read_json(self.folder / "eval_metrics.json")
        for name in sorted(set(golden) & set(metrics)):
            yield self._check(
                f"metrics: {name}",
                comparison.relative_error(metrics[name], golden[name]),
                comparison.FORWARD_TOLERANCE,
                f"eval_metrics.json:{name}",
            )

    def _gradients(self, batch: dict):
        """Our named tensors of one batch, and a gradient for each variable."""
        with tf.GradientTape() as tape:
            named = forward(self.model, batch)
        variables = self.model.trainable_variables
        gradients = tape.gradient(
            named["total_loss"], [v.value for v in variables]
        )
        self.sparse_tables = {
            v.path
            for v, gradient in zip(variables, gradients, strict=True)
            if isinstance(gradient, tf.IndexedSlices)
            and v.path.endswith("/word_embeddings")
        }
        return named, gradients

    def _check_gradients(self, training: _Training) -> Iterator[Check]:
        # The first update is that of batch 0 and the initial weights.
        ours = training.first_gradients | {
            key: training.arrays[name][0] for key, name in NORMS.items()
        }
        with np.load(self.folder / "gradients_batch0.npz") as goldens:
            for name in goldens.files:
                if name in ours:
                    golden = goldens[name]
                    yield self._check(
                        f"gradients: {name}",
                        comparison.absolute_error(ours[name], golden),
                        self._training_tolerance(golden, "gradients_batch0"),
                        f"gradients_batch0.npz:{name}",
                        "config.json:rounding_sensitivity",
                    )
            named = set(goldens.files) - set(NORMS)
        variables = {v.path for v in self.model.trainable_variables}
        without = set(_names(self.golden["gradient_is_none"]))
        yield self._check(
            "gradients: which variables have one",
            len(training.first_gradients.keys() ^ named)
            + len((variables - named) ^ without),
            0,
            "config.json:gradient_is_none",
        )
        sparse = set(_names(self.golden["gradient_is_indexed_slices"]))
        one_hot = self.golden["tpu_style_gradient_is_indexed_slices"]
        yield self._check(
            "gradients: which are sparse",
            len(self.sparse_tables ^ sparse) + len(one_hot),
            0,
            "config.json:gradient_is_indexed_slices",
            "config.json:tpu_style_gradient_is_indexed_slices",
        )

    def _training_tolerance(self, golden, sensitivity: str) -> float:
        """The tolerance of an absolute error after the backward pass."""
        return max(
            comparison.TRAINING_TOLERANCE * comparison.magnitude(golden),
            comparison.SENSITIVITIES * self.sensitivity[sensitivity],
        )

    def _train(self, unmerged: bool) -> _Training:
        """Replays the recorded updates from the initial checkpoint."""
        self._load(0)
        variables = self.model.trainable_variables
        optimizer = optimization.AdamWeightDecay(
            original_configs.optimizer_config(self.settings),
            self.settings["num_train_steps"],
            clip_norm_of_unmerged_rows=unmerged,
        )
        optimizer.build(variables)

        @tf.function(autograph=False)
        def step(batch):
            named, gradients = self._gradients(batch)
            dense = _dense(gradients)
            named["global_norm_dense"] = tf.linalg.global_norm(dense)
            named["global_norm_used_by_clip"] = optimizer.apply_summed(
                gradients, variables
            )
            return named, dense

        records = []
        first_gradients: dict[str, np.ndarray] = {}
        num_batches = len(self.batches["input_ids"])
        for index in range(self.golden["steps"]):
            learning_rate = float(optimizer.learning_rate)
            named, gradients = step(self._batch(index % num_batches))
            if not first_gradients:
                first_gradients = {
                    v.path: gradient.numpy()
                    for v, gradient in zip(variables, gradients, strict=True)
                    if gradient is not None
                }
            record = {
                name: tensor.numpy()
                for name, tensor in named.items()
                if name != "metric_sums"
            }
            records.append(record | {"learning_rate": learning_rate})
        return _Training(
            arrays={
                name: np.stack([record[name] for record in records])
                for name in records[0]
            },
            weights={v.path: v.numpy() for v in variables},
            slots={
                name: slot.numpy() for name, slot in optimizer.slots().items()
            },
            first_gradients=first_gradients,
        )

    def _check_training(self) -> Iterator[Check]:
        with _graphs_as_traced():
            gather = one_hot = self._train(unmerged=False)
            if self.sparse_tables:  # Without one the two ways are the same.
                gather = self._train(unmerged=True)
        yield from self._check_gradients(gather)
        yield from self._check_trajectory("training", gather)
        yield from self._check_trajectory("training_onehot", one_hot)
        yield self._check(
            "training: smallest margin",
            comparison.absolute_error(
                np.min(self._used_margins(gather)),
                self.golden["min_sample_margin_in_training"],
            ),
            self._margin_slack(gather),
            "config.json:min_sample_margin_in_training",
        )
        apart = max(
            comparison.absolute_error(one_hot.weights[name], weights)
            for name, weights in gather.weights.items()
        )
        recorded = self.golden["final_max_abs_diff_onehot_vs_gather"]
        yield self._check(
            "training: how far the two ways part",
            abs(apart - recorded),
            self._training_tolerance(recorded, "final_weights"),
            "config.json:final_max_abs_diff_onehot_vs_gather",
        )
        yield from self._check_final_checkpoint(gather)
        path = self.folder / "final_weights_onehot.npz"
        if path.exists():
            with np.load(path) as goldens:
                for name in goldens.files:
                    if name in one_hot.weights:
                        yield self._check_weights(
                            "one-hot",
                            name,
                            one_hot.weights[name],
                            goldens[name],
                            f"final_weights_onehot.npz:{name}",
                        )

    def _used_margins(self, training: _Training) -> np.ndarray:
        used = training.arrays["masked_lm_weights"] > 0
        return training.arrays["sample_margin"][used]

    def _margin_slack(self, training: _Training) -> float:
        return comparison.TRAINING_TOLERANCE * (
            comparison.magnitude(training.arrays["generator_logits"])
            or comparison.magnitude(training.arrays["sample_margin"])
        )

    def _check_trajectory(self, file: str, training: _Training):
        ours = dict(training.arrays)
        used = ours["masked_lm_weights"] > 0
        ours["sample_margin"] = np.where(used, ours["sample_margin"], -1.0)
        with np.load(self.folder / f"{file}.npz") as npz:
            goldens = {name: npz[name] for name in npz.files}
        sensitivity = max(self.sensitivity["total_loss_per_step"])
        for name, golden in goldens.items():
            if name not in ours:
                continue
            if golden.dtype.kind != "f":
                where = _certain(
                    name,
                    golden,
                    ours,
                    goldens["sample_margin"],
                    self._margin_slack(training),
                )
                error = comparison.num_different(ours[name], golden, where)
                tolerance = 0.0
            else:
                error = comparison.relative_error(ours[name], golden)
                tolerance = comparison.TRAINING_TOLERANCE
                if name == "total_loss":
                    tolerance = max(
                        tolerance,
                        comparison.SENSITIVITIES
                        * sensitivity
                        / comparison.magnitude(golden),
                    )
            yield self._check(
                f"{file}: {name}", error, tolerance, f"{file}.npz:{name}"
            )

    def _check_weights(self, way, name, ours, golden, entry) -> Check:
        return self._check(
            f"final weights, {way}: {name}",
            comparison.absolute_error(ours, golden),
            self._training_tolerance(golden, "final_weights"),
            entry,
        )

    def _check_final_checkpoint(self, training: _Training) -> Iterator[Check]:
        steps = self.golden["steps"]
        yield self._check_global_step(steps)
        prefix = f"model.ckpt-{steps}"
        tensors = original.read_original_checkpoint(str(self.folder / prefix))
        # Slots of key biases hold rounding; the largest slot says how much.
        largest = {
            kind: max(
                comparison.magnitude(slot)
                for name, slot in training.slots.items()
                if name.endswith(kind)
            )
            for kind in ("adam_m", "adam_v")
        }
        for name, golden in tensors.items():
            entry = f"{prefix}:{name}"
            if name in training.weights:
                yield self._check_weights(
                    "as recorded", name, training.weights[name], golden, entry
                )
            elif name in training.slots:
                kind = name[-len("adam_m") :]
                yield self._check(
                    f"optimizer slots {kind}: {name}",
                    comparison.absolute_error(training.slots[name], golden),
                    max(
                        comparison.TRAINING_TOLERANCE
                        * comparison.magnitude(golden),
                        comparison.FORWARD_TOLERANCE * largest[kind],
                    ),
                    entry,
                )
        slots = [name for name in tensors if re.search("/adam_[mv]$", name)]
        has_slots = self.golden["final_checkpoint_has_optimizer_slots"]
        yield self._check(
            "final weights: names",
            len(training.weights.keys() - tensors.keys())
            + len(set(slots) ^ (set(training.slots) if has_slots else set())),
            0,
            "config.json:steps",
            "config.json:final_checkpoint_has_optimizer_slots",
        )
