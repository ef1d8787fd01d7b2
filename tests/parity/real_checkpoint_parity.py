"""Compares what a model that the original trained answers, from its files.

The folder real_checkpoint/ holds a small model that was pre-trained and then
fine-tuned with the original's own commands. Its checkpoints are loaded by path
as they were written, and outputs of both are compared.
"""

import pathlib
import re
from collections.abc import Iterator

import numpy as np
import tensorflow as tf

from electra_tf.checkpoints.formats import original
from electra_tf.command_line import original_settings
from electra_tf.finetuning import configs as finetuning_configs
from electra_tf.model import finetuning_model, masking
from electra_tf.tasks import by_name
from electra_tf.text import vocabulary
from electra_tf.training import optimization
from tests import helpers, original_configs
from tests.parity import comparison, finetuning_parity, pretraining_parity
from tests.parity.cases import Case
from tests.parity.check import Check

UNSEEDED_METRICS = "pretraining_eval_metrics_unseeded_30_batches"
NOT_COMPARED = {
    "real_checkpoint/info.json:pretraining_loss_per_step_with_dropout": (
        "of a run with dropout and draws of its own"
    ),
    f"real_checkpoint/info.json:{UNSEEDED_METRICS}/*": (
        "of random batches of a text that is not in the folder"
    ),
}

PREDICTION_FILES = ("dev", "test")


def cases(golden_dir: pathlib.Path) -> Iterator[Case]:
    """Both checkpoints."""
    path = golden_dir / "real_checkpoint" / "info.json"
    if path.exists():
        real = _RealCheckpoint(golden_dir, path)
        yield Case("real_checkpoint, pre-training", real.check_pretraining)
        yield Case("real_checkpoint, fine-tuning", real.check_finetuning)


class _RealCheckpoint:
    def __init__(self, golden_dir: pathlib.Path, info_path: pathlib.Path):
        self.golden_dir = golden_dir
        self.folder = info_path.parent
        self.info = comparison.read_json(info_path)
        self.vocab_file = str(self.folder / self.info["vocab"])

    def _check(self, compared, error, tolerance, *consumed: str) -> Check:
        return Check.of("real_checkpoint", compared, error, tolerance, consumed)

    def _check_variables(self, stage, variables, entry) -> Check:
        golden = dict(self.info[entry])
        ours = {v.path: list(v.shape) for v in variables}
        return self._check(
            f"{stage}: {len(golden)} names and shapes",
            sum(ours.get(name) != golden.get(name) for name in ours | golden),
            0,
            f"info.json:{entry}",
        )

    def check_pretraining(self) -> Iterator[Check]:
        arguments = self.info["pretraining_hparams"]
        tokens = vocabulary.load_vocab(self.vocab_file)
        model = pretraining_parity.replaying_model(
            original_configs.electra_config(arguments),
            masking.SpecialIds(
                *(tokens.index(name) for name in ("[CLS]", "[SEP]", "[MASK]"))
            ),
        )
        variables = model.trainable_variables
        yield self._check_variables(
            "pre-training", variables, "trainable_variables"
        )
        yield from self._check_pretraining_checkpoint(arguments, variables)
        yield from self._check_outputs(model)

    def _check_pretraining_checkpoint(self, arguments, variables):
        # The folder's file "checkpoint" names the pre-training checkpoint.
        prefix = tf.train.latest_checkpoint(str(self.folder))
        name = pathlib.Path(prefix).name
        report = helpers.load_original(str(self.folder), variables)
        yield self._check(
            f"pre-training: {name} loads by path",
            len(report["missing"]),
            0,
            "info.json:pretraining_hparams",
            "info.json:vocab",
            *(f"{name}:{variable}" for variable in report["used"]),
        )
        tensors = original.open_by_name(prefix)
        optimizer = optimization.AdamWeightDecay(
            original_configs.optimizer_config(arguments),
            arguments["num_train_steps"],
        )
        optimizer.build(variables)
        slots = {
            slot: list(variable.shape)
            for slot, variable in optimizer.slots().items()
        }
        golden = {
            slot: list(tensors[slot].shape)
            for slot in report["unused"]
            if re.search("/adam_[mv]$", slot)
        }
        yield self._check(
            f"pre-training: {len(golden)} optimizer slots",
            sum(slots.get(slot) != golden.get(slot) for slot in slots | golden),
            0,
            *(f"{name}:{slot}" for slot in golden),
        )
        step = int(name.rpartition("-")[2])
        yield self._check(
            "pre-training: global_step",
            abs(int(tensors["global_step"]) - step)
            + abs(self.info[UNSEEDED_METRICS]["global_step"] - step),
            0,
            f"{name}:global_step",
            f"info.json:{UNSEEDED_METRICS}/global_step",
        )

    def _check_outputs(self, model) -> Iterator[Check]:
        file = "pretrain_reference_outputs.npz"
        goldens = comparison.read_npz(self.folder / file)
        inputs = {
            name: goldens.pop(f"in_{name}")
            for name in pretraining_parity.BATCH_ARRAYS
            if f"in_{name}" in goldens
        }
        noise = np.random.RandomState(self.info["noise_seed"])
        shape = (*inputs["mask_uniform"].shape, model.config.encoder.vocab_size)
        batch = {
            name: tf.constant(values) for name, values in inputs.items()
        } | {
            "sample_uniform": tf.constant(
                noise.uniform(size=shape).astype(np.float32)
            )
        }
        named = pretraining_parity.forward(model, batch)
        ours = {
            name: tensor.numpy()
            for name, tensor in named.items()
            if name != "metric_sums"
        }
        ids = goldens.pop("generator_logits_ids")
        top_ids = goldens.pop("generator_logits_top20_ids")
        logits = ours["generator_logits"]
        ours["generator_logits_at_ids"] = logits[..., ids]
        ours["generator_logits_top20"] = np.take_along_axis(
            logits, top_ids, axis=-1
        )
        ours["generator_logits_logsumexp"] = tf.reduce_logsumexp(
            logits, axis=-1
        ).numpy()
        yield self._check(
            "outputs: the 20 largest logits are the largest",
            comparison.relative_error(
                np.sort(logits, axis=-1)[..., : -top_ids.shape[-1] - 1 : -1],
                goldens["generator_logits_top20"],
            ),
            comparison.FORWARD_TOLERANCE,
            f"{file}:generator_logits_top20_ids",
        )
        rows = goldens.pop("rows_of_direct_seq64")
        source = self.golden_dir / "examples" / "direct_seq64.npz"
        if source.exists():
            with np.load(source) as examples:
                different = sum(
                    comparison.num_different(inputs[name], examples[name][rows])
                    for name in examples.files
                )
            yield self._check(
                "outputs: inputs are rows of examples/direct_seq64",
                different,
                0,
                f"{file}:rows_of_direct_seq64",
            )
        consumed = [f"{file}:in_{name}" for name in inputs]
        consumed += [f"{file}:generator_logits_ids", "info.json:noise_seed"]
        for name, golden in goldens.items():
            if name in ours:
                error, tolerance = pretraining_parity.compare_output(
                    name, golden, ours, goldens
                )
                yield self._check(
                    f"outputs: {name}",
                    error,
                    tolerance,
                    f"{file}:{name}",
                    *consumed,
                )

    def check_finetuning(self) -> Iterator[Check]:
        arguments = self.info["finetuning_hparams"]
        (task_name,) = arguments["task_names"]
        config = original_settings.encoder_config(arguments)
        task = by_name.get_task(
            task_name, self.folder / "finetuning_data" / task_name
        )
        model = finetuning_model.FinetuningModel(
            config, [task.make_head(config)]
        )
        variables = model.trainable_variables
        yield self._check_variables(
            "fine-tuning", variables, "finetuning_trainable_variables"
        )
        steps = self.info["finetuning_steps"]
        yield self._check(
            "fine-tuning: number of steps",
            abs(
                finetuning_configs.FinetuningDataConfig(
                    train_file="train",
                    dev_file="dev",
                    train_batch_size=arguments["train_batch_size"],
                    num_train_epochs=arguments["num_train_epochs"],
                ).num_train_steps(len(task.read_examples("train")))
                - steps
            ),
            0,
            "info.json:finetuning_steps",
            "info.json:finetuning_hparams",
        )
        name = f"finetuned.ckpt-{steps}"
        report = helpers.load_original(str(self.folder / name), variables)
        yield self._check(
            f"fine-tuning: {name} loads by path",
            len(report["missing"]) + len({*report["unused"]} - {"global_step"}),
            0,
            *(f"{name}:{variable}" for variable in report["used"]),
            *(f"{name}:{variable}" for variable in report["unused"]),
        )
        tokenizer = helpers.make_tokenizer(self.vocab_file)
        for split in PREDICTION_FILES:
            features = task.features(
                task.read_examples(split),
                tokenizer,
                arguments["max_seq_length"],
            )
            outputs = _predict(model, features, task_name)
            yield from self._check_predictions(split, outputs)
            if split == "dev":
                yield from self._check_scores(task, outputs)

    def _check_predictions(self, split: str, outputs: dict) -> Iterator[Check]:
        file = f"finetune_{split}_predictions.npz"
        goldens = comparison.read_npz(self.folder / file)
        for name, golden in goldens.items():
            error, tolerance = finetuning_parity.compare_output(
                name, golden, outputs, goldens, comparison.FORWARD_TOLERANCE
            )
            yield self._check(
                f"{split} predictions: {name}",
                error,
                tolerance,
                f"{file}:{name}",
            )

    def _check_scores(self, task, outputs: dict) -> Iterator[Check]:
        """The results of the one trial."""
        scores = task.scores(outputs)
        ((task_name, golden),) = self.info["finetuning_results"][0].items()
        for metric, value in golden.items():
            if metric in scores:
                yield self._check(
                    f"dev results: {task_name} {metric}",
                    comparison.relative_error(scores[metric], value),
                    comparison.FORWARD_TOLERANCE,
                    f"info.json:finetuning_results/0/{task_name}/{metric}",
                )


def _predict(model, features: dict, task_name: str) -> dict[str, np.ndarray]:
    """The head's outputs and the eids, without the task's name."""
    batch = {name: tf.constant(values) for name, values in features.items()}
    outputs = dict(model(batch)["task_outputs"][task_name])
    outputs["eid"] = batch[f"{task_name}_eid"]
    return {name: tensor.numpy() for name, tensor in outputs.items()}
