"""Compares the pre-training model and its training with golden cases.

A case is a folder of pretrain/ with a config.json. Its model starts from the
recorded checkpoint and is fed the recorded draws (masked positions, which of
them become [MASK], Gumbel noise), so everything is determined.
"""

import dataclasses
import pathlib
from collections.abc import Iterator

import numpy as np
import tensorflow as tf

from electra_tf import configs, validation
from electra_tf.command_line import original_settings
from electra_tf.model import ablations, electra, losses, masking
from electra_tf.training import optimization
from tests import original_configs
from tests.parity import comparison, recorded_run
from tests.parity.cases import Case
from tests.parity.check import Check

NOT_COMPARED = recorded_run.not_compared("pretrain")

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


def cases(golden_dir: pathlib.Path) -> Iterator[Case]:
    """Every case of pretrain/."""
    return recorded_run.cases(golden_dir, "pretrain", Folder)


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
        where = ~comparison.close_call(goldens["generator_logits"], ours[name])
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


class Folder(recorded_run.RecordedRun):
    """One folder of pretrain/."""

    variables_are_in_order = False

    def __init__(self, folder: pathlib.Path):
        super().__init__(folder)
        self.config = original_configs.electra_config(self.settings)
        ids = self.golden["special_ids"]
        self.model = replaying_model(
            self.config,
            masking.SpecialIds(ids["[CLS]"], ids["[SEP]"], ids["[MASK]"]),
        )

    def checks(self) -> Iterator[Check]:
        yield from self._check_settings()
        yield from self.check_variables()
        yield self._check_embedding_table()
        yield from self.check_initial_checkpoint()
        outputs = self.forward_all()
        yield from self._check_outputs(outputs)
        yield from self._check_metrics(outputs)
        gather, one_hot = self.train()
        yield from self.check_training(gather, one_hot)
        used = gather.arrays["masked_lm_weights"] > 0
        yield self.check(
            "training: smallest margin",
            comparison.absolute_error(
                np.min(gather.arrays["sample_margin"][used]),
                self.golden["min_sample_margin_in_training"],
            ),
            _margin_slack(gather.arrays),
            "config.json:min_sample_margin_in_training",
        )

    def named(self, batch):
        return forward(self.model, batch)

    def optimizer(self, unmerged):
        return optimization.AdamWeightDecay(
            original_configs.optimizer_config(self.settings),
            self.settings["num_train_steps"],
            clip_norm_of_unmerged_rows=unmerged,
        )

    def rates(self, learning_rate):
        return {"learning_rate": learning_rate}

    def records(self, named):
        used = named["masked_lm_weights"] > 0
        margin = tf.where(used, named["sample_margin"], -1.0)
        kept = {k: v for k, v in named.items() if k != "metric_sums"}
        return kept | {"sample_margin": margin}

    def slot_tolerance(self, name, golden, training):
        # Slots of key biases hold rounding; the largest slot says how much.
        largest = max(
            comparison.magnitude(slot)
            for other, slot in training.slots.items()
            if other.endswith(name[-len("adam_m") :])
        )
        return max(
            comparison.TRAINING_TOLERANCE * comparison.magnitude(golden),
            comparison.FORWARD_TOLERANCE * largest,
        )

    def certain(self, name, golden, ours, goldens):
        margin, slack = goldens["sample_margin"], _margin_slack(ours)
        return _certain(name, golden, ours, margin, slack)

    def _check_settings(self) -> Iterator[Check]:
        """The same settings from the arguments as from all of them."""
        arguments = comparison.read_json(self.folder / "hparams.json")
        from_arguments = original_configs.electra_config(arguments)
        differences = validation.differences(
            dataclasses.asdict(from_arguments), dataclasses.asdict(self.config)
        )
        yield self.check(
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
        yield self.check(
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
        yield self.check(
            "settings: without a meaning here",
            len(others - RUN_SETTINGS),
            0,
            *(f"config.json:config/{name}" for name in others),
        )
        yield from self._check_bert_configs()
        special_ids = self.golden["special_ids"]
        vocab = (self.folder / "vocab.txt").read_text(encoding="utf-8")
        tokens = vocab.rstrip("\n").split("\n")
        yield self.check(
            "settings: special ids",
            sum(tokens.index(token) != i for token, i in special_ids.items())
            + (len(tokens) > encoder.vocab_size),
            0,
            "vocab.txt",
            "config.json:special_ids",
        )
        yield self.check(
            "settings: batches",
            abs(self.num_batches - self.golden["batches"]),
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
        yield self.check(
            "settings: networks built", len(set(built) ^ set(golden)), 0
        )
        for network in sorted(set(built) & set(golden)):
            ours = {
                name: getattr(built[network], name)
                for name in BERT_CONFIG_NAMES
            }
            yield self.check(
                f"settings: {network}",
                len(validation.differences(ours, golden[network])),
                0,
                f"config.json:bert_configs/{network}",
            )

    def _check_embedding_table(self) -> Check:
        table = next(
            (
                f"{layer.embeddings.word_embeddings.path}:0"
                for layer in self.model.layers
                if isinstance(layer, electra.MaskedLmHead)
            ),
            None,
        )
        return self.check(
            "variables: generator's embedding table",
            table != self.golden["generator_embedding_table"],
            0,
            "config.json:generator_embedding_table",
        )

    def forward_all(self) -> list[dict]:
        """`forward` of every batch, as numpy arrays."""
        return [
            tf.nest.map_structure(
                lambda x: x.numpy(), forward(self.model, self.batch(i))
            )
            for i in range(self.num_batches)
        ]

    def _check_outputs(self, outputs: list[dict]) -> Iterator[Check]:
        ours = {}
        for name in outputs[0].keys() - {"metric_sums"}:
            ours[name] = np.stack([output[name] for output in outputs])
            ours[f"batch0_{name}"] = outputs[0][name]
        goldens = self.read("outputs.npz")
        for name, golden in goldens.items():
            if name in ours:
                error, tolerance = compare_output(name, golden, ours, goldens)
                yield self.check(
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
            yield self.check(
                f"metrics: {name}",
                comparison.relative_error(metrics[name], golden[name]),
                comparison.FORWARD_TOLERANCE,
                f"eval_metrics.json:{name}",
            )


def _margin_slack(arrays: dict) -> float:
    return comparison.TRAINING_TOLERANCE * (
        comparison.magnitude(arrays["generator_logits"])
        or comparison.magnitude(arrays["sample_margin"])
    )
