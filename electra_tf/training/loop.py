"""Steps, looks at them, checkpoints, evaluations: a run from first to last."""

import contextlib
import dataclasses
import math
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator

import tensorflow as tf

from electra_tf import errors, model_directory
from electra_tf.command_line import progress, silence
from electra_tf.training import engine as engine_lib
from electra_tf.training import (
    matmul_rate,
    metrics_log,
    outer_loop,
    replicas,
    saving,
)

# Metrics that say how fast a run is, which no two runs have in common.
SPEED_METRICS = ("examples_per_second", "gflop_per_second", "mfu")


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
      ConfigError: If the workers do not start from one state, or
        `run.model_dir` has no whole checkpoint, or one of a later step than
        the last.
      Stopped: After SIGTERM or SIGINT, once everything is saved.
      TrainingError: If the loss is not finite, an update has destroyed the
        weights, or the last state could not be saved.
    """
    run = engine.run
    if run.distribution_strategy != "tpu":
        _hush_compiler()
    checkpoints = saving.Checkpoints(engine)
    is_chief = replicas.is_chief(engine.strategy)
    line = progress.Progress(description, last_step, "step", is_chief)
    loop = _Loop(
        engine,
        checkpoints,
        last_step,
        line,
        live_metrics,
        evaluate,
        watch,
        patience,
    )
    summary_dir = os.path.join(run.model_dir, "train")
    checkpoints.restore()
    engine.check_same_state()
    _refuse_later_step(engine, last_step)
    with (
        loop.stop_requests,
        # Orbit's lines would break the live line.
        open(os.devnull, "w", encoding="utf-8") as nowhere,
        contextlib.redirect_stdout(nowhere),
    ):
        stretches = outer_loop.OuterLoop(
            strategy=engine.strategy,
            global_step=engine.global_step,
            train=engine.train,
            look=loop.look,
            steps_to_next_look=loop.steps_to_next_look,
            summary_dir=summary_dir if is_chief else None,
        )
        loop.start()
        try:
            if not loop.is_long_enough():
                with contextlib.suppress(_LongEnough):
                    stretches.run(last_step)
            checkpoints.save()
        finally:
            checkpoints.finish()
            loop.summaries.close()
            line.close()
    checkpoints.check_saved()


def _refuse_later_step(engine: engine_lib.Engine, last_step: int) -> None:
    """Of a run that is past it, nothing could be said of the last step."""
    step = int(engine.global_step.numpy())
    if step > last_step:
        raise errors.ConfigError(
            f"{engine.run.model_dir} is at step {step} already, beyond "
            f"{last_step}, where this run is to end: raise "
            "RunConfig.stop_at_step, or choose another --model_dir"
        )


class _LongEnough(Exception):
    """Ends a training whose evaluations no longer get better."""


@dataclasses.dataclass
class _Loop:
    """What happens between two stretches of steps; `train` has the words."""

    engine: engine_lib.Engine
    checkpoints: saving.Checkpoints
    last_step: int
    line: progress.Progress
    live_metrics: tuple[str, ...]
    evaluate: Callable | None
    watch: Callable | None
    patience: int

    def __post_init__(self):
        self.is_chief = replicas.is_chief(self.engine.strategy)
        self.stop_requests = StopRequests()
        self.summaries = Summaries(self.engine.run.model_dir)
        self._said: set[str] = set()
        self._has_looked = False

    def start(self) -> None:
        """Starts the log and the clocks, from the step of the checkpoint."""
        step = int(self.engine.global_step.numpy())
        if self.is_chief:
            self.log = metrics_log.MetricsLog(self.engine.run.model_dir, step)
        self.matmul_rate = 0.0
        if self.engine.flops_per_example:
            self.matmul_rate = matmul_rate.of_strategy(self.engine.strategy)
        self.line.start(step)
        if self.is_chief:
            self._compare_best(step)
        self._last = (step, time.monotonic())

    def _compare_best(self, step: int) -> None:
        """Says where best/ is not this run's best by the metric of now."""
        metric, kept = self.engine.run.keep_best_metric, self.checkpoints
        if not step and kept.best_step:
            self.line.note(
                "there is no checkpoint to go on from: training begins at step "
                "0, and its first evaluation takes the place of step "
                f"{kept.best_step} in {model_directory.BEST_DIR}/"
            )
        best = metrics_log.best_evaluation(
            metrics_log.read(self.log.path), metric
        ).record
        # What is of a later step comes again.
        if (
            best
            and best["step"] != kept.best_step
            and step >= (kept.best_step or 0)
        ):
            holds = "nothing: it begins with the next evaluation"
            if kept.best_step is not None:
                holds = (
                    f"step {kept.best_step}, as another metric was asked for "
                    "before: it changes once an evaluation is better than that"
                )
            self.line.note(
                f"by RunConfig.keep_best_metric={metric!r} step "
                f"{best['step']} was the best, but "
                f"{model_directory.BEST_DIR}/ holds {holds}"
            )

    def steps_to_next_look(self, step: int) -> int:
        """Steps until the next multiple of `steps_per_loop`.

        Also stops for evaluations and checkpoints, and early in a run, so
        that a mistake and the first figures show soon. Follows from the step
        alone: a run that goes on looks where it would have looked.
        """
        run = self.engine.run
        every = [run.steps_per_loop, run.save_checkpoints_steps]
        if run.eval_steps:
            every.append(run.eval_steps)
        steps = min(number - step % number for number in every)
        if step < run.steps_per_loop:
            steps = min(steps, 5 - step % 5)
        return steps

    def look(self, metrics: dict) -> None:
        """Logs, evaluates, saves, and stops the run where it must."""
        engine, run = self.engine, self.engine.run
        step = int(engine.global_step.numpy())
        metrics |= self._measurements(step)
        self._refuse_infinite(step, metrics["total_loss"])
        shown = {
            name: metrics[name] for name in self.live_metrics if name in metrics
        }
        shown["examples/s"] = metrics["examples_per_second"]
        if not self._has_looked:
            # These steps were compiled as well: the others will not be so slow.
            self.line.start(step)
            self._has_looked = True
        self.line.update(step, progress.format_metrics(shown))
        self._write(step, "train", metrics)
        # At the very end, too, which may be better than all before.
        is_scored = run.eval_steps and (
            step % run.eval_steps == 0 or step == run.num_train_steps
        )
        if is_scored and self.evaluate:
            self.checkpoints.refuse_broken_weights()
            self._look_at_evaluation(step, self.evaluate())
        is_enough = self.is_long_enough()
        stop = engine.any_worker(self.stop_requests.signal_name is not None)
        is_last = step == self.last_step
        is_due = step % run.save_checkpoints_steps == 0
        if stop or is_last or is_enough or is_due:
            self.checkpoints.save()
        if stop and not is_last:
            self.checkpoints.finish()
            self.checkpoints.check_saved()
            who = self.stop_requests.signal_name or "Another worker stopped"
            raise errors.Stopped(
                f"{who} at step {step}: saved in {run.model_dir}; run again "
                "to go on"
            )
        if is_enough and not is_last:
            self.line.note(
                f"training ends at step {step} of {self.last_step}: "
                f"{self.patience} evaluations in a row were not better"
            )
            raise _LongEnough
        self._last = (step, time.monotonic())

    def _measurements(self, step: int) -> dict[str, float]:
        """How fast the steps since the last look were, and which did count."""
        engine = self.engine
        steps, seconds = step - self._last[0], time.monotonic() - self._last[1]
        speed = engine.batch_size * steps / seconds
        found = {"examples_per_second": speed}
        if self.matmul_rate:
            flops = speed * engine.flops_per_example
            found["gflop_per_second"] = flops / 1e9
            found["mfu"] = flops / self.matmul_rate
        if engine.loss_scale:
            found["skipped_steps"] = int(engine.loss_scale.skipped.numpy())
        return found

    def _refuse_infinite(self, step: int, loss: float) -> None:
        last = self._last[0]
        if not math.isfinite(loss):
            raise errors.TrainingError(
                f"The loss became {loss} between steps {last} and {step}; "
                f"nothing was saved after step {last}. Try a lower "
                "OptimizerConfig.learning_rate or a longer warm-up"
            )

    def is_long_enough(self) -> bool:
        """Whether the last evaluations, up to this step, were not better."""
        if not self.patience:
            return False
        is_enough = self.is_chief and self.patience <= (
            metrics_log.best_evaluation(
                metrics_log.read(self.log.path),
                self.engine.run.keep_best_metric,
            ).num_since
        )
        return self.engine.any_worker(is_enough)

    def _look_at_evaluation(self, step: int, evaluated: dict) -> None:
        """Logs it, and keeps what is better than what is kept."""
        run = self.engine.run
        if not self.is_chief:
            return
        best = run.keep_best_metric
        if best and evaluated and best not in evaluated:
            self._say_once(
                "keep_best_metric",
                f"RunConfig.keep_best_metric={best!r} is none of "
                f"{', '.join(sorted(evaluated))}: no best checkpoint is kept",
            )
        kept = self.checkpoints.best_step
        if best in evaluated and self.log.is_best(
            step, best, evaluated[best], kept
        ):
            self.checkpoints.save_best(evaluated)
        self._write(step, "heldout", evaluated)
        self.summaries.write(step, evaluated)
        self.line.note(
            f"held-out at step {step}: " + progress.format_metrics(evaluated)
        )

    def _write(self, step: int, split: str, metrics: dict) -> None:
        """Logs metrics, and says what the user should know about them."""
        if not self.is_chief:
            return
        self.log.write(step, split, metrics)
        advices = self.watch(step, metrics) if self.watch else {}
        for name, advice in advices.items():
            self._say_once(name, f"step {step}: {advice}")

    def _say_once(self, name: str, message: str) -> None:
        if name not in self._said:
            self._said.add(name)
            self.line.note(message)


class Summaries:
    """Metrics of evaluations for TensorBoard, in one file of a run's process.

    Args:
      model_dir: The run's; the file is made with the first metrics.
    """

    def __init__(self, model_dir: str):
        self._folder = os.path.join(model_dir, "eval")
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

    Yields what is to be called before each batch, by all workers. It raises
    `errors.Stopped` after a request.
    """
    with StopRequests("leaving after this batch") as requests:

        def leave_if_asked():
            if not engine.any_worker(requests.signal_name is not None):
                return
            who = requests.signal_name or "Another worker stopped"
            raise errors.Stopped(
                f"{who} in the last evaluation: all steps are saved in "
                f"{engine.run.model_dir}; run again to evaluate"
            )

        yield leave_if_asked


class StopRequests:
    """Turns SIGTERM and SIGINT into a request that a loop can look at.

    Args:
      reply: What is said to the first.
    """

    def __init__(self, reply: str = "saving and leaving after this step"):
        self.reply = reply
        self.signal_name = None

    def __enter__(self):
        self._previous = {}
        for number in (signal.SIGTERM, signal.SIGINT):
            try:
                self._previous[number] = signal.signal(number, self._note)
            except ValueError:  # Not in the main thread: nobody signals it.
                break
        return self

    def __exit__(self, *_):
        for number, handler in self._previous.items():
            signal.signal(number, handler)

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

    Raises:
      ConfigError: If there is no XLA for the CPU, which training needs.
    """
    try:
        with silence.stderr():
            tf.function(lambda x: x + 1.0, jit_compile=True)(tf.constant(0.0))
    except tf.errors.NotFoundError:
        raise errors.ConfigError(
            "This TensorFlow cannot compile for the CPU, as that for TPUs: "
            "train with --distribution_strategy=tpu"
        ) from None
