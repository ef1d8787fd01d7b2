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
from electra_tf.finetuning.tasks import own_data, tagging, text_tasks
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
    found = results.read(
        model_dir,
        ": without eval_only the command trains",
        ("trials", "from_scratch"),
    )
    checkpoint = reading.read_checkpoint(model_dir)
    data = _read_rows(config, checkpoint)
    encoder = checkpoint.discriminator
    assert encoder is not None
    directory = _directory(
        os.path.join(
            model_dir, EVALUATION_DIR, _name_of_rows(config.data, data)
        ),
        preparation.files_of(config.data),
    )
    about_data = {}
    for of_task in data:
        about, lines = preparation.look_at(of_task)
        about_data[of_task.task.name] = about
        if is_chief:
            for line in preparation.remarks_on(of_task, config.data) + lines:
                print(line)
    if is_chief:
        lines = _learned(model_dir, results.counted_trials(found), data)
        lines = lines or _in_training_file(config, data)
        for line in lines:
            print(line)
    unfinished = f"{directory}.unfinished"
    if is_chief:
        # Of a command that was killed.
        shutil.rmtree(unfinished, ignore_errors=True)
    records = []
    for number in results.counted_trials(found):
        trained = model_directory.trial_dir(model_dir, number)
        model = fitting.trained_model(trained, encoder, data)
        answers = evaluation.Evaluator(
            model, data, config.data.eval_batch_size
        ).ask()
        record = results.read_of_trial(trained)
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
        found["from_scratch"],
        about_data,
        best_on_dev=found["best_on_dev"],
    )
    files = preparation.files_of(config.data)
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
        path = os.path.join(
            model_directory.trial_dir(model_dir, number),
            model_directory.TRIAL_FILE,
        )
        # Earlier versions kept no digests.
        rows = read_json(path).get(model_directory.DIGESTS, {}).get("rows", {})
        lines += [
            f"{split}: trial {number} was trained on these very rows, so its "
            "scores say how well it learned them by heart"
            for of_task in data
            for split, digest in of_task.digests.items()
            if digest == rows.get(of_task.task.name, {}).get("train")
        ]
    return lines


def _in_training_file(
    config: FinetuningConfig, data: Sequence[TaskData]
) -> list[str]:
    """A line for each split with rows of the training file, if that is there.

    These are rows that the models of other folds were trained on, too.
    """
    about = _about_models(config.run.model_dir)
    path = about.get("reading", {}).get("train_file", "")
    if config.data.task_names or not os.path.isfile(path):
        return []
    (of_task,) = data
    try:
        task = own_data.task_of_model(
            config.data.task_name,
            {"test": path},
            about,
            config.data.skip_empty_texts,
        )
        trained = task.read_examples("test")
    except ValueError:
        return []  # Another file has its name now.
    told = copies.about(
        of_task.task,
        {**of_task.examples, "train": trained},
        of_task.do_lower_case,
    )
    return [
        f"{split}: {found['num_rows']} of {of_task.num_rows[split]} rows are "
        f"in {path}, too, the training file; scores of these mean little"
        for split, found in told.items()
        if split != "train" and found["num_rows"]
    ]


def _about_models(model_dir: str) -> dict:
    """What the run wrote of its tasks."""
    path = os.path.join(model_dir, model_directory.MODEL_FILE)
    about = read_json(path, reading=dict)
    if about.get("reading") is None:  # Not files of one's own.
        about.pop("reading", None)
    elif about["kind"] != "tagging":
        check_fields(
            about["reading"],
            path,
            ("train_file", "columns", "has_header"),
            columns=list[str],
            text_columns=list[str],
        )
    return about


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
    about = _about_models(model_dir)
    of_tasks = about.get("tasks", [about])
    described_of = {of["task_name"]: of for of in of_tasks}
    if config.data.task_names or "reading" not in about:
        # Files of one's own, after an earlier version: by the training file.
        tasks = preparation.make_tasks(config)
    else:
        tasks = [
            own_data.task_of_model(
                config.data.task_name,
                preparation.files_of(config.data),
                about,
                config.data.skip_empty_texts,
            )
        ]
    for task in tasks:
        described = described_of.get(task.name)
        if described is None:
            raise errors.ConfigError(
                f"Expected a model for {task.name!r} in {model_dir}. Received: "
                + ", ".join(repr(of["task_name"]) for of in of_tasks)
            )
        is_tagging = described.get("kind") == "tagging"
        if isinstance(task, tagging.TaggingTask) and is_tagging:
            # The files at hand may have fewer.
            task.labels = described["labels"]
            task.segment = described.get("segment", task.segment)
        _refuse_other_answers(task.description(), described, model_dir)
        pooling = described.get("pooling", configs.DEFAULT_POOLING)
        if config.pooling != pooling:
            raise errors.ConfigError(
                f"Expected FinetuningConfig.pooling={pooling!r}, as the models "
                f"in {model_dir} have it. Received: {config.pooling!r}"
            )
        task.pooling = pooling
        task.hidden_activation = described.get("hidden_activation")
    data = preparation.read_rows(
        config,
        tasks,
        tokenization.FullTokenizer(checkpoint.vocabulary),
        unwanted=["train"],
    )
    for of_task in data:
        if not of_task.examples:
            raise errors.ConfigError(
                f"Expected rows to score of the task {of_task.task.name!r}. "
                f"Received: none{_where(of_task)}"
            )
        _refuse_other_windows(of_task, described_of[of_task.task.name], config)
    return data


def _refuse_other_windows(
    data: TaskData, described: dict, config: FinetuningConfig
) -> None:
    """Refuses to read long texts in another way than the models learned."""
    ours, theirs = data.about().get("windows"), described.get("windows")
    if ours == theirs:
        return

    def in_words(windows):
        if windows is None:
            return "long_texts='cut'"
        values = ", ".join(f"{name}={of}" for name, of in windows.items())
        return f"long_texts='windows' ({values})"

    raise errors.ConfigError(
        f"Expected {in_words(theirs)}, as the models in "
        f"{config.run.model_dir} have it. Received: {in_words(ours)}"
    )


def _where(data: TaskData) -> str:
    return f" in {data.task.looked_in}" if data.task.looked_in else ""


def _refuse_other_answers(ours: dict, theirs: dict, model_dir: str) -> None:
    """Refuses rows whose answers are not those of the models.

    Args:
      ours: Description of a task.
      theirs: What the run wrote of it.
      model_dir: Of the run.
    """
    for name in ("kind", "labels", "min_value", "scale"):
        a, b = ours.get(name), theirs.get(name)
        if a != b and name in theirs:
            shown = [
                text_tasks.listing(value) if isinstance(value, list) else value
                for value in (b, a)
            ]
            raise errors.ConfigError(
                f"Expected {name} {shown[0]}, as the models in {model_dir} "
                f"have it. Received: {shown[1]}"
            )


def _directory(path: str, files: dict[str, str]) -> str:
    """Where scores go: beside those of other files of the same name.

    Args:
      path: Where they go if there are none.
      files: See `preparation.files_of`.
    """

    def places(of_files: dict) -> dict:
        return {
            split: os.path.abspath(file) for split, file in of_files.items()
        }

    def is_taken(directory: str) -> bool:
        known = os.path.join(directory, model_directory.RESULTS_FILE)
        if not os.path.exists(known):
            return False
        before = read_json(known, files=dict[str, str]).get("files")
        return before is not None and places(before) != places(files)

    found, number = path, 1
    while is_taken(found):
        number += 1
        found = f"{path}_{number}"
    return found


def _name_of_rows(data: FinetuningDataConfig, rows: list[TaskData]) -> str:
    if data.task_names:
        return "_".join(of_task.task.name for of_task in rows)
    stems = [
        os.path.splitext(os.path.basename(path))[0]
        for path in preparation.files_of(data).values()
    ]
    return "_".join(dict.fromkeys(stems))
