"""Tests of training/engine.py."""

import dataclasses
import json
import math
import os
import signal
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from electra_tf import configs, errors, pretraining
from electra_tf.model import ablations, losses
from electra_tf.pretraining_data import batches
from electra_tf.training import engine as engine_lib
from electra_tf.training import (
    loop,
    metrics_log,
    optimization,
    replicas,
    saving,
)
from tests import helpers
from tests.model import electra_test

# A model of one weight, which trains in no time: loss (w - x)^2 / 2.


class OneWeight(keras.Model):
    def __init__(self):
        super().__init__(name="one_weight")
        self.w = self.add_weight(name="w", shape=(), initializer="zeros")
        self.built = True


def numbers_dataset(batch_size, first_step, shard):
    """The example of step s is s."""
    del batch_size, shard
    return tf.data.Dataset.counter(first_step).map(
        lambda step: {"x": tf.cast(step, tf.float32)}
    )


def square_loss(model):
    def loss_function(features, dropout_seed, all_reduce_sum):
        del dropout_seed, all_reduce_sum
        loss = tf.square(model.w.value - features["x"]) / 2
        return loss, {"x": losses.Sums(features["x"], tf.constant(1.0))}

    return loss_function


def loss_of(change):
    """`square_loss` of another x."""

    def loss_function(model):
        of_x = square_loss(model)
        return lambda features, *args: of_x({"x": change(features["x"])}, *args)

    return loss_function


def one_weight_engine(
    run, loss_function=square_loss, dataset=numbers_dataset, batch_size=1
):
    strategy = replicas.make_strategy(run)
    with strategy.scope():
        model = OneWeight()
        loss = loss_function(model)
        optimizer = optimization.AdamWeightDecay(
            configs.OptimizerConfig(0.1, num_warmup_steps=0), 100
        )
        return engine_lib.Engine(
            strategy, model, loss, optimizer, run, batch_size, dataset
        )


def read_log(run):
    return metrics_log.read(os.path.join(run.model_dir, "metrics.jsonl"))


def steps(run, split):
    return [r["step"] for r in read_log(run) if r["split"] == split]


def summaries(folder, name):
    """Step -> value of a metric, of TensorBoard's one file in a folder."""
    (path,) = folder.iterdir()
    return {
        event.step: float(tf.make_ndarray(value.tensor))
        for event in tf.compat.v1.train.summary_iterator(str(path))
        for value in event.summary.value
        if value.tag == name
    }


def test_trains_to_the_last_step(tmp_path):
    run = helpers.run_config(tmp_path, steps_per_loop=3)
    engine = one_weight_engine(run)
    loop.train(engine, 8, "training", ("total_loss",))
    assert int(engine.global_step) == 8
    assert tf.train.latest_checkpoint(run.model_dir).endswith("model.ckpt-8")
    log = read_log(run)
    assert [record["step"] for record in log] == [3, 6, 8]
    # Means over the steps since the last line: 0, 1, 2, then 3, 4, 5...
    assert [record["x"] for record in log] == [1, 4, 6.5]
    # 0.1 * (1 - step / 100), at steps 0, 1, 2 and so on.
    assert [r["learning_rate"] for r in log] == pytest.approx(
        [0.099, 0.096, 0.0935]
    )
    assert log[0]["gradient_norm"] > 0
    assert log[0]["examples_per_second"] > 0
    assert summaries(tmp_path / "train", "x") == {3: 1, 6: 4, 8: 6.5}
    assert list(summaries(tmp_path / "train", "steps_per_second")) == [3, 6, 8]


def test_looks_soon_after_the_start(tmp_path):
    run = helpers.run_config(tmp_path, steps_per_loop=20)
    loop.train(one_weight_engine(run), 45, "training", ("total_loss",))
    assert steps(run, "train") == [1, 5, 10, 15, 20, 40, 45]


def test_a_loss_that_grows_from_the_first_step_on_ends_the_run(tmp_path):
    """As by a learning rate of 10: the mean of some steps is no measure."""

    loss_function = loss_of(lambda x: tf.where(x > 0, 1e5, x))
    run = helpers.run_config(tmp_path, steps_per_loop=20)
    with pytest.raises(errors.TrainingError, match="1 and 5.*the first, 0;"):
        loop.train(one_weight_engine(run, loss_function), 8, "training", ("x",))


def test_evaluates_every_eval_steps(tmp_path, capsys):
    run = helpers.run_config(tmp_path, steps_per_loop=4, eval_steps=3)
    args = (8, "training", ("x",), lambda: {"disc_auc": 0.5})
    loop.train(one_weight_engine(run), *args)
    # And at the end.
    assert steps(run, "heldout") == [3, 6, 8]
    assert steps(run, "train") == [3, 4, 6, 8]
    assert os.listdir(tmp_path / "eval")
    said = capsys.readouterr().err
    assert "held-out at step 3: disc_auc 0.5" in said
    assert said.count("RunConfig.keep_best_metric='total_loss' is none of") == 1


@pytest.mark.parametrize(
    ("x", "line"),
    [
        (math.nan, "became nan between steps 4 and 6; nothing was saved after"),
        # Squared, halved, and the mean of the two steps of a look.
        (1e3, "became 2.491e.05 between steps 4 and 6, more than RunConf"),
    ],
)
def test_a_loss_of_no_use_ends_the_run(tmp_path, x, line):
    loss_function = loss_of(lambda step: tf.where(step == 5, x, step))
    run = helpers.run_config(tmp_path, save_checkpoints_steps=2)
    with pytest.raises(errors.TrainingError, match=f"^The loss {line}.*step 4"):
        loop.train(one_weight_engine(run, loss_function), 8, "training", ("x",))
    assert steps(run, "train") == [2, 4]
    # What was saved is from before.
    assert tf.train.latest_checkpoint(run.model_dir).endswith("model.ckpt-4")
    if math.isfinite(x):
        # Measured by the first loss, not by that of the step it goes on from.
        with pytest.raises(errors.TrainingError, match="times the first, 0.2"):
            loop.train(one_weight_engine(run, loss_function), 8, "again", ())
        bold = dataclasses.replace(run, max_loss_growth=0.0)
        loop.train(one_weight_engine(bold, loss_function), 8, "bold", ())


@pytest.mark.parametrize("eval_steps", [0, 4])
def test_weights_that_an_update_destroyed_are_not_saved(tmp_path, eval_steps):
    """The loss of a step does not tell: it is that of the weights before."""
    run = helpers.run_config(
        tmp_path, save_checkpoints_steps=2, eval_steps=eval_steps
    )
    engine = one_weight_engine(run)

    def destroy(step, metrics):
        assert math.isfinite(metrics["total_loss"])
        if step == 4:
            engine.model.w.assign(math.inf)
        return {}

    args = (8, "training", (), lambda: {"total_loss": 1.0}, destroy)
    line = f"^The update of step 4 left NaN or .* in {engine.model.w.path}; "
    with pytest.raises(errors.TrainingError, match=line):
        loop.train(engine, *args)
    assert steps(run, "heldout") == []
    assert tf.train.latest_checkpoint(run.model_dir).endswith("model.ckpt-2")


def send(number):
    """An evaluation during which a signal comes."""

    def evaluate():
        os.kill(os.getpid(), number)
        return {}

    return evaluate


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_and_saves(tmp_path, number, capsys):
    run = helpers.run_config(tmp_path, eval_steps=4)
    before = signal.getsignal(number)
    args = (8, "training", ("x",), send(number))
    name = signal.Signals(number).name
    line = f"^{name} at step 4: saved in {tmp_path}; run again to go on$"
    with pytest.raises(errors.Stopped, match=line):
        loop.train(one_weight_engine(run), *args)
    assert f"{name}: saving and leaving" in capsys.readouterr().err
    assert tf.train.latest_checkpoint(run.model_dir).endswith("model.ckpt-4")
    assert signal.getsignal(number) is before


def test_a_second_signal_leaves_at_once(capsys):
    with loop.StopRequests() as requests:
        os.kill(os.getpid(), signal.SIGTERM)
        assert requests.signal_name == "SIGTERM"
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


def test_a_signal_in_the_last_stretch_stops_too(tmp_path):
    """More may come after it: another trial, or the last evaluation."""
    run = helpers.run_config(tmp_path, eval_steps=8)
    args = (8, "training", ("total_loss",))
    with pytest.raises(errors.Stopped, match="SIGTERM at step 8: "):
        loop.train(one_weight_engine(run), *args, send(signal.SIGTERM))
    again = one_weight_engine(run)
    loop.train(again, *args, pytest.fail)
    assert int(again.global_step) == 8


# ELECTRA.


@pytest.fixture(scope="module")
def data_pattern(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    helpers.write_tfrecords(
        folder / "a.tfrecord", [helpers.row(n) for n in range(20)]
    )
    return f"{folder}/*.tfrecord"


def electra_engine(run, data_pattern, batch_size=4, objective=None, **changes):
    replicas.set_policy(run)
    config = helpers.electra_config(
        helpers.encoder_config(num_hidden_layers=1, **changes),
        **(objective or {}),
    )
    data = batches.PretrainingData(data_pattern, config, run.seed)
    strategy = replicas.make_strategy(run)
    with strategy.scope():
        model = ablations.make_model(
            config,
            electra_test.SPECIAL,
            np.arange(config.encoder.vocab_size) % 3 == 0,
        )
        if config.unigram_generator:
            model.set_unigram_generator(data.token_frequencies())
        optimizer = optimization.AdamWeightDecay(
            configs.OptimizerConfig(1e-2, num_warmup_steps=2),
            run.num_train_steps,
        )
        args = (model, model.training_loss, optimizer, run, batch_size)
        return engine_lib.Engine(strategy, *args, data.dataset)


def refusal_of_run(folder, data_pattern):
    """What a run says before its first step of an odd number of examples."""
    data = dict.fromkeys(("train_files", "heldout_files"), data_pattern)
    data |= {"train_batch_size": 4, "eval_batch_size": 3}
    data["vocab_file"] = helpers.write_vocab(folder)
    config = helpers.pretraining_config(folder, data=data)
    try:
        pretraining.pretrain(config, sys.exit)
    except errors.ConfigError as error:
        return str(error)


def state(engine):
    """Every variable of a run, under its name."""
    values = {v.path: v.numpy() for v in engine.model.variables}
    values |= {k: v.numpy() for k, v in engine.optimizer.slots().items()}
    values["iterations"] = engine.optimizer.iterations.numpy()
    values["global_step"] = engine.global_step.numpy()
    return values


@pytest.fixture(scope="module")
def engine(tmp_path_factory, data_pattern):
    """An engine that no test trains."""
    run = helpers.run_config(tmp_path_factory.mktemp("model"))
    return electra_engine(run, data_pattern)


def test_evaluation_equals_one_big_batch(engine):
    big = engine.evaluate_on(engine.train_dataset, 12, 1)
    parts = engine.evaluate_on(engine.train_dataset, 4, 3)
    # The total loss is a mean of means, the metrics are not.
    del big["total_loss"], parts["total_loss"]
    assert "disc_auc" in big
    assert parts == pytest.approx(big, rel=1e-5)


def test_evaluation_does_not_change_the_run(engine, monkeypatch):
    before = state(engine)
    first = engine.evaluate_on(engine.train_dataset, 4, 3)
    loops = []
    run = dataclasses.replace(engine.run, steps_per_loop=2)
    monkeypatch.setattr(engine, "run", run)
    again = engine.evaluate_on(
        engine.train_dataset, 4, 3, lambda: loops.append(1)
    )
    assert again == first
    assert len(loops) == 2
    for name, value in state(engine).items():
        np.testing.assert_array_equal(value, before[name], name)


def test_every_variable_survives_a_checkpoint(tmp_path, engine):
    def checkpoint():
        return saving.checkpointed_variables(
            engine.model, engine.optimizer, engine.global_step
        )

    variables = [v.value for v in engine.model.variables]
    variables += [v.value for v in engine.optimizer.slots().values()]
    variables += [engine.optimizer.iterations.value, engine.global_step]
    for i, variable in enumerate(variables):
        variable.assign(tf.fill(variable.shape, tf.cast(i + 1, variable.dtype)))
    before = state(engine)
    # Two slots a variable, nothing forgotten.
    assert len(before) == 3 * len(engine.model.variables) + 2 == len(variables)
    path = checkpoint().write(str(tmp_path / "checkpoint"))
    for variable in variables:
        variable.assign(variable + tf.ones([], variable.dtype))
    for name, value in state(engine).items():
        assert (value != before[name]).all(), name
    checkpoint().read(path).assert_consumed()
    after = state(engine)
    for name, value in before.items():
        np.testing.assert_array_equal(after[name], value, name)


@pytest.mark.parametrize("names", [("a", "b"), ("a",)])
def test_refuses_a_checkpoint_of_other_variables(tmp_path, names):
    """One is missing, or it has another shape."""
    variables = [
        keras.Variable([1.0, 2.0][: len(names)], name=n) for n in names
    ]
    saved = variables[0].value if len(names) == 2 else tf.Variable([1.0, 2.0])
    path = tf.train.Checkpoint(model={"a": saved}).write(str(tmp_path / "a"))
    with pytest.raises(errors.ConfigError, match=f"all weights .* in {path}: "):
        saving.restore_variables(variables, path, "the model")


# Metrics of 20 steps and the final weights, for batches of 32 cut in one piece,
# in two for two devices, or in micro-batches.
_CUTS = """
import json, sys
import numpy as np
import tensorflow as tf
tf.config.set_logical_device_configuration(  # Before anything is computed.
    tf.config.list_physical_devices("CPU")[0],
    [tf.config.LogicalDeviceConfiguration()] * 2,
)
from electra_tf.training import replicas
from electra_tf.training import metrics_log
from tests import helpers
from tests.model import electra_test
from tests.training import engine_test

one = tf.distribute.OneDeviceStrategy("CPU:0")
two = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
cuts = {
    "whole": (one, {}),
    "2 x 16": (two, {}),
    "2 x 2 x 8 side by side": (
        one, {"micro_batch_size": 16, "num_parallel_parts": 2}
    ),
    "2 x 2 x 8, XLA": (two, {"micro_batch_size": 8, "jit_compile": True}),
}
found = {}
for name, (strategy, changes) in cuts.items():
    replicas.make_strategy = lambda run: strategy
    engine = engine_test.electra_engine(
        helpers.run_config(sys.argv[1], num_train_steps=20, **changes),
        sys.argv[2],
        32,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    log = [engine.train(tf.constant(1)) for _ in range(20)]
    weights = {
        v.path: np.asarray(v.numpy()).tolist() for v in engine.model.variables
    }
    found[name] = {"log": log, "weights": weights}
    found[name]["heldout"] = engine.evaluate_on(engine.train_dataset, 4, 2)
    try:
        engine.distribute(engine.train_dataset, 3, 0)
        found[name]["refusal"] = None
    except ValueError as error:
        found[name]["refusal"] = str(error)

replicas.make_strategy = lambda run: two
found["refused run"] = engine_test.refusal_of_run(*sys.argv[1:3])
found["norms"] = {
    dtype: engine_test.one_weight_engine(
        helpers.run_config(sys.argv[1], gradient_reduction_dtype=dtype),
        dataset=lambda *_: tf.data.Dataset.from_tensors(
            {"x": tf.constant(1 + 2**-10)}
        ).repeat(),
        batch_size=2,
    ).train(tf.constant(1))["gradient_norm"]
    for dtype in ("float32", "bfloat16")
}
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def cuts(tmp_path_factory, data_pattern):
    """What was learned; logical devices need a new process."""
    folder = tmp_path_factory.mktemp("model")
    result = helpers.execute("-c", _CUTS, folder, data_pattern)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout.splitlines()[-1])


@pytest.mark.dear
@pytest.mark.parametrize(
    "cut", ["2 x 16", "2 x 2 x 8 side by side", "2 x 2 x 8, XLA"]
)
def test_a_batch_teaches_the_same_however_it_is_cut(cuts, cut):
    assert_same_learned(cuts["whole"], cuts[cut])
    assert cuts[cut]["heldout"] == pytest.approx(
        cuts["whole"]["heldout"], rel=1e-4
    )


def assert_same_learned(whole, found):
    assert len(whole["log"]) == 20
    for expected, metrics in zip(whole["log"], found["log"], strict=True):
        # The norm adds up what the losses cancel.
        norm = metrics.pop("gradient_norm")
        assert norm == pytest.approx(expected["gradient_norm"], rel=1e-3)
        without = {k: v for k, v in expected.items() if k != "gradient_norm"}
        assert metrics == pytest.approx(without, rel=1e-5, abs=1e-6)
    assert whole["weights"].keys() == found["weights"].keys()
    for name, value in whole["weights"].items():
        atol = 1e-5 * max(1.0, np.abs(value).max())
        np.testing.assert_allclose(
            found["weights"][name], value, rtol=0, atol=atol, err_msg=name
        )


@pytest.mark.dear
def test_replicas_exchange_gradients_in_the_dtype_asked_for(cuts):
    """Two gradients of 1 + 2^-10, which bfloat16 rounds to 1."""
    assert cuts["norms"] == {"float32": 2 + 2**-9, "bfloat16": 2}


def test_letting_go_of_batches_waits_for_no_tuner(tmp_path):
    """tf.data's is asleep for up to a minute, and joined by who waits."""
    engine = one_weight_engine(helpers.run_config(tmp_path))
    found = engine.distribute(engine.train_dataset, 1, 0)
    assert isinstance(found, tf.data.Dataset)
    assert found.options().autotune.enabled is False


@pytest.mark.dear
def test_refuses_a_batch_that_replicas_cannot_share(cuts):
    assert cuts["whole"]["refusal"] is None
    assert "Received: batch_size=3, replicas=2" in cuts["2 x 16"]["refusal"]
    # Before step 1, too.
    assert "Received: eval_batch_size=3, replicas=2" in cuts["refused run"]


@pytest.mark.parametrize("name", ["micro_batch_size", "num_parallel_parts"])
def test_refuses_parts_that_do_not_fill_the_batch(tmp_path, data_pattern, name):
    run = helpers.run_config(tmp_path, **{name: 3})
    with pytest.raises(errors.ConfigError, match=f"{name}=3, examples=4"):
        electra_engine(run, data_pattern, batch_size=4)


@pytest.mark.dear
@pytest.mark.usefixtures("graph_optimizer")
def test_large_gradients_add_up_over_micro_batches_in_every_call(tmp_path):
    """What the graph's optimizer makes of large sums is undone by its end."""

    def dataset(batch_size, first_step, shard):
        del first_step, shard
        return tf.data.Dataset.from_tensors(
            {"x": tf.range(batch_size, dtype=tf.float32)}
        ).repeat()

    def loss_function(model):
        # Together with its slots and gradients more than the 205 MB from which
        # on memory counts as short.
        model.large = model.add_weight(
            name="large", shape=(10_000_000,), initializer="zeros"
        )

        def loss(features, dropout_seed, all_reduce_sum):
            x = tf.reduce_sum(features["x"]) + 0.0 * model.w.value
            return x * tf.reduce_sum(tf.sin(model.large.value)), {}

        return loss

    run = helpers.run_config(tmp_path, micro_batch_size=4, num_parallel_parts=2)
    engine = one_weight_engine(run, loss_function, dataset, 8)
    metrics = engine.train(tf.constant(1))
    # 0 + 1 + ... + 7 for every number.
    assert metrics["gradient_norm"] == pytest.approx(28 * 1e7**0.5, rel=1e-5)
    for _ in range(2):
        engine.train(tf.constant(3))
    assert int(engine.global_step) == 7


def test_an_unused_weight_stays_as_it_is(tmp_path):
    """No weight decay for what takes no part, in micro-batches either."""

    def loss_function(model):
        model.unused = model.add_weight(name="unused", initializer="ones")

        def loss(features, dropout_seed, all_reduce_sum):
            error = tf.square(model.w.value - features["x"])
            return tf.reduce_sum(error), {}

        return loss

    def dataset(batch_size, first_step, shard):
        del shard, first_step
        return tf.data.Dataset.from_tensors(
            {"x": tf.range(1.0, 1.0 + batch_size)}
        ).repeat()

    learned = []
    for micro_batch_size in (0, 2):
        run = helpers.run_config(tmp_path, micro_batch_size=micro_batch_size)
        engine = one_weight_engine(run, loss_function, dataset, 4)
        engine.train(tf.constant(3))
        learned.append(float(engine.model.w))
        assert float(engine.model.unused) == 1
    assert learned[0] == pytest.approx(learned[1], rel=1e-6) != 0


# Precision and XLA.


def train_with_policy(folder, data_pattern, policy):
    """Metrics of four steps."""
    run = helpers.run_config(folder, dtype_policy=policy)
    no_dropout = {"hidden_dropout_prob": 0.0}
    no_dropout["attention_probs_dropout_prob"] = 0.0
    try:
        engine = electra_engine(run, data_pattern, 8, **no_dropout)
        if engine.loss_scale:
            # The first one overflows here, and the step would not be taken.
            engine.loss_scale.scale.assign(2.0**8)
        log = [engine.train(tf.constant(1)) for _ in range(4)]
        for name, value in state(engine).items():
            assert value.dtype in (np.float32, np.int64), name
    finally:
        keras.config.set_dtype_policy("float32")
    return log


@pytest.fixture(scope="module")
def float32_log(tmp_path_factory, data_pattern):
    folder = tmp_path_factory.mktemp("model")
    return train_with_policy(folder, data_pattern, "float32")


@pytest.mark.dear
@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_low_precision_stays_near_float32(
    tmp_path, data_pattern, float32_log, policy
):
    log = train_with_policy(tmp_path, data_pattern, policy)
    # bfloat16 has 8 bits, float16 has 11.
    for exact, low in zip(float32_log, log, strict=True):
        assert low["total_loss"] == pytest.approx(exact["total_loss"], rel=3e-2)
        assert low["gradient_norm"] == pytest.approx(
            exact["gradient_norm"], rel=0.2
        )
    if policy == "mixed_float16":
        assert log[0]["loss_scale"] == 2.0**8


def test_a_step_of_gradients_that_overflow_is_not_taken(tmp_path):
    """In float16: nothing changes but the scale and the step."""

    def loss_function(model):
        def loss(features, dropout_seed, all_reduce_sum):
            # Step 1 has a finite loss with a gradient that is not.
            factor = tf.where(features["x"] == 1, 1e30, 1.0)
            w = model.w.value - 1.0
            return factor * tf.square(w) * 1e-4, {}

        return loss

    try:
        run = helpers.run_config(
            tmp_path, dtype_policy="mixed_float16", save_checkpoints_steps=2
        )
        engine = one_weight_engine(run, loss_function)
        engine.train(tf.constant(1))
        before = state(engine)
        metrics = engine.train(tf.constant(1))
        assert math.isfinite(metrics["total_loss"])
        assert metrics["gradient_norm"] == 0
        after = state(engine)
        assert after.pop("global_step") == before.pop("global_step") + 1
        assert after == before
        assert float(engine.loss_scale.scale) == 2.0**14
        loop.train(engine, 8, "training", ("total_loss",))
        assert read_log(run)[-1]["skipped_steps"] == 1
        again = one_weight_engine(run, loss_function)
        loop.train(again, 8, "training", ("total_loss",))
        assert float(again.loss_scale.scale) == 2.0**14
        assert int(again.loss_scale.skipped) == 1
        assert int(again.optimizer.iterations) == 7
    finally:
        keras.config.set_dtype_policy("float32")


OBJECTIVES = electra_test.OBJECTIVES | {
    "whole words": {"whole_word_masking": True}
}


@pytest.mark.dear  # One is among `cuts`.
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_xla_compiles_every_objective(tmp_path, data_pattern, objective):
    """The whole step, as a TPU would; with micro-batches too."""
    run = helpers.run_config(
        tmp_path,
        jit_compile=True,
        micro_batch_size=2 * (objective == "electra"),
    )
    engine = electra_engine(run, data_pattern, objective=OBJECTIVES[objective])
    before = state(engine)
    metrics = engine.train(tf.constant(3))
    assert math.isfinite(metrics["total_loss"])
    heldout = engine.evaluate_on(engine.train_dataset, 4, 1)
    assert math.isfinite(heldout["total_loss"])
    kernel = "electra/encoder/layer_0/output/dense/kernel"
    path = next(k for k in before if k.endswith(kernel))
    assert (state(engine)[path] != before[path]).any()


@pytest.mark.parametrize(
    ("strategy", "num_gpus", "on_host", "message"),
    [
        ("one_device", 2, 2, "strategy='one_device' with num_gpus=2: "),
        ("mirrored", 0, 0, "without GPUs take 'one_device'"),
        ("mirrored", 2, 1, "Expected 2 GPUs on this host .* found 1"),
        ("one_device", 1, 0, "Expected 1 GPUs on this host "),
    ],
)
def test_refuses_a_strategy_that_cannot_be(
    tmp_path, monkeypatch, strategy, num_gpus, on_host, message
):
    gpus = ["GPU"] * on_host
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: gpus)
    run = helpers.run_config(
        tmp_path, distribution_strategy=strategy, num_gpus=num_gpus
    )
    with pytest.raises(errors.ConfigError, match=message):
        replicas.make_strategy(run)


# Clusters; that workers train together is in end_to_end/cluster_test.py.


def cluster_run(tmp_path, **changes):
    return helpers.run_config(
        tmp_path, distribution_strategy="multi_worker_mirrored", **changes
    )


def test_slurm_says_who_the_workers_are(tmp_path, monkeypatch):
    monkeypatch.setenv("SLURM_PROCID", "2")
    monkeypatch.setenv("SLURM_STEP_NUM_TASKS", "3")
    monkeypatch.setenv("SLURM_STEP_NODELIST", "node[1-2]")
    monkeypatch.setenv("SLURM_STEP_TASKS_PER_NODE", "2,1")
    run = cluster_run(tmp_path, cluster_resolver="slurm")
    resolver = replicas.make_cluster_resolver(run)
    workers = ["node1:8888", "node1:8889", "node2:8888"]
    assert resolver.cluster_spec().as_dict() == {"worker": workers}
    assert (resolver.task_type, resolver.task_id) == ("worker", 2)


@pytest.mark.parametrize(
    ("tf_config", "message"),
    [
        ("", "variable TF_CONFIG: "),
        ("{", "Expecting property name"),
        ("[]", r"Received: '\[\]'"),
        ('{"cluster": {"worker": ["a:1", "b:1"]}}', "which of them this is"),
    ],
)
def test_refuses_a_cluster_that_is_none(
    tmp_path, monkeypatch, tf_config, message
):
    monkeypatch.setenv("TF_CONFIG", tf_config)
    with pytest.raises(errors.ConfigError, match=message) as caught:
        replicas.make_strategy(cluster_run(tmp_path))
    assert "\n" not in str(caught.value)


def test_says_once_what_the_watch_finds(tmp_path, capsys):
    run = helpers.run_config(tmp_path, steps_per_loop=2)
    seen = []

    def watch(step, metrics):
        seen.append((step, metrics["x"]))
        return {"large": "x is large"} if step >= 4 else {}

    loop.train(one_weight_engine(run), 8, "training", ("x",), watch=watch)
    assert seen == [(2, 0.5), (4, 2.5), (6, 4.5), (8, 6.5)]
    said = capsys.readouterr().err.splitlines()
    assert [x for x in said if "large" in x] == ["step 4: x is large"]


def test_the_best_is_compared_with_what_is_kept(tmp_path):
    """By the metric of now, though another one chose what is kept."""
    losses_ = {2: 3.0, 4: 1.0, 6: 2.0, 8: 2.0, 10: 0.7}
    aucs = {2: 0.9, 4: 0.5, 6: 0.4, 8: 0.7, 10: 0.6}

    def go_on(metric, last_step):
        engine = one_weight_engine(
            helpers.run_config(tmp_path, eval_steps=2, keep_best_metric=metric)
        )

        def evaluate():
            step = int(engine.global_step.numpy())
            return {"loss": losses_[step], "auc": aucs[step]}

        loop.train(engine, last_step, "training", ("x",), evaluate)
        return helpers.read_json(tmp_path / "best/eval_results.json")["step"]

    assert go_on("loss", 4) == 4
    assert go_on("auc", 6) == 4
    assert go_on("auc", 8) == 8
    # What is damaged is no evaluation.
    (tmp_path / "best" / "eval_results.json").write_text("{")
    assert go_on("auc", 10) == 10
