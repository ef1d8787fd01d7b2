"""Steps, looks at them, checkpoints, evaluations: a run from first to last."""

import contextlib
import math
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator

import tensorflow as tf

from electra_tf import configs, errors, files, model_directory
from electra_tf.command_line import progress, silence
from electra_tf.model import costs
from electra_tf.training import engine as engine_lib
from electra_tf.training import (
    matmul_rate,
    metrics_log,
    replicas,
    saving,
    signals,
)


def train(
    engine: engine_lib.Engine,
    last_step: int,
    description: str,
    live_metrics: tuple[str, ...],
    evaluate: Callable[[], dict[str, float]] | None = None,
    watch: Callable[[int, dict[str, float]], dict[str, str]] | None = None,
    patience: int = 0,
) -> None:
    """Trains to the last step, from the last checkpoint if there is one.

    When training ends early follows from the evaluations in the log, which a
    run that goes on keeps up to its step: it ends where it would have ended.

    Args:
      engine: Model, optimizer and data.
      last_step: Where to end.
      description: Opens the live line.
      live_metrics: Metrics on the live line.
      evaluate: Called every `run.eval_steps` steps.
      watch: Takes a step and its metrics; returns what the user should know
        about them, each under a name by which it is said once.
      patience: Training ends after so many evaluations in a row without a
        better `run.keep_best_metric`; 0 for never.

    Raises:
      ConfigError: If `run.model_dir` has no whole checkpoint, or one of a later
        step than the last.
      Stopped: After SIGTERM or SIGINT, once everything is saved.
      TrainingError: If the loss is not finite or far above the first, an
        update has destroyed the weights, or the last state could not be saved.
    """
    run = engine.run
    if run.distribution_strategy != "tpu":
        _hush_compiler()
    checkpoints = saving.Checkpoints(engine)
    checkpoints.restore()
    step = int(engine.global_step.numpy())
    if step > last_step:
        raise errors.ConfigError(
            f"{run.model_dir} is at step {step} already, beyond {last_step}, "
            "where this run is to end: raise RunConfig.stop_at_step, or choose "
            "another --model_dir"
        )
    looks = _Looks(
        engine, checkpoints, last_step, description, live_metrics, watch
    )
    with StopRequests() as requests:
        try:
            if run.eval_first and not step:
                looks.evaluate(step, evaluate)
            is_over = looks.are_not_better(patience)
            while step < last_step and not is_over:
                num_steps = min(last_step - step, steps_to_next_look(run, step))
                metrics = engine.train(tf.constant(num_steps, tf.int32))
                step += num_steps
                looks.look(step, metrics)
                # At the very end, too, which may be better than all before.
                is_last = step == run.num_train_steps
                if run.eval_steps and (is_last or step % run.eval_steps == 0):
                    looks.evaluate(step, evaluate)
                if step % run.save_checkpoints_steps == 0:
                    checkpoints.save()
                is_over = bool(requests.asked_by(engine))
                is_over = is_over or looks.are_not_better(patience)
                looks.restart_clock()
            checkpoints.save()
        finally:
            checkpoints.finish()
            looks.close()
        who = requests.asked_by(engine)
    checkpoints.check_saved()
    if who:
        raise errors.Stopped(
            f"{who} at step {step}: saved in {run.model_dir}; run again to go "
            "on"
        )


def steps_to_next_look(run: configs.RunConfig, step: int) -> int:
    """Steps until the next multiple of `steps_per_loop`.

    A run also stops for evaluations and checkpoints, and early, so that a
    mistake and the first figures show soon: behind the first step, whose loss
    no update has changed yet. This follows from the step alone: a run that goes
    on looks where it would have looked.
    """
    if not step and run.steps_per_loop >= 5:
        return 1
    every = [run.steps_per_loop, run.save_checkpoints_steps]
    if run.eval_steps:
        every.append(run.eval_steps)
    if step < run.steps_per_loop:
        every.append(5)
    return min(number - step % number for number in every)


class _Looks:
    """What a run shows, logs and keeps of its metrics: see `train`."""

    def __init__(
        self, engine, checkpoints, last_step, description, live_metrics, watch
    ):
        self.engine = engine
        self.run = engine.run
        self.checkpoints = checkpoints
        self.live_metrics = live_metrics
        self.watch = watch
        self.is_chief = replicas.is_chief(engine.strategy)
        self.line = progress.Progress(
            description, last_step, "step", self.is_chief
        )
        model_dir = self.run.model_dir
        self.log_file = os.path.join(model_dir, model_directory.METRICS_FILE)
        self.train_summaries = Summaries(model_dir, "train")
        self.eval_summaries = Summaries(model_dir)
        self._has_begun = False
        self._first_loss: float | None = None
        self._said: set[str] = set()
        self.restart_clock()

    def restart_clock(self) -> None:
        """Has the next look measure the steps from here on."""
        self._step = int(self.engine.global_step.numpy())
        self._time = time.monotonic()

    def close(self) -> None:
        self.train_summaries.close()
        self.eval_summaries.close()
        self.line.close()

    def look(self, step: int, metrics: dict) -> None:
        """Logs and shows the metrics of the steps since the last look."""
        speed = self.engine.batch_size * (step - self._step)
        speed /= time.monotonic() - self._time
        self._refuse_loss(step, metrics["total_loss"])
        if not self._has_begun:
            # These steps were compiled as well: the others will not be so slow.
            self._begin(step)
        metrics["examples_per_second"] = speed
        if self.matmul_rate:
            flops = speed * costs.of_training_example(self.engine.networks)
            metrics["gflop_per_second"] = flops / 1e9
            metrics["matmul_gflop_per_second"] = self.matmul_rate / 1e9
            metrics["mfu"] = flops / self.matmul_rate
        if self.engine.loss_scale:
            skipped = self.engine.loss_scale.skipped
            metrics["skipped_steps"] = int(skipped.numpy())
        if not self.is_chief:
            return
        shown = {n: metrics[n] for n in self.live_metrics if n in metrics}
        shown["examples/s"] = speed
        self.line.update(step, progress.format_metrics(shown))
        self._log(step, "train", metrics)
        steps_per_second = speed / self.engine.batch_size
        metrics = metrics | {"steps_per_second": steps_per_second}
        self.train_summaries.write(step, metrics)

    def _refuse_loss(self, step: int, loss: float) -> None:
        if self._first_loss is None:
            log = metrics_log.read(self.log_file)
            losses = (record.get("total_loss") for record in log)
            self._first_loss = next(filter(None, losses), loss)
        bound = self.run.max_loss_growth * max(1.0, self._first_loss)
        if math.isfinite(loss) and (loss <= bound or not bound):
            return
        more = ""
        if math.isfinite(loss):
            more = (
                ", more than RunConfig.max_loss_growth="
                f"{self.run.max_loss_growth:g} times the first, "
                f"{self._first_loss:.4g}"
            )
        raise errors.TrainingError(
            f"The loss became {loss:.4g} between steps {self._step} and {step}"
            f"{more}; nothing was saved after step {self._step}. Try a lower "
            "OptimizerConfig.learning_rate or a longer warm-up"
        )

    def evaluate(self, step: int, evaluate: Callable | None) -> None:
        """Logs an evaluation, and keeps what is better than what is kept."""
        if evaluate is None:
            return
        if not self._has_begun:
            self._begin(step)
        self.checkpoints.refuse_broken_weights()
        metrics = evaluate()
        if not self.is_chief:
            return
        best = self.run.keep_best_metric
        if best and metrics and best not in metrics:
            self._say_once(
                "keep_best_metric",
                f"RunConfig.keep_best_metric={best!r} is none of "
                f"{', '.join(sorted(metrics))}: no best checkpoint is kept",
            )
        if best in metrics and self.checkpoints.is_best(best, metrics[best]):
            self.checkpoints.save_best(metrics)
        self._log(step, "heldout", metrics)
        self.eval_summaries.write(step, metrics)
        self.line.note(
            f"held-out at step {step}: {progress.format_metrics(metrics)}"
        )

    def are_not_better(self, patience: int) -> bool:
        """Whether so many evaluations, the last ones, were not better."""
        if not patience:
            return False
        step = int(self.engine.global_step.numpy())
        before = [
            r for r in metrics_log.read(self.log_file) if r["step"] <= step
        ]
        _, num_since = metrics_log.best_evaluation(
            before, self.run.keep_best_metric
        )
        is_enough = self.is_chief and num_since >= patience
        is_enough = self.engine.any_worker(is_enough)
        if is_enough and self._has_begun and step < self.line.total:
            self.line.note(
                f"training ends at step {step} of {self.line.total}: "
                f"{patience} evaluations in a row were not better"
            )
        return is_enough

    def _begin(self, step: int) -> None:
        self.matmul_rate = 0.0
        if self.engine.networks:
            self.matmul_rate = matmul_rate.strategy_rate(self.engine.strategy)
        if self.is_chief:
            # Lines of later steps come again.
            metrics_log.begin(self.log_file, self._step)
        self.line.start(step)
        self._has_begun = True

    def _log(self, step: int, split: str, metrics: dict) -> None:
        """Logs metrics, and says what the user should know about them."""
        record = {"step": step, "split": split} | metrics
        files.append_line(self.log_file, record)
        if self.watch:
            for name, advice in self.watch(step, metrics).items():
                self._say_once(name, f"step {step}: {advice}")

    def _say_once(self, name: str, message: str) -> None:
        if name not in self._said:
            self._said.add(name)
            self.line.note(message)


class Summaries:
    """Metrics for TensorBoard, in one file of a run's process.

    Args:
      model_dir: The run's; the file is made with the first metrics.
      folder: In it.
    """

    def __init__(self, model_dir: str, folder: str = "eval"):
        self._folder = os.path.join(model_dir, folder)
        self._writer: tf.summary.SummaryWriter | None = None

    def write(self, step: int, metrics: dict[str, float]) -> None:
        """Adds the metrics of a step."""
        if self._writer is None:
            self._writer = tf.summary.create_file_writer(self._folder)
        with self._writer.as_default(step=step):
            for metric, value in metrics.items():
                tf.summary.scalar(metric, value)
        # Whoever looks at a long run sees its last evaluation.
        self._writer.flush()

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()


@contextlib.contextmanager
def stoppable_evaluation(
    engine: engine_lib.Engine,
) -> Iterator[Callable[[], None]]:
    """Lets SIGTERM and SIGINT end an evaluation after the last step.

    Yields what is to be called between loops of batches, by all workers. It
    raises `errors.Stopped` after a request.
    """
    with StopRequests("leaving after these batches") as requests:

        def leave_if_asked():
            if who := requests.asked_by(engine):
                raise errors.Stopped(
                    f"{who} in the last evaluation: all steps are saved in "
                    f"{engine.run.model_dir}; run again to evaluate"
                )

        yield leave_if_asked


class StopRequests(contextlib.ExitStack):
    """Turns SIGTERM and SIGINT into a request that a loop can look at.

    Args:
      reply: What is said to the first.
    """

    def __init__(self, reply: str = "saving and leaving after this step"):
        super().__init__()
        self.reply = reply
        self.signal_name: str | None = None
        numbers = (signal.SIGTERM, signal.SIGINT)
        self.enter_context(signals.handled(self._note, *numbers))

    def asked_by(self, engine: engine_lib.Engine) -> str:
        """Who asks any of the workers to stop; "" for nobody."""
        if not engine.any_worker(self.signal_name is not None):
            return ""
        return self.signal_name or "Another worker stopped"

    def _note(self, number, frame):
        if self.signal_name is not None:
            raise KeyboardInterrupt  # Asked twice: at once.
        self.signal_name = signal.Signals(number).name
        print(
            f"\n{self.signal_name}: {self.reply} (again to leave at once)",
            file=sys.stderr,
        )


def _hush_compiler() -> None:
    """Has XLA say now, to nobody, what it says once in a process.

    It says that it compiled something, and no setting of TensorFlow's stops it.
    """
    try:
        with silence.stderr():
            tf.function(lambda x: x + 1.0, jit_compile=True)(tf.constant(0.0))
    except tf.errors.NotFoundError:
        raise errors.ConfigError(
            "This TensorFlow cannot compile for the CPU, as that for TPUs: "
            "train with --distribution_strategy=tpu"
        ) from None
