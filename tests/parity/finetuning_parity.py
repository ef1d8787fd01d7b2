"""Compares fine-tuning models and their training with golden cases.

A case is a folder of finetune/ with a config.json. Its model starts from the
recorded checkpoint and reads the recorded batches; dropout is off, so
everything is determined.
"""

import dataclasses
import pathlib
import re
from collections.abc import Iterator

import numpy as np
import tensorflow as tf

from electra_tf import configs, validation
from electra_tf.command_line import original_settings
from electra_tf.configs import QuestionAnsweringConfig
from electra_tf.model import encoder, finetuning_model
from electra_tf.tasks import by_name, tagging, text_tasks
from electra_tf.tasks.task import Task
from electra_tf.training import optimization
from tests import original_configs
from tests.parity import comparison, recorded_run
from tests.parity.cases import Case
from tests.parity.check import Check

NOT_COMPARED = recorded_run.not_compared("finetune") | {
    "finetune/*/config.json:config/*": (
        "a setting of the run, the data or the machine, without effect on the "
        "numbers of a case"
    ),
    "finetune/*/hparams.json:*_batch_size": (
        "the recorded batches have their own size"
    ),
}

ENCODER_OUTPUTS = ("sequence_output", "pooled_output", "embedding_output")
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
    return recorded_run.cases(golden_dir, "finetune", _Folder)


def qa_config(settings: dict) -> QuestionAnsweringConfig:
    fields = {f.name for f in dataclasses.fields(QuestionAnsweringConfig)}
    return QuestionAnsweringConfig(
        **{name: v for name, v in settings.items() if name in fields}
    )


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
        return by_name.get_task(name, "", qa_config=qa_config(settings))
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
        if name.endswith("predictions") and logits in goldens:
            counts &= ~comparison.close_call(goldens[logits], own, tolerance)
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


def _select(arrays: dict, rows: np.ndarray) -> dict[str, np.ndarray]:
    """These rows of all arrays that have rows."""
    return {
        name: values[rows]
        for name, values in arrays.items()
        if values.shape[: rows.ndim] == rows.shape
    }


class _Folder(recorded_run.RecordedRun):
    """One folder of finetune/."""

    training_settings = (
        "num_train_steps",
        "config/layerwise_lr_decay",
        "config/learning_rate",
        "config/warmup_proportion",
        "config/weight_decay_rate",
    )

    def __init__(self, folder: pathlib.Path):
        super().__init__(folder)
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
        config = original_configs.optimizer_config(
            self.settings, original_settings.FINETUNING
        )
        self.optimizer_config = config
        self.scales = {
            v.path: optimization.layerwise_scale(
                v.path,
                self.config.num_hidden_layers,
                config.layerwise_lr_decay,
            )
            for v in self.model.trainable_variables
        }

    def checks(self) -> Iterator[Check]:
        yield from self._check_settings()
        yield from self.check_variables()
        yield from self.check_initial_checkpoint()
        outputs = self._forward_all(teacher_forcing=False)
        yield from self._check_outputs("outputs_eval_mode", outputs)
        yield from self._check_outputs(
            "outputs_train_mode", self._forward_all(teacher_forcing=True)
        )
        yield from self._check_scores(outputs)
        yield from self.check_training(*self.train())
        # The model now has the final weights.
        yield from self._check_outputs(
            "outputs_eval_mode_after_training",
            self._forward_all(teacher_forcing=False),
            comparison.TRAINING_TOLERANCE,
        )

    def optimizer(self, unmerged):
        return optimization.AdamWeightDecay(
            self.optimizer_config,
            self.golden["num_train_steps"],
            self.scales,
            clip_norm_of_unmerged_rows=unmerged,
        )

    def rates(self, learning_rate):
        return {
            "learning_rate_per_variable": [
                learning_rate * scale for scale in self.scales.values()
            ]
        }

    def records(self, named):
        return {
            name: named[name] for name in ("total_loss", "per_example_loss")
        }

    def slot_tolerance(self, name, golden, training):
        return self.training_tolerance(golden, "gradients_batch0")

    def named(self, batch, teacher_forcing=True):
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
        yield self.check(
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
        yield self.check(
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
        yield self.check(
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
        yield self.check(
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
        yield self.check(
            "settings: heads with dropout",
            abs(
                num_dropouts - self.golden["head_dropouts_turned_into_identity"]
            ),
            0,
            "config.json:head_dropouts_turned_into_identity",
        )

    def _forward_all(self, teacher_forcing: bool) -> dict[str, np.ndarray]:
        """Named outputs of all batches, a leading dimension for the batch."""
        run = tf.function(lambda batch: self.named(batch, teacher_forcing))
        rows = [run(self.batch(i)) for i in range(self.num_batches)]
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
        goldens = self.read(f"{file}.npz")
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
                    yield self.check(
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
                    yield self.check(
                        f"scores: {name} {metric}",
                        comparison.absolute_error(scores[metric], value)
                        / (scale or 1.0),
                        comparison.FORWARD_TOLERANCE,
                        f"scorer_results.json:{name}/{metric}",
                    )
