"""One recorded run of the original, pre-training or fine-tuning, replayed.

A run is a folder with a config.json. Its model starts from the recorded
checkpoint and reads the recorded batches, so everything is determined.

Some gradients are zero but for rounding: a softmax does not change when all its
logits move together, so key biases and the biases of a question answering
start or end layer do nothing. Adam divides that rounding by its own size, so
after some updates these biases differ most between faithful implementations.
The tolerance from the case's own sensitivity covers them.

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
from collections.abc import Callable, Iterator

import numpy as np
import tensorflow as tf

from electra_tf.checkpoints.formats import original
from electra_tf.training import optimization
from tests import helpers
from tests.parity import comparison
from tests.parity.cases import Case
from tests.parity.check import Check

NORMS = {
    "__global_norm_dense__": "global_norm_dense",
    "__global_norm_used_by_clip__": "global_norm_used_by_clip",
}
# How these two could go apart shows in the losses alone.
_LOSSES = ("total_loss", "per_example_loss")


def not_compared(group: str) -> dict[str, str]:
    """What of the runs of a group nobody can compare, and why."""
    return {
        f"{group}/*/config.json:seed": "of the original's own initial weights",
        f"{group}/*/config.json:numpy_adamw_check_max_abs_diff": (
            "how far the original is from its own update in float64"
        ),
    }


def cases(
    golden_dir: pathlib.Path, group: str, run: Callable
) -> Iterator[Case]:
    """A case for each folder of a group; `run` makes a `RecordedRun` of it."""
    for path in sorted((golden_dir / group).glob("*/config.json")):
        folder = path.parent
        yield Case(
            f"{group}/{folder.name}",
            functools.partial(lambda folder: run(folder).checks(), folder),
        )


@contextlib.contextmanager
def _graphs_as_traced() -> Iterator[None]:
    """Rewriting a graph takes longer than twenty steps of a tiny model."""
    set_options = tf.config.optimizer.set_experimental_options
    set_options({"disable_meta_optimizer": True})
    try:
        yield
    finally:
        set_options({"disable_meta_optimizer": False})


def names_of(names: list[str]) -> set[str]:
    return {name.removesuffix(":0") for name in names}


@dataclasses.dataclass
class Training:
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


class RecordedRun:
    """One folder; a subclass makes `model` and knows its outputs."""

    # Of config.json, what the updates follow from.
    training_settings: tuple[str, ...] = ()
    variables_are_in_order = True
    model: tf.keras.Model

    def __init__(self, folder: pathlib.Path):
        self.folder = folder
        self.name = f"{folder.parent.name}/{folder.name}"
        self.golden = comparison.read_json(folder / "config.json")
        self.settings = self.golden["config"]
        self.sensitivity = self.golden["rounding_sensitivity"]
        self.batches = comparison.read_npz(folder / "batches.npz")
        self.num_batches = len(self.batches["input_ids"])
        self.sparse_tables: set[str] = set()

    # What a subclass says.

    def checks(self) -> Iterator[Check]:
        raise NotImplementedError

    def named(self, batch: dict) -> dict[str, tf.Tensor]:
        """One forward pass of training, as the golden arrays are named."""
        raise NotImplementedError

    def optimizer(self, unmerged: bool) -> optimization.AdamWeightDecay:
        raise NotImplementedError

    def rates(self, learning_rate: float) -> dict:
        """The learning rates of a step, as training.npz names them."""
        raise NotImplementedError

    def records(self, named: dict) -> dict:
        """What of a step's tensors is kept."""
        raise NotImplementedError

    def slot_tolerance(self, name: str, golden, training: Training) -> float:
        raise NotImplementedError

    def certain(self, name, golden, ours, goldens) -> np.ndarray | None:
        """Which integers of a trajectory rounding cannot turn; None for all."""
        return None

    # What they share.

    def check(self, compared, error, tolerance, *consumed: str) -> Check:
        return Check.of(self.name, compared, error, tolerance, consumed)

    def read(self, file: str) -> dict[str, np.ndarray]:
        return comparison.read_npz(self.folder / file)

    def batch(self, index: int) -> dict[str, tf.Tensor]:
        return {
            name: tf.constant(values[index])
            for name, values in self.batches.items()
        }

    def load(self, step: int) -> dict[str, list[str]]:
        return helpers.load_original(
            str(self.folder / f"model.ckpt-{step}"),
            self.model.trainable_variables,
        )

    def check_variables(self) -> Iterator[Check]:
        ours = [[v.path, list(v.shape)] for v in self.model.trainable_variables]
        golden = [
            [name.removesuffix(":0"), shape]
            for name, shape in self.golden["trainable_variables"]
        ]
        if not self.variables_are_in_order:
            ours, golden = sorted(ours), sorted(golden)
        yield self.check(
            f"variables: {len(golden)} names and shapes",
            ours != golden,
            0,
            "config.json:trainable_variables",
        )

    def check_initial_checkpoint(self) -> Iterator[Check]:
        report = self.load(0)
        yield self.check(
            f"checkpoint 0: {len(report['used'])} variables loaded",
            len(report["missing"]) + len({*report["unused"]} - {"global_step"}),
            0,
            *(f"model.ckpt-0:{name}" for name in report["used"]),
        )
        yield self._check_global_step(0, self._tensors(0))

    def _tensors(self, step: int) -> dict[str, np.ndarray]:
        prefix = str(self.folder / f"model.ckpt-{step}")
        return dict(original.open_by_name(prefix))

    def _check_global_step(self, step: int, tensors: dict) -> Check:
        return self.check(
            f"checkpoint {step}: global_step",
            abs(int(tensors["global_step"]) - step),
            0,
            f"model.ckpt-{step}:global_step",
        )

    def training_tolerance(self, golden, sensitivity: str) -> float:
        """The tolerance of an absolute error after the backward pass."""
        return max(
            comparison.TRAINING_TOLERANCE * comparison.magnitude(golden),
            comparison.SENSITIVITIES * self.sensitivity[sensitivity],
        )

    def _gradients(self, batch: dict):
        """Our named tensors of one batch, and a gradient for each variable."""
        with tf.GradientTape() as tape:
            named = self.named(batch)
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

    def _train(self, unmerged: bool) -> Training:
        """Replays the recorded updates from the initial checkpoint."""
        self.load(0)
        variables = self.model.trainable_variables
        optimizer = self.optimizer(unmerged)
        optimizer.build(variables)

        @tf.function(autograph=False)
        def step(batch):
            named, gradients = self._gradients(batch)
            dense = [
                None if gradient is None else tf.convert_to_tensor(gradient)
                for gradient in gradients
            ]
            record = self.records(named)
            record["global_norm_dense"] = tf.linalg.global_norm(dense)
            record["global_norm_used_by_clip"] = optimizer.apply_summed(
                gradients, variables
            )
            return record, dense

        records = []
        first_gradients: dict[str, np.ndarray] = {}
        for index in range(self.golden["steps"]):
            rates = self.rates(float(optimizer.learning_rate))
            record, dense = step(self.batch(index % self.num_batches))
            first_gradients = first_gradients or {
                v.path: gradient.numpy()
                for v, gradient in zip(variables, dense, strict=True)
                if gradient is not None
            }
            records.append(
                {name: tensor.numpy() for name, tensor in record.items()}
                | rates
            )
        return Training(
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

    def train(self) -> tuple[Training, Training]:
        """As `training` and as `training_onehot`."""
        with _graphs_as_traced():
            gather = one_hot = self._train(unmerged=False)
            if self.sparse_tables:  # Without one the two ways are the same.
                gather = self._train(unmerged=True)
        return gather, one_hot

    def check_training(self, gather, one_hot) -> Iterator[Check]:
        yield from self._check_gradients(gather)
        yield from self._check_trajectory("training", gather)
        yield from self._check_trajectory("training_onehot", one_hot)
        apart = max(
            comparison.absolute_error(one_hot.weights[name], weights)
            for name, weights in gather.weights.items()
        )
        recorded = self.golden["final_max_abs_diff_onehot_vs_gather"]
        yield self.check(
            "training: how far the two ways part",
            abs(apart - recorded),
            self.training_tolerance(recorded, "final_weights"),
            "config.json:final_max_abs_diff_onehot_vs_gather",
        )
        yield from self._check_final_checkpoint(gather)
        file = "final_weights_onehot.npz"
        if (self.folder / file).exists():
            for name, golden in self.read(file).items():
                if name in one_hot.weights:
                    yield self._check_weights(
                        "one-hot", name, one_hot, golden, f"{file}:{name}"
                    )

    def _check_gradients(self, training: Training) -> Iterator[Check]:
        # The first update is that of batch 0 and the initial weights.
        goldens = self.read("gradients_batch0.npz")
        ours = training.first_gradients
        for name, golden in goldens.items():
            if name in NORMS:
                error = comparison.relative_error(
                    training.arrays[NORMS[name]][0], golden
                )
                tolerance = comparison.TRAINING_TOLERANCE
            elif name in ours:
                error = comparison.absolute_error(ours[name], golden)
                tolerance = self.training_tolerance(golden, "gradients_batch0")
            else:
                continue
            yield self.check(
                f"gradients: {name}",
                error,
                tolerance,
                f"gradients_batch0.npz:{name}",
                "config.json:rounding_sensitivity",
            )
        named = goldens.keys() - NORMS.keys()
        variables = {v.path for v in self.model.trainable_variables}
        without = names_of(self.golden["gradient_is_none"])
        yield self.check(
            "gradients: which variables have one",
            len(ours.keys() ^ named) + len((variables - named) ^ without),
            0,
            "config.json:gradient_is_none",
        )
        sparse = names_of(self.golden["gradient_is_indexed_slices"])
        one_hot = self.golden["tpu_style_gradient_is_indexed_slices"]
        yield self.check(
            "gradients: which are sparse",
            len(self.sparse_tables ^ sparse) + len(one_hot),
            0,
            "config.json:gradient_is_indexed_slices",
            "config.json:tpu_style_gradient_is_indexed_slices",
        )

    def _check_trajectory(self, file: str, training: Training):
        goldens = self.read(f"{file}.npz")
        rounding = comparison.SENSITIVITIES * max(
            self.sensitivity["total_loss_per_step"]
        )
        for name, golden in goldens.items():
            if name not in training.arrays:
                continue
            ours = training.arrays[name]
            if golden.dtype.kind != "f":
                where = self.certain(name, golden, training.arrays, goldens)
                error = comparison.num_different(ours, golden, where)
                tolerance = 0.0
            else:
                error = comparison.relative_error(ours, golden)
                tolerance = comparison.TRAINING_TOLERANCE
                if name in _LOSSES:
                    size = comparison.magnitude(golden)
                    tolerance = max(tolerance, rounding / size)
                elif name.startswith("learning_rate"):
                    tolerance = comparison.FORWARD_TOLERANCE
            yield self.check(
                f"{file}: {name}",
                error,
                tolerance,
                f"{file}.npz:{name}",
                *(f"config.json:{entry}" for entry in self.training_settings),
            )

    def _check_weights(self, way, name, training, golden, entry) -> Check:
        return self.check(
            f"final weights, {way}: {name}",
            comparison.absolute_error(training.weights[name], golden),
            self.training_tolerance(golden, "final_weights"),
            entry,
        )

    def _check_final_checkpoint(self, training: Training) -> Iterator[Check]:
        step = self.golden["steps"]
        tensors = self._tensors(step)
        yield self._check_global_step(step, tensors)
        for name, golden in tensors.items():
            entry = f"model.ckpt-{step}:{name}"
            if name in training.weights:
                yield self._check_weights(
                    "as recorded", name, training, golden, entry
                )
            elif name in training.slots:
                yield self.check(
                    f"optimizer slots {name[-6:]}: {name}",
                    comparison.absolute_error(training.slots[name], golden),
                    self.slot_tolerance(name, golden, training),
                    entry,
                )
        slots = {name for name in tensors if re.search("/adam_[mv]$", name)}
        has_slots = self.golden["final_checkpoint_has_optimizer_slots"]
        yield self.check(
            "final weights: names",
            len(training.weights.keys() - tensors.keys())
            + len(slots ^ (training.slots.keys() if has_slots else set())),
            0,
            "config.json:steps",
            "config.json:final_checkpoint_has_optimizer_slots",
        )
