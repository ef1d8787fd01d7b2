"""A finished run and labelled rows -> scores of its models, without training.

Nothing that the run has written is touched: scores and predictions go to
<model_dir>/evaluation/<name of the rows>.
"""

import dataclasses
import os
import shutil
from collections.abc import Sequence

from electra_tf import configs, errors, model_directory
from electra_tf.checkpoints import reading
from electra_tf.checkpoints.checkpoint import Checkpoint
from electra_tf.files import check_fields, read_json
from electra_tf.finetuning import (
    copies,
    evaluation,
    fitting,
    preparation,
    report,
    results,
    trials,
)
from electra_tf.finetuning.configs import FinetuningConfig, FinetuningDataConfig
from electra_tf.finetuning.task_data import TaskData
from electra_tf.tasks import own_data, tagging, text_tasks
from electra_tf.tasks.task import Task
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
    trained = results.read(
        model_dir,
        ": without eval_only the command trains",
        ("trials", "from_scratch"),
    )
    numbers = results.counted_trials(trained)
    checkpoint = reading.read_checkpoint(model_dir)
    data = _read_rows(config, checkpoint)
    encoder = checkpoint.discriminator
    assert encoder is not None
    files = preparation.files_of(config.data)
    about_data, lines = {}, []
    for task_data in data:
        lines += preparation.remarks_on(task_data, config.data)
        about_data[task_data.task.name], more = preparation.look_at(task_data)
        lines += more
    lines += _learned(model_dir, numbers, data) or _in_training_file(
        config, data
    )
    directory = _directory(config.data, model_dir, data)
    unfinished = f"{directory}.unfinished"
    if is_chief:
        print(*lines, sep="\n", end="\n" * bool(lines))
        # Of a command that was killed.
        shutil.rmtree(unfinished, ignore_errors=True)
    records = []
    for number in numbers:
        trial = model_directory.trial_dir(model_dir, number)
        model = fitting.trained_model(trial, encoder, data)
        size = config.data.eval_batch_size
        answers = evaluation.Evaluator(model, data, size).ask()
        record = results.read_of_trial(trial)
        # Whatever was left out of training: all are asked the same here.
        record.pop("fold", None)
        record["tasks"] = answers.scores
        record["reports"] = evaluation.reports(data, answers)
        records.append(record)
        if is_chief:
            folder = model_directory.trial_dir(unfinished, number)
            os.makedirs(folder)
            trials.write_predictions(folder, data, answers)
    if not is_chief:
        return None
    summary = results.summarize(
        [data],
        records,
        trained["from_scratch"],
        about_data,
        best_on_dev=trained["best_on_dev"],
    )
    summary |= {"directory": directory, "files": files}
    results.write(unfinished, summary)
    report.write(unfinished, summary)
    _publish(unfinished, directory)
    return summary


def _publish(unfinished: str, directory: str) -> None:
    """Puts all that was written in the place of what an earlier command wrote.

    Nothing of another content of the files stays beside it; a file of somebody
    else's does.
    """

    def is_scores(name: str) -> bool:
        return name == model_directory.RESULTS_FILE

    os.makedirs(directory, exist_ok=True)
    # They go first and come last: what is there belongs to all of the rest.
    names = os.listdir(directory)
    for name in sorted(names, key=is_scores, reverse=True):
        path = os.path.join(directory, name)
        if model_directory.PART_OF_RUN.fullmatch(name):
            shutil.rmtree(path)
        elif name in _SCORES:
            os.remove(path)
    for name in sorted(os.listdir(unfinished), key=is_scores):
        os.rename(os.path.join(unfinished, name), os.path.join(directory, name))
    os.rmdir(unfinished)


def _learned(
    model_dir: str, numbers: Sequence[int], data: Sequence[TaskData]
) -> list[str]:
    """A line for each split whose rows, all of them, a model was trained on."""
    lines = []
    for number in numbers:
        trial = model_directory.trial_dir(model_dir, number)
        path = os.path.join(trial, model_directory.TRIAL_FILE)
        rows = read_json(path).get(model_directory.DIGESTS, {}).get("rows", {})
        lines += [
            f"{split}: trial {number} was trained on these very rows, so its "
            "scores say how well it learned them by heart"
            for task_data in data
            for split, digest in task_data.digests.items()
            if digest == rows.get(task_data.task.name, {}).get("train")
        ]
    return lines


def _in_training_file(
    config: FinetuningConfig, data: Sequence[TaskData]
) -> list[str]:
    """A line for each split with rows of the training file, if that is there.

    These are rows that the models of other folds were trained on, too.
    """
    if config.data.task_names:
        return []
    about = _about_models(config)
    path = about["reading"].get("train_file", "")
    if not os.path.isfile(path):
        return []
    (rows,) = data
    try:
        task = _own_task(config, {"test": path}, about)
        trained = task.read_examples("test")
    except ValueError:
        return []  # Another file has its name now.
    examples = {**rows.examples, "train": trained}
    told = copies.about(rows.task, examples, rows.do_lower_case)
    return [
        f"{split}: {found['num_rows']} of {rows.num_rows[split]} rows are "
        f"in {path}, too, the training file; scores of these mean little"
        for split, found in told.items()
        if split != "train" and found["num_rows"]
    ]


def _about_models(config: FinetuningConfig) -> dict:
    """What the run wrote of its tasks."""
    path = os.path.join(config.run.model_dir, model_directory.MODEL_FILE)
    about = read_json(path)
    if not config.data.task_names:  # Files of one's own.
        check_fields(about, path, ("kind", "reading"), reading=dict)
        if about["kind"] != "tagging":
            needed = ("train_file", "columns", "has_header")
            lists = {"columns": list[str], "text_columns": list[str]}
            check_fields(about["reading"], path, needed, **lists)
    return about


def _own_task(
    config: FinetuningConfig, files: dict[str, str], about: dict
) -> Task:
    data = config.data
    return own_data.task_of_model(
        data.task_name, files, about, data.skip_empty_texts
    )


def _read_rows(
    config: FinetuningConfig, checkpoint: Checkpoint
) -> list[TaskData]:
    """The rows to be scored, with the tasks as the models know them."""
    model_dir = config.run.model_dir
    assert checkpoint.discriminator is not None
    if checkpoint.vocabulary is None:
        raise errors.ConfigError(
            f"Expected the vocabulary of the models in {model_dir}, found none"
        )
    positions = checkpoint.discriminator.max_position_embeddings
    config, _ = preparation.within_positions(config, positions, model_dir)
    # What is scored with folds are parts of the training file.
    config = dataclasses.replace(
        config, data=dataclasses.replace(config.data, folds=0)
    )
    about = _about_models(config)
    if config.data.task_names:
        tasks = preparation.make_tasks(config)
    else:
        files = preparation.files_of(config.data)
        tasks = [_own_task(config, files, about)]
    described = {of["task_name"]: of for of in about.get("tasks", [about])}
    for task in tasks:
        model = described.get(task.name)
        if model is None:
            raise errors.ConfigError(
                f"Expected a model for {task.name!r} in {model_dir}. Received: "
                + ", ".join(map(repr, described))
            )
        if isinstance(task, tagging.TaggingTask) and model["kind"] == "tagging":
            # The files at hand may have fewer.
            task.labels = model["labels"]
            task.segment = model.get("segment", task.segment)
        here = task.description() | {"pooling": config.pooling}
        _refuse_another_task(
            here,
            {"pooling": configs.DEFAULT_POOLING} | model,
            model_dir,
        )
        task.pooling = config.pooling
        task.hidden_activation = model.get("hidden_activation")
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
        model = described[rows.task.name]
        windows = "windows of --long_texts"
        _refuse_another_task(
            {windows: rows.about().get("windows")},
            {windows: model.get("windows")},
            model_dir,
        )
    return data


def _refuse_another_task(here: dict, model: dict, model_dir: str) -> None:
    """Refuses rows whose texts or answers are not as the models have them."""
    names = ("kind", "labels", "min_value", "scale", "pooling")
    for name in (*names, "windows of --long_texts"):
        if name in model and here.get(name) != model[name]:
            wanted, received = (
                text_tasks.listing(of) if isinstance(of, list) else of
                for of in (model[name], here.get(name))
            )
            raise errors.ConfigError(
                f"Expected {name} {wanted}, as the models in {model_dir} have "
                f"it. Received: {received}"
            )


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

    def is_taken(directory: str) -> bool:
        path = os.path.join(directory, model_directory.RESULTS_FILE)
        if not os.path.exists(path):
            return False
        before = read_json(path, ("files",), files=dict[str, str])["files"]
        return before.keys() != files.keys() or any(
            os.path.abspath(before[split]) != os.path.abspath(files[split])
            for split in files
        )

    first = path = os.path.join(model_dir, EVALUATION_DIR, name)
    number = 1
    while is_taken(path):
        number += 1
        path = f"{first}_{number}"
    return path
