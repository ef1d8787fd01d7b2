"""A finished run and labelled rows -> scores of its models, without training.

Nothing that the run has written is touched: scores and predictions go to
<model_dir>/evaluation/<name of the rows>.
"""

import dataclasses
import itertools
import os
import shutil
from collections.abc import Sequence

from electra_tf import configs, errors, model_directory, validation
from electra_tf.checkpoints import reading
from electra_tf.checkpoints.checkpoint import Checkpoint
from electra_tf.files import check_fields, read_json
from electra_tf.finetuning import (
    evaluation,
    finetune,
    predictions,
    preparation,
    report,
    results,
    task_data,
)
from electra_tf.finetuning.configs import FinetuningConfig, FinetuningDataConfig
from electra_tf.finetuning.task_data import TaskData
from electra_tf.tasks import own_files, tagging
from electra_tf.text import tokenization
from electra_tf.training import replicas

# Below the model directory.
EVALUATION_DIR = "evaluation"
# Files of the folders there, beside those of the trials.
_SCORES = (
    model_directory.RESULTS_FILE,
    model_directory.TABLE_FILE,
    model_directory.REPORT_FILE,
)
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
    is_chief = replicas.is_chief(replicas.make_strategy(config.run))
    replicas.set_policy(config.run)
    model_dir = config.run.model_dir
    advice = ": without eval_only the command trains"
    trained = results.read(model_dir, advice)
    path = os.path.join(model_dir, model_directory.RESULTS_FILE)
    check_fields(trained, path, ("trials", "from_scratch"))
    checkpoint = reading.read_checkpoint(model_dir)
    model = _read_model_file(config)
    data = _read_rows(config, checkpoint, model)
    encoder = checkpoint.discriminator
    assert encoder is not None
    of_rows = {
        rows.task.name: preparation.look_at(rows, config.data) for rows in data
    }
    _warn_of_learned(config, data, model)
    files = preparation.files_of(config.data)
    directory = _directory(config.data, model_dir, data)
    if is_chief:
        _clear(directory)
    records = []
    for number in results.counted_trials(trained):
        folder = model_directory.trial_dir(model_dir, number)
        answers = evaluation.Evaluator(
            finetune.trained_model(folder, encoder, data),
            data,
            config.data.eval_batch_size,
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
        of_rows,
        best_on_dev=trained["best_on_dev"],
    )
    summary |= {"directory": directory, "files": files}
    results.write(directory, summary)
    report.write(directory, summary)
    return summary


def _clear(directory: str) -> None:
    """Removes what an earlier command wrote, first its scores."""
    for name in _SCORES:
        path = os.path.join(directory, name)
        if os.path.exists(path):
            os.remove(path)
    for number in model_directory.trial_numbers(directory):
        shutil.rmtree(model_directory.trial_dir(directory, number))


def _warn_of_learned(
    config: FinetuningConfig, data: Sequence[TaskData], model: dict
) -> None:
    """Warns of rows that are in the training file, where that is there."""
    path = model.get("reading", {}).get("train_file", "")
    if config.data.task_names or not os.path.isfile(path):
        return
    (rows,) = data
    try:
        skip = config.data.skip_empty_texts
        name = config.data.task_name
        task = own_files.task_of_model(name, {"test": path}, model, skip)
        trained = task.read_examples("test")
    except ValueError:
        return  # Another file has its name now.
    examples = {**rows.examples, "train": trained}
    both = dataclasses.replace(rows, examples=examples)
    for split, counts in task_data.copies(both).items():
        if split != "train" and "line" in counts:
            errors.warn(counts["line"])


def _read_model_file(config: FinetuningConfig) -> dict:
    """What the run wrote of its tasks."""
    path = os.path.join(config.run.model_dir, model_directory.MODEL_FILE)
    model = read_json(path)
    if not config.data.task_names:  # Files of one's own.
        check_fields(model, path, ("kind", "reading"), reading=dict)
        if model["kind"] != "tagging":
            needed = ("train_file", "columns", "has_header")
            lists = {"columns": list[str], "text_columns": list[str]}
            check_fields(model["reading"], path, needed, **lists)
    return model


def _read_rows(
    config: FinetuningConfig, checkpoint: Checkpoint, model: dict
) -> list[TaskData]:
    """The rows to be scored, with the tasks as the models know them."""
    model_dir = config.run.model_dir
    assert checkpoint.discriminator is not None
    if checkpoint.vocabulary is None:
        raise errors.ConfigError(
            f"Expected the vocabulary of the models in {model_dir}, found none"
        )
    positions = checkpoint.discriminator.max_position_embeddings
    config = preparation.within_positions(config, positions, model_dir)
    if config.data.task_names:
        tasks = preparation.make_tasks(config)
    else:
        files = preparation.files_of(config.data)
        task = own_files.task_of_model(
            config.data.task_name, files, model, config.data.skip_empty_texts
        )
        tasks = [task]
    described = {of["task_name"]: of for of in model.get("tasks", [model])}
    for task in tasks:
        learned = described.get(task.name)
        if learned is None:
            raise errors.ConfigError(
                f"Expected a model for {task.name!r} in {model_dir}. Received: "
                + ", ".join(map(repr, described))
            )
        is_tagger = learned["kind"] == "tagging"
        if isinstance(task, tagging.TaggingTask) and is_tagger:
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
        if not rows.examples:
            where = f" in {rows.task.looked_in}" if rows.task.looked_in else ""
            raise errors.ConfigError(
                f"Expected rows to score of the task {rows.task.name!r}. "
                f"Received: none{where}"
            )
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


def _directory(
    data: FinetuningDataConfig, model_dir: str, rows: Sequence[TaskData]
) -> str:
    """Where scores go: beside those of other files of the same name."""
    files = preparation.files_of(data)
    names = [task_data.task.name for task_data in rows]
    if not data.task_names:
        paths = files.values()
        names = [os.path.splitext(os.path.basename(p))[0] for p in paths]
    name = "_".join(dict.fromkeys(names))

    here = {split: os.path.abspath(path) for split, path in files.items()}

    def is_taken(directory: str) -> bool:
        path = os.path.join(directory, model_directory.RESULTS_FILE)
        if not os.path.exists(path):
            return False
        before = read_json(path, ("files",), files=dict[str, str])["files"]
        return here != {s: os.path.abspath(p) for s, p in before.items()}

    first = os.path.join(model_dir, EVALUATION_DIR, name)
    others = (f"{first}_{number}" for number in itertools.count(2))
    return next(p for p in itertools.chain([first], others) if not is_taken(p))
