"""Compares fine-tuning models and their training with golden cases.

A case is a folder of finetune/ with a config.json. Its model starts from the
recorded checkpoint and reads the recorded batches; dropout is off, so
everything is determined.

Some gradients are zero but for rounding: a softmax does not change when all its
logits move together, so key biases and the biases of a question answering
start or end layer do nothing. Adam divides that rounding by its own size, so
after some updates these biases differ most between faithful implementations.
The tolerance from the case's own sensitivity covers them.

Two ways of training are recorded. They differ in the norm that clips the
gradients: `training_onehot` has the true norm, which is the default here, and
`training` has the norm of the rows of the word embeddings' gradient before
equal ones are added, which is the optimizer's clip_norm_of_unmerged_rows.
"""

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
from electra_tf.configs import QuestionAnsweringConfig
from electra_tf.model import encoder, finetuning_model
from electra_tf.tasks import by_name, tagging, text_tasks
from electra_tf.tasks.task import Task
from electra_tf.training import optimization
from tests import helpers, original_configs
from tests.parity import comparison
from tests.parity.cases import Case
from tests.parity.check import Check

NOT_COMPARED = {
    "finetune/*/config.json:seed": "of the original's own initial weights",
    "finetune/*/config.json:numpy_adamw_check_max_abs_diff": (
        "how far the original is from its own update in float64"
    ),
    "finetune/*/config.json:config/*": (
        "a setting of the run, the data or the machine, without effect on the "
        "numbers of a case"
    ),
    "finetune/*/hparams.json:*_batch_size": (
        "the recorded batches have their own size"
    ),
}

ENCODER_OUTPUTS = ("sequence_output", "pooled_output", "embedding_output")
NORMS = {
    "__global_norm_dense__": "global_norm_dense",
    "__global_norm_used_by_clip__": "global_norm_used_by_clip",
}
# All keys of a padding row are masked by adding -10000, where neighbouring
# float32 numbers are 2^-10 apart: its scores are rounded to such steps, and one
# that falls on the other side of a step moves the row by this much. Nothing is
# made of these rows, neither loss nor score.
PADDING_ROW_TOLERANCE = 2.0**-10
# Correlations, in per cent, are compared on their own scale.
CORRELATIONS = ("pearson", "spearman", "mcc")
# Logits below this are those of disallowed positions, about -1000.
DISALLOWED = -100.0


def cases(golden_dir: pathlib.Path) -> Iterator[Case]:
    """Every case of finetune/."""
    golden_dir = pathlib.Path(golden_dir)
    for path in sorted((golden_dir / "finetune").glob("*/config.json")):
        folder = path.parent
        yield Case(
            f"finetune/{folder.name}",
            functools.partial(_compare_folder, folder),
        )


def _compare_folder(folder: pathlib.Path) -> Iterator[Check]:
    yield from _Folder(folder).checks()


def make_task(name: str, labels, features: set[str], settings: dict) -> Task:
    """The task of a name, without files.

    Args:
      name: Of the original's tasks, or another.
      labels: Its labels, where it has any.
      features: Names of features, which tell the kind of an unknown task.
      settings: The original's, for question answering.
    """
    if f"{name}_labels_mask" in features:
        of_spans = {"O"} | {label for label in labels if "-" in label}
        return tagging.TaggingTask(
            name, {}, is_token_level=bool(set(labels) - of_spans), labels=labels
        )
    if f"{name}_start_positions" in features:
        fields = {f.name for f in dataclasses.fields(QuestionAnsweringConfig)}
        config = QuestionAnsweringConfig(
            **{k: v for k, v in settings.items() if k in fields}
        )
        return by_name.get_task(name, "", qa_config=config)
    if name in by_name.TASK_NAMES:
        return by_name.get_task(name, "")
    if f"{name}_targets" in features:
        return text_tasks.RegressionTask(name, 0.0, 1.0)
    return text_tasks.ClassificationTask(name, labels)


def compare_output(
    name: str, golden: np.ndarray, ours: dict, goldens: dict, tolerance: float
) -> tuple[float, float]:
    """Compares one array of a forward pass.

    Floats are compared relative to the largest one of the array, leaving
    disallowed positions (about -1000) out of that size: those are compared by
    themselves. Predictions must be equal, except where the logits are so close
    that an error within the tolerance may turn them. Where fewer positions are
    allowed than the beam is wide, the rest of a beam are disallowed ones, whose
    order is decided by rounding, and nothing that follows from them counts.

    Args:
      name: Of the golden array.
      golden: Its value.
      ours: All of our arrays.
      goldens: All golden arrays.
      tolerance: Of the relative error of floats.

    Returns:
      The error and its tolerance.
    """
    own = ours[name]
    if own.shape != golden.shape:
        return float("inf"), 0.0
    counts = np.ones(golden.shape, bool)
    if "_top_" in name:
        counts = _certain_beams(name, golden, ours, goldens, tolerance)
    if golden.dtype.kind != "f":
        logits = name.removesuffix("predictions") + "logits"
        if name.endswith("_predictions") and logits in goldens:
            counts &= ~_close_call(goldens[logits], own, tolerance)
        return comparison.num_different(own, golden, counts), 0.0
    if name.endswith("_start_logits") or name.endswith("_end_logits"):
        allowed = golden > DISALLOWED
        errors = [
            comparison.relative_error(own[part], golden[part])
            for part in (allowed, ~allowed)
        ]
        return max(errors), tolerance
    return (
        comparison.relative_error(own[counts], golden[counts]),
        tolerance,
    )


def _certain_beams(name, golden, ours, goldens, tolerance) -> np.ndarray:
    """Which entries of a beam can have one value only."""
    task = re.sub("_(start|end)_top_.*", "", name)
    part = "start" if f"{task}_start_top_" in name else "end"
    log_probs = goldens[f"{task}_{part}_top_log_probs"]
    certain = log_probs > DISALLOWED
    if part == "end":
        # An end belongs to its start, which must be the same.
        key = f"{task}_start_top_index"
        certain &= (ours[key] == goldens[key])[..., np.newaxis]
    if golden.dtype.kind == "f":
        return certain
    # Neighbours that are equal but for rounding may change places.
    slack = tolerance * comparison.magnitude(log_probs[certain])
    close = np.abs(np.diff(log_probs, axis=-1)) <= slack
    none = np.zeros((*close.shape[:-1], 1), bool)
    tied = np.concatenate([close, none], -1) | np.concatenate([none, close], -1)
    # Without beams all are zero, index and probability, and none is a tie.
    return certain & ~(tied & log_probs.any())


def _close_call(logits, predictions, tolerance) -> np.ndarray:
    """Whether a prediction's logit is the best but for the tolerance."""
    chosen = np.take_along_axis(logits, predictions[..., np.newaxis], -1)
    gap = logits.max(axis=-1) - chosen[..., 0]
    slack = tolerance * comparison.magnitude(logits)
    return (gap > 0) & (gap <= slack)


def _select(arrays: dict, rows: np.ndarray) -> dict[str, np.ndarray]:
    """These rows of all arrays that have rows."""
    return {
        name: values[rows]
        for name, values in arrays.items()
        if values.shape[: rows.ndim] == rows.shape
    }


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
    """

    arrays: dict[str, np.ndarray]
    weights: dict[str, np.ndarray]
    slots: dict[str, np.ndarray]


class _Folder:
    """One folder of finetune/."""

    def __init__(self, folder: pathlib.Path):
        self.folder = folder
        self.name = f"finetune/{folder.name}"
        self.golden = comparison.read_json(folder / "config.json")
        self.settings = self.golden["config"]
        self.sensitivity = self.golden["rounding_sensitivity"]
        with np.load(folder / "batches.npz") as batches:
            self.batches = {name: batches[name] for name in batches.files}
        self.num_batches = len(self.batches["input_ids"])
        self.config = original_settings.encoder_config(self.settings)
        self.tasks = [
            make_task(
                name,
                self.golden["labels"][name],
                set(self.batches),
                self.settings,
            )
            for name in self.settings["task_names"]
        ]
        self.model = finetuning_model.FinetuningModel(
            self.config, [task.make_head(self.config) for task in self.tasks]
        )
        self.sparse_tables: set[str] = set()
        self._forward = {
            teacher_forcing: tf.function(
                lambda batch, forced=teacher_forcing: self._named(batch, forced)
            )
            for teacher_forcing in (False, True)
        }

    def checks(self) -> Iterator[Check]:
        yield from self._check_settings()
        yield from self._check_variables()
        yield from self._check_initial_checkpoint()
        outputs = self._forward_all(teacher_forcing=False)
        yield from self._check_outputs("outputs_eval_mode", outputs)
        yield from self._check_outputs(
            "outputs_train_mode", self._forward_all(teacher_forcing=True)
        )
        yield from self._check_scores(outputs)
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
            name: tf.constant(values[index])
            for name, values in self.batches.items()
        }

    def _named(self, batch, teacher_forcing: bool) -> dict[str, tf.Tensor]:
        """One forward pass, its tensors under the names of golden arrays."""
        outputs = self.model(
            batch, teacher_forcing=teacher_forcing, return_layers=True
        )
        of_tasks = outputs["task_outputs"]
        named = {
            "task_id": outputs["task_id"],
            "total_loss": outputs["total_loss"],
            "per_example_loss": tf.stack(
                [of_tasks[task.name]["loss"] for task in self.tasks]
            ),
        }
        for name in ENCODER_OUTPUTS:
            named[name] = outputs["encoder_outputs"][name]
        for task, of_task in of_tasks.items():
            named[f"{task}_eid"] = batch[f"{task}_eid"]
            named |= {f"{task}_{k}": v for k, v in of_task.items()}
        return named

    def _check_settings(self) -> Iterator[Check]:
        """The same settings from the arguments as from all of them."""
        arguments = comparison.read_json(self.folder / "hparams.json")
        encoder_config = original_settings.encoder_config(arguments)
        differences = validation.differences(
            dataclasses.asdict(encoder_config), dataclasses.asdict(self.config)
        )
        known = {name for name in arguments if name in self.settings}
        different = [n for n in known if arguments[n] != self.settings[n]]
        yield self._check(
            "settings: from hparams.json",
            len(differences) + len(different),
            0,
            "hparams.json",
            *(f"hparams.json:{name}" for name in known),
        )
        names = {f.name for f in dataclasses.fields(configs.EncoderConfig)}
        golden = dict(self.golden["bert_config"])
        ours = {
            name: getattr(self.config, name)
            for name in names - {"embedding_size"}
        }
        yield self._check(
            "settings: encoder",
            len(validation.differences(ours, golden)),
            0,
            "config.json:bert_config",
            *(
                f"config.json:config/{name}"
                for name in (
                    "embedding_size",
                    "model_hparam_overrides",
                    "model_size",
                    "vocab_size",
                )
            ),
        )
        shape = self.batches["input_ids"].shape
        yield self._check(
            "settings: batches",
            abs(self.num_batches - self.golden["batches"])
            + abs(shape[2] - self.settings["max_seq_length"]),
            0,
            "config.json:batches",
            "config.json:config/max_seq_length",
            *(f"batches.npz:{name}" for name in self.batches),
        )
        labels = {
            task.name: getattr(task, "labels", None) for task in self.tasks
        }
        yield self._check(
            "settings: tasks and labels",
            labels != self.golden["labels"],
            0,
            "config.json:labels",
            "config.json:config/task_names",
            *(
                f"config.json:config/{field.name}"
                for field in dataclasses.fields(QuestionAnsweringConfig)
                if field.name in self.settings
            ),
        )
        num_dropouts = sum(
            isinstance(getattr(head, "dropout", None), encoder.Dropout)
            for head in self.model.task_specific.heads
        )
        yield self._check(
            "settings: heads with dropout",
            abs(
                num_dropouts - self.golden["head_dropouts_turned_into_identity"]
            ),
            0,
            "config.json:head_dropouts_turned_into_identity",
        )

    def _check_variables(self) -> Iterator[Check]:
        ours = [[v.path, list(v.shape)] for v in self.model.trainable_variables]
        golden = [
            [name.removesuffix(":0"), shape]
            for name, shape in self.golden["trainable_variables"]
        ]
        yield self._check(
            f"variables: {len(golden)} names and shapes, in order",
            float(ours != golden),
            0,
            "config.json:trainable_variables",
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

    def _forward_all(self, teacher_forcing: bool) -> dict[str, np.ndarray]:
        """Named outputs of all batches, a leading dimension for the batch."""
        run = self._forward[teacher_forcing]
        rows = [run(self._batch(i)) for i in range(self.num_batches)]
        return {
            name: np.stack([row[name].numpy() for row in rows])
            for name in rows[0]
        }

    def _check_outputs(
        self,
        file: str,
        ours: dict[str, np.ndarray],
        tolerance: float = comparison.FORWARD_TOLERANCE,
    ) -> Iterator[Check]:
        with np.load(self.folder / f"{file}.npz") as npz:
            goldens = {name: npz[name] for name in npz.files}
        is_padding = ~self.batches["input_mask"].any(axis=-1)
        for name, golden in goldens.items():
            if name not in ours:
                continue
            for kind, rows, of_rows in (
                ("", ~is_padding, tolerance),
                (" of padding rows", is_padding, PADDING_ROW_TOLERANCE),
            ):
                if golden.shape[:2] != is_padding.shape:  # One for a batch.
                    rows = np.full(golden.shape, not kind)
                if rows.any():
                    yield self._check(
                        f"{file}: {name}{kind}",
                        *compare_output(
                            name,
                            golden[rows],
                            _select(ours, rows),
                            _select(goldens, rows),
                            of_rows,
                        ),
                        f"{file}.npz:{name}",
                    )

    def _check_scores(self, outputs: dict[str, np.ndarray]) -> Iterator[Check]:
        path = self.folder / "scorer_results.json"
        if not path.exists():
            return
        for name, golden in comparison.read_json(path).items():
            index = self.settings["task_names"].index(name)
            own_rows = outputs["task_id"] == index
            scores = self.tasks[index].scores(
                {
                    key.removeprefix(f"{name}_"): values[own_rows]
                    for key, values in outputs.items()
                    if key.startswith(f"{name}_")
                }
            )
            for metric, value in golden.items():
                if metric in scores:
                    scale = 100.0 if metric in CORRELATIONS else abs(value)
                    yield self._check(
                        f"scores: {name} {metric}",
                        comparison.absolute_error(scores[metric], value)
                        / (scale or 1.0),
                        comparison.FORWARD_TOLERANCE,
                        f"scorer_results.json:{name}/{metric}",
                    )

    def _gradients(self, batch: dict):
        """Our named tensors of one batch, and a gradient for each variable."""
        with tf.GradientTape() as tape:
            named = self._named(batch, teacher_forcing=True)
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

    def _training_tolerance(self, golden, sensitivity: str) -> float:
        """The tolerance of an absolute error after the backward pass."""
        return max(
            comparison.TRAINING_TOLERANCE * comparison.magnitude(golden),
            comparison.SENSITIVITIES * self.sensitivity[sensitivity],
        )

    def _train(self, unmerged: bool) -> tuple[_Training, list]:
        """Replays the recorded updates from the initial checkpoint.

        Args:
          unmerged: See the optimizer's clip_norm_of_unmerged_rows.

        Returns:
          The run, and the gradients of its first step.
        """
        self._load(0)
        variables = self.model.trainable_variables
        config = original_configs.optimizer_config(
            self.settings, original_settings.FINETUNING
        )
        scales = {
            v.path: optimization.layerwise_scale(
                v.path,
                self.config.num_hidden_layers,
                config.layerwise_lr_decay,
            )
            for v in variables
        }
        optimizer = optimization.AdamWeightDecay(
            config,
            self.golden["num_train_steps"],
            scales,
            clip_norm_of_unmerged_rows=unmerged,
        )
        optimizer.build(variables)
        kept = ("total_loss", "per_example_loss")

        @tf.function
        def step(batch):
            named, gradients = self._gradients(batch)
            dense = _dense(gradients)
            record = {name: named[name] for name in kept}
            record["global_norm_dense"] = tf.linalg.global_norm(dense)
            record["global_norm_used_by_clip"] = optimizer.apply_summed(
                gradients, variables
            )
            return record, dense

        records, first_gradients = [], []
        for index in range(self.golden["steps"]):
            rate = float(optimizer.learning_rate)
            record, dense = step(self._batch(index % self.num_batches))
            if index == 0:
                first_gradients = dense
            record["learning_rate_per_variable"] = tf.constant(
                [rate * scales[v.path] for v in variables]
            )
            records.append(record)
        training = _Training(
            arrays={
                name: np.stack([record[name].numpy() for record in records])
                for name in records[0]
            },
            weights={v.path: v.numpy() for v in variables},
            slots={
                name: slot.numpy() for name, slot in optimizer.slots().items()
            },
        )
        return training, first_gradients

    def _check_training(self) -> Iterator[Check]:
        one_hot, _ = self._train(unmerged=False)
        yield from self._check_trajectory("training_onehot", one_hot)
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
        gather, gradients = self._train(unmerged=True)
        yield from self._check_gradients(gradients, gather)
        yield from self._check_trajectory("training", gather)
        yield from self._check_final_checkpoint(gather)
        # The model now has the final weights.
        yield from self._check_outputs(
            "outputs_eval_mode_after_training",
            self._forward_all(teacher_forcing=False),
            comparison.TRAINING_TOLERANCE,
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

    def _check_gradients(self, gradients, training) -> Iterator[Check]:
        variables = self.model.trainable_variables
        ours = {
            variable.path: gradient.numpy()
            for variable, gradient in zip(variables, gradients, strict=True)
            if gradient is not None
        }
        with np.load(self.folder / "gradients_batch0.npz") as goldens:
            for name in goldens.files:
                if name in NORMS:
                    # The first update is that of batch 0.
                    yield self._check(
                        f"gradients: {NORMS[name]}",
                        comparison.relative_error(
                            training.arrays[NORMS[name]][0], goldens[name]
                        ),
                        comparison.TRAINING_TOLERANCE,
                        f"gradients_batch0.npz:{name}",
                    )
                elif name in ours:
                    golden = goldens[name]
                    yield self._check(
                        f"gradients: {name}",
                        comparison.absolute_error(ours[name], golden),
                        self._training_tolerance(golden, "gradients_batch0"),
                        f"gradients_batch0.npz:{name}",
                        "config.json:rounding_sensitivity",
                    )
            named = set(goldens.files) - set(NORMS)
        without = {
            name.removesuffix(":0") for name in self.golden["gradient_is_none"]
        }
        yield self._check(
            "gradients: which variables have one",
            len(set(ours) ^ named)
            + len({v.path for v in variables} - named ^ without),
            0,
            "config.json:gradient_is_none",
        )
        sparse = {
            name.removesuffix(":0")
            for name in self.golden["gradient_is_indexed_slices"]
        }
        yield self._check(
            "gradients: which are sparse",
            len(self.sparse_tables ^ sparse)
            + len(self.golden["tpu_style_gradient_is_indexed_slices"]),
            0,
            "config.json:gradient_is_indexed_slices",
            "config.json:tpu_style_gradient_is_indexed_slices",
        )

    def _check_trajectory(self, file: str, training: _Training):
        sensitivity = comparison.SENSITIVITIES * max(
            self.sensitivity["total_loss_per_step"]
        )
        with np.load(self.folder / f"{file}.npz") as goldens:
            for name in goldens.files:
                if name not in training.arrays:
                    continue
                golden = goldens[name]
                tolerance = comparison.TRAINING_TOLERANCE
                if name.endswith("_loss"):
                    tolerance = max(
                        tolerance, sensitivity / comparison.magnitude(golden)
                    )
                elif name.startswith("learning_rate"):
                    tolerance = comparison.FORWARD_TOLERANCE
                yield self._check(
                    f"{file}: {name}",
                    comparison.relative_error(training.arrays[name], golden),
                    tolerance,
                    f"{file}.npz:{name}",
                    "config.json:num_train_steps",
                    *(
                        f"config.json:config/{setting}"
                        for setting in (
                            "layerwise_lr_decay",
                            "learning_rate",
                            "warmup_proportion",
                            "weight_decay_rate",
                        )
                    ),
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
        for name, golden in tensors.items():
            entry = f"{prefix}:{name}"
            if name in training.weights:
                yield self._check_weights(
                    "as recorded", name, training.weights[name], golden, entry
                )
            elif name in training.slots:
                yield self._check(
                    f"optimizer slots {name[-6:]}: {name}",
                    comparison.absolute_error(training.slots[name], golden),
                    self._training_tolerance(golden, "gradients_batch0"),
                    entry,
                )
        slots = {name for name in tensors if re.search("/adam_[mv]$", name)}
        has_slots = self.golden["final_checkpoint_has_optimizer_slots"]
        yield self._check(
            "final weights: names",
            len(training.weights.keys() - tensors.keys())
            + len(slots ^ (set(training.slots) if has_slots else set())),
            0,
            "config.json:steps",
            "config.json:final_checkpoint_has_optimizer_slots",
        )
