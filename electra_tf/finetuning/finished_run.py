"""A finished run and labelled rows -> scores of its models, without training.

Nothing that the run has written is touched: scores and predictions go to
<model_dir>/evaluation/<name of the rows>.
"""

import os
import shutil

from electra_tf import configs, errors, model_directory, validation
from electra_tf.checkpoints import reading
from electra_tf.checkpoints.checkpoint import Checkpoint
from electra_tf.files import read_json
from electra_tf.finetuning import (
    evaluation,
    finetune,
    predictions,
    preparation,
    report,
    results,
)
from electra_tf.finetuning.configs import FinetuningConfig
from electra_tf.finetuning.task_data import TaskData
from electra_tf.tasks import own_files, tagging
from electra_tf.text import tokenization
from electra_tf.training import replicas

# What the answers of a model depend on, and its rows must have, too.
_OF_MODEL = ("kind", "labels", "min_value", "scale", "pooling", "windows")


def score(config: FinetuningConfig) -> dict | None:
    """Asks the models of a finished run about other rows, or the same again.

    Of several settings those of the best one are asked, of a degenerate model
    and the one that repeats it the latter: what the run's own means are of.

    Args:
      config: With `data.eval_only`, and the run's directory as `run.model_dir`.

    Returns:
      What `results.summarize` returns of these rows, with "best_on_dev" as the
      run chose it; "directory", what was written where; "files", split -> path.
      None for every worker but the chief.

    Raises:
      ValueError: If the run is not finished, its labels are not those of the
        rows, or these cannot be read.
    """
    # First: workers can only meet before anything else has run.
    strategy = replicas.make_strategy(config.run)
    is_chief = replicas.is_chief(strategy)
    replicas.set_policy(config.run)
    model_dir = config.run.model_dir
    advice = ": without eval_only the command trains"
    trained = results.read(model_dir, advice)
    checkpoint = reading.read_checkpoint(model_dir)
    path = os.path.join(model_dir, model_directory.MODEL_FILE)
    needed = () if config.data.task_names else ("kind", "reading")
    model = read_json(path, needed, reading=dict)
    data = _read_rows(config, checkpoint, model)
    encoder = checkpoint.required_sizes()
    row_facts = {
        rows.task.name: preparation.look_at(rows, config.data) for rows in data
    }
    files = preparation.files_of(config.data)
    # Of files their names, of tasks by name theirs.
    names = config.data.task_names or [
        os.path.splitext(os.path.basename(path))[0] for path in files.values()
    ]
    name = "_".join(dict.fromkeys(names))
    directory = os.path.join(model_dir, "evaluation", name)
    if is_chief:
        for number in model_directory.trial_numbers(directory):
            shutil.rmtree(model_directory.trial_dir(directory, number))
    records = []
    for number in results.counted_trials(trained):
        folder = model_directory.trial_dir(model_dir, number)
        with strategy.scope():
            model = finetune.trained_model(folder, encoder, data)
        answers = evaluation.Evaluator(
            *(model, data, config.data.eval_batch_size, strategy),
            bool(config.run.jit_compile),
        ).ask()
        record = results.read_of_trial(folder)
        # Whatever was left out of training: all are asked the same here.
        record.pop("fold", None)
        scores = {"tasks": answers.scores, "reports": answers.reports}
        records.append(record | scores)
        if is_chief:
            folder = model_directory.trial_dir(directory, number)
            os.makedirs(folder)
            predictions.write_all(folder, data, answers)
    if not is_chief:
        return None
    summary = results.summarize(
        [data],
        records,
        trained["from_scratch"],
        row_facts,
        best_on_dev=trained["best_on_dev"],
    )
    summary |= {"directory": directory, "files": files}
    results.write(directory, summary)
    report.write(directory, summary)
    return summary


def _read_rows(
    config: FinetuningConfig, checkpoint: Checkpoint, model: dict
) -> list[TaskData]:
    """The rows to be scored, with the tasks as the models know them."""
    model_dir = config.run.model_dir
    assert checkpoint.vocabulary is not None  # The run wrote it.
    positions = checkpoint.required_sizes().max_position_embeddings
    config = preparation.within_positions(config, positions, model_dir)
    if config.data.task_names:
        tasks = preparation.make_tasks(config)
    else:
        files = preparation.files_of(config.data)
        name, skips = config.data.task_name, config.data.skip_empty_texts
        tasks = [own_files.task_of_model(name, files, model, skips)]
    described = {of["task_name"]: of for of in model.get("tasks", [model])}
    for task in tasks:
        learned = described.get(task.name)
        if learned is None:
            raise errors.ConfigError(
                f"Expected a model for {task.name!r} in {model_dir}. Received: "
                + ", ".join(map(repr, described))
            )
        if isinstance(task, tagging.TaggingTask):
            # The files at hand may have fewer.
            task.labels = list(learned["labels"])
            task.segment = learned.get("segment", task.segment)
        task.pooling = config.pooling
        task.hidden_activation = learned.get("hidden_activation")
    data = preparation.read_rows(
        config,
        tasks,
        tokenization.FullTokenizer(checkpoint.vocabulary),
        unwanted=["train"],
    )
    for rows in data:
        here, there = (
            {"pooling": configs.DEFAULT_POOLING}
            | {name: of[name] for name in _OF_MODEL if name in of}
            for of in (rows.about(), described[rows.task.name])
        )
        validation.require_same(
            here,
            there,
            f"{model_dir} has a model of other texts or answers",
            way_out="Choose another --model_dir, or rows and settings like its",
        )
    return data
