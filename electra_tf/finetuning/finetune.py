"""Fine-tuning: a pre-trained encoder and labelled sets -> scored models."""

import contextlib
import dataclasses
import functools
import os
from collections.abc import Callable, Sequence

import tensorflow as tf

from electra_tf import configs, errors, model_directory, validation
from electra_tf.checkpoints import reading
from electra_tf.files import read_json, write_json
from electra_tf.finetuning import (
    batches,
    evaluation,
    predictions,
    preparation,
    report,
    results,
)
from electra_tf.finetuning.configs import FinetuningConfig
from electra_tf.finetuning.preparation import RunPlan, Trial, TrialPlan
from electra_tf.finetuning.task_data import TaskData
from electra_tf.model.finetuning_model import FinetuningModel
from electra_tf.tasks import features
from electra_tf.text import vocabulary
from electra_tf.training import engine as engine_lib
from electra_tf.training import (
    loop,
    metrics_log,
    optimization,
    replicas,
    saving,
    workers,
)

DIGESTS = model_directory.DIGESTS


def finetune(
    config: FinetuningConfig, before_training: Callable[[], None]
) -> dict | None:
    """Fine-tunes the models of a run and scores each of them.

    Finished trials are not run again, and an unfinished one goes on from its
    last checkpoint. A trial is in <model_dir>/trial_<n>. Beside results.json
    and results.txt there are the best trial's predictions of GLUE's test sets,
    glue_submission.zip, where these were predicted; and report.html, the page
    of `report`.

    Args:
      config: Everything the run needs.
      before_training: Called once all is checked, before the first step.

    Returns:
      What results.json holds, see `results.summarize`, and "recipe", see
      `recipe.choices`. None for every worker but the chief.

    Raises:
      ValueError: If data, vocabulary and checkpoint do not fit together, or
        the devices are at another host.
      errors.Stopped: After a request to stop.
      errors.TrainingError: If the loss is not finite.
    """
    if replicas.has_other_host(config.run):
        raise errors.ConfigError(
            "Expected RunConfig.tpu='local' on the TPU's own host, as rows "
            "become batches in Python, which does not run elsewhere. Received: "
            f"{config.run.tpu!r}"
        )
    # First: workers can only meet before anything else has run.
    strategy = replicas.make_strategy(config.run)
    is_chief = replicas.is_chief(strategy)
    replicas.set_policy(config.run)
    plan = preparation.prepare(config)
    model_dir = config.run.model_dir
    digests = plan.trial_plan(plan.trials[0]).digests
    workers.refuse_differences(strategy, config, digests)
    _refuse_changes(plan)
    if is_chief:
        for line in plan.lines:
            print(line)
        before_training()
        # What exporting needs to know, beside config.json.
        vocabulary.write(plan.start.tokenizer.vocabulary, model_dir)
        tasks = [data.about() for data in plan.folds[0]]
        model = {"encoder": dataclasses.asdict(plan.start.encoder_config)} | (
            tasks[0] if len(tasks) == 1 else {"tasks": tasks}
        )
        write_json(os.path.join(model_dir, model_directory.MODEL_FILE), model)
    records = run_all(plan, strategy)
    if not is_chief:
        return None
    summary = results.summarize(
        plan.folds, records, config.from_scratch, plan.row_facts
    )
    summary["recipe"] = {
        name: choice._asdict() for name, choice in plan.recipe.items()
    }
    results.write(model_dir, summary)
    if predictions.find_files(model_dir):
        path = os.path.join(model_dir, predictions.ARCHIVE)
        predictions.write_archive(path, [model_dir])
    report.write(model_dir, summary)
    return summary


def run_all(plan: RunPlan, strategy: tf.distribute.Strategy) -> list[dict]:
    """Runs all trials of a run, and the degenerate ones again if asked.

    Returns:
      What `run_trial` returns for each, in order.
    """
    trials = [(trial, plan.config.reseed_degenerate) for trial in plan.trials]
    records = []
    trainer = Trainer(strategy)
    for trial, num_repeats in trials:  # They become more.
        total = max(len(plan.trials), trial.number)
        line = f"fine-tuning trial {trial.number}/{total}"
        records.append(run_trial(plan.trial_plan(trial), trainer, line))
        if records[-1]["degenerate"] and num_repeats:
            again = dataclasses.replace(
                trial,
                number=len(trials) + 1,
                # No other trial has it.
                seed=max(trial.seed for trial, _ in trials) + 1,
                replaces=trial.number,
            )
            trials.append((again, num_repeats - 1))
    return records


class Trainer:
    """What trains and asks the model of a trial.

    Trials that differ by their seed or fold alone have one engine, one after
    the other: to trace and to compile its steps takes longer than a short
    training.

    Args:
      strategy: Where the replicas are.
    """

    engine: engine_lib.Engine
    evaluator: evaluation.Evaluator

    def __init__(self, strategy: tf.distribute.Strategy):
        self.strategy = strategy
        self._plan: TrialPlan | None = None

    def begin(self, plan: TrialPlan) -> None:
        """Sets `engine` and `evaluator` to where a trial begins."""
        if self._plan and _as_last(plan, self._plan):
            run, model, dataset = _beginning(plan, self.strategy)
            self.engine.begin_again(run, model, dataset)
            self.evaluator.begin_again(plan.tasks)
        else:
            self.engine = make_engine(plan, self.strategy)
            self.evaluator = evaluation.Evaluator(
                *(self.engine.model, plan.tasks, plan.data.eval_batch_size),
                *(self.strategy, bool(plan.run.jit_compile)),
            )
        self._plan = plan


def _as_last(plan: TrialPlan, last: TrialPlan) -> bool:
    """Whether a trial has the steps of the last one."""
    run = dataclasses.replace(
        plan.run, seed=last.run.seed, model_dir=last.run.model_dir
    )
    return (plan.optimizer, run, plan.data) == (
        *(last.optimizer, last.run, last.data),
    ) and plan.start is last.start


def run_trial(plan: TrialPlan, trainer: Trainer, description: str) -> dict:
    """Trains and scores one model; reads the scores where that is done.

    Every worker of a cluster predicts by itself, so that all know the scores;
    the chief alone writes them.

    Args:
      description: Opens the live line.

    Returns:
      What the trial's results.json holds: its settings, "num_train_steps",
      what `_take_best` says where there was patience, "degenerate" (names of
      the tasks whose rows all got the same answer) and "tasks" (task name ->
      split -> scores); and as "reports" what its reports.json holds, see
      `evaluation.Evaluation`.

    Raises:
      ConfigError: If the directory is that of another trial.
    """
    directory = plan.run.model_dir
    strategy = trainer.strategy
    is_chief = replicas.is_chief(strategy)
    _read_claim(directory, plan.trial)
    path = os.path.join(directory, model_directory.RESULTS_FILE)
    reports_path = os.path.join(directory, model_directory.REPORTS_FILE)
    if os.path.exists(path):
        record = results.read_of_trial(directory)
        return record | {"reports": read_json(reports_path)}
    if is_chief:
        os.makedirs(directory, exist_ok=True)
        # Whose directory it is, and what its model learns from.
        write_json(
            os.path.join(directory, model_directory.TRIAL_FILE),
            plan.trial.as_dict() | {DIGESTS: plan.digests},
        )
    trainer.begin(plan)
    engine, evaluator = trainer.engine, trainer.evaluator
    metrics = ["loss"]
    if len(plan.tasks) == 1:
        metrics += ["accuracy", "start_accuracy"]
    loop.train(
        engine,
        plan.run.num_train_steps,
        description,
        tuple(f"{d.task.name}_{name}" for d in plan.tasks for name in metrics),
        evaluator.ask_dev,
        patience=plan.patience,
    )
    record = plan.trial.as_dict()
    record["num_train_steps"] = plan.run.num_train_steps
    if plan.patience:
        with strategy.scope():
            record |= _take_best(plan, engine)
    answers = evaluator.ask()
    record |= {"degenerate": answers.degenerate, "tasks": answers.scores}
    if is_chief:
        step = record.get(model_directory.BEST_STEP)
        step = step or int(engine.global_step.numpy())
        with contextlib.closing(loop.Summaries(directory)) as summaries:
            summaries.write(step, answers.dev_scores)
        predictions.write_all(directory, plan.tasks, answers)
        write_json(reports_path, answers.reports, indent=None)
        write_json(path, record)
    # A worker that left now would take the collectives of the others down.
    engine.any_worker(False)
    return record | {"reports": answers.reports}


def make_engine(
    plan: TrialPlan, strategy: tf.distribute.Strategy
) -> engine_lib.Engine:
    """Model, optimizer and batches of a trial, as it begins."""
    run, model, train_dataset = _beginning(plan, strategy)
    with strategy.scope():
        optimizer = optimization.AdamWeightDecay(
            plan.optimizer,
            run.num_train_steps,
            optimization.layerwise_scales(
                model.trainable_variables,
                plan.start.encoder_config.num_hidden_layers,
                plan.optimizer,
            ),
        )
        return engine_lib.Engine(
            *(strategy, model, model.training_loss, optimizer, run),
            *(plan.data.train_batch_size, train_dataset),
        )


def _beginning(plan: TrialPlan, strategy: tf.distribute.Strategy):
    """The run of a trial, its model and its batches."""
    start = plan.start
    # The thread that writes in the background never ends, and would keep this
    # model, its slots and a copy of both for as long as the trials go on.
    run = dataclasses.replace(plan.run, async_checkpoints=False)
    rows = features.combine([data.features["train"] for data in plan.tasks])
    replicas.set_policy(run)  # Seeds the new head.
    with strategy.scope():
        model = _make_model(
            start.encoder_config, plan.tasks, start.head_dropout
        )
        if start.checkpoint is not None:
            variables, what = model.electra.variables, "the encoder"
            if start.keep_head:
                variables, what = model.variables, "the encoder and the head"
            reading.assign_all(start.checkpoint, variables, start.source, what)
    is_tpu = run.distribution_strategy == "tpu"
    train_dataset = functools.partial(
        batches.train_dataset,
        rows,
        run.seed,
        bucketed=plan.data.bucketed and not is_tpu,
        length_step=batches.COMPILED_LENGTH_STEP if run.jit_compile else None,
    )
    return run, model, train_dataset


def _make_model(
    encoder: configs.EncoderConfig,
    tasks: Sequence[TaskData],
    head_dropout: float | None = None,
) -> FinetuningModel:
    heads = [data.make_head(encoder) for data in tasks]
    for head in heads:
        if head_dropout is not None:
            head.set_dropout(head_dropout)
    # Only a single task has windows.
    return FinetuningModel(encoder, heads, tasks[0].windows)


def trained_model(
    directory: str, encoder: configs.EncoderConfig, tasks: Sequence[TaskData]
) -> FinetuningModel:
    """The model of a finished trial, as exporting takes it.

    Raises:
      CheckpointError: If its weights are not there, or do not fit.
    """
    model = _make_model(encoder, tasks)
    checkpoint = reading.read_checkpoint(directory)
    reading.assign_all(checkpoint, model.variables, directory, "the model")
    return model


def _take_best(plan: TrialPlan, engine: engine_lib.Engine) -> dict:
    """Gives a model that was trained with patience its best weights.

    "best_step" is None where the dev score was never finite, and the weights
    are the last.
    """
    directory = plan.run.model_dir
    best, num_since = metrics_log.best_evaluation(
        metrics_log.read(os.path.join(directory, model_directory.METRICS_FILE)),
        plan.run.keep_best_metric,
    )
    step = best and best["step"]
    if step is not None:
        name = f"{model_directory.CHECKPOINT_NAME}-{step}"
        prefix = os.path.join(directory, model_directory.BEST_DIR, name)
        if not os.path.isfile(f"{prefix}.index"):
            raise errors.TrainingError(
                f"Expected the best weights of {directory}, of step {step}, at "
                f"{prefix}, found none: delete {directory} and run again"
            )
        saving.restore_variables(engine.model.variables, prefix, "the model")
    return {
        model_directory.BEST_STEP: step,
        "last_step": int(engine.global_step.numpy()),
        "evaluations_since_best": num_since,
    }


# --- What a trial is, and what its model learned from ------------------------


def _refuse_changes(plan: RunPlan) -> None:
    """Refuses a model directory whose trials are others than those planned."""
    planned = {trial.number: trial for trial in plan.trials}
    for number in model_directory.trial_numbers(plan.config.run.model_dir):
        directory = model_directory.trial_dir(plan.config.run.model_dir, number)
        claim = _read_claim(directory, planned.get(number))
        if claim is None:
            continue
        if number not in planned and "replaces" not in claim:
            continue  # There were more trials before.
        path = os.path.join(directory, model_directory.RESULTS_FILE)
        if not os.path.isfile(path) and not saving.checkpoints_of(directory):
            continue  # It has learned nothing.
        trial = dataclasses.replace(plan.trials[0], fold=claim.get("fold"))
        digests = plan.trial_plan(trial).digests
        validation.require_same(
            digests,
            claim[DIGESTS],
            f"{directory} holds a model of other data",
            way_out="Choose another --model_dir, or bring back what was there "
            "to go on with that run; --eval_only scores other rows",
        )


def _read_claim(directory: str, trial: Trial | None) -> dict | None:
    """What the folder of a trial says of it; refuses that of another trial."""
    path = os.path.join(directory, model_directory.TRIAL_FILE)
    if not os.path.exists(path):
        return None
    claim = read_json(path, **{DIGESTS: dict})
    if claim.get(DIGESTS, {}).get("format") != model_directory.DIGESTS_FORMAT:
        raise errors.ConfigError(
            f"{path} is of another version of electra_tf, whose runs this one "
            "does not go on with: choose another --model_dir"
        )
    if trial is not None:
        where = f"{directory} holds another trial"
        validation.require_same(trial.as_dict(), claim, where, [DIGESTS])
    return claim
