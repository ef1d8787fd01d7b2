"""What a fine-tuned model said of each row, as files."""

import os
import re
import zipfile
from collections.abc import Iterable, Sequence

from electra_tf import errors, model_directory
from electra_tf.files import whole_file, write_json
from electra_tf.finetuning import evaluation, results
from electra_tf.finetuning.task_data import TaskData
from electra_tf.tasks import glue

ARCHIVE = "glue_submission.zip"
# In a trial's directory: one file for each test set.
SUBMISSION_DIR = "submission"


def write_all(
    directory: str, tasks: Sequence[TaskData], answers: evaluation.Evaluation
) -> None:
    """Writes <split>_predictions.tsv, and what benchmarks want.

    That is submission/<task>.tsv for GLUE, and for SQuAD's scripts
    <split>_predictions.json, <split>_null_odds.json and
    <split>_best_answers.json. Of several tasks their names begin the files'.
    """
    for data in tasks:
        task = data.task
        prefix = f"{task.name}_" if len(tasks) > 1 else ""
        for split, outputs in answers.outputs[task.name].items():
            examples = data.examples[split]
            asked = (examples, outputs, data.tokenizer, data.max_seq_length)
            path = os.path.join(directory, f"{prefix}{split}_predictions")
            write_tsv(f"{path}.tsv", *task.prediction_table(*asked))
            submission = task.submission_rows(split, examples, outputs)
            if submission is not None:
                name, header, rows = submission
                folder = os.path.join(directory, SUBMISSION_DIR)
                os.makedirs(folder, exist_ok=True)
                write_tsv(os.path.join(folder, name), header, rows)
            for name, content in task.submission_json(*asked).items():
                path = os.path.join(directory, f"{prefix}{split}_{name}.json")
                write_json(path, content, ensure_ascii=False)


def write_tsv(
    path: str, header: Sequence[str], rows: Iterable[Sequence[str]]
) -> None:
    """Writes tab-separated values; quotes mean nothing, as in GLUE's files."""
    with (
        whole_file(path) as temporary,
        open(temporary, "w", encoding="utf-8", newline="\n") as f,
    ):
        for row in (header, *rows):
            # A line is a row.
            cleaned = (re.sub(r"[\t\r\n]", " ", value) for value in row)
            f.write("\t".join(cleaned) + "\n")


def find_files(model_dir: str) -> dict[str, str]:
    """The predictions of the trial that was best on dev.

    Returns:
      Name in the archive -> path; nothing for a run without GLUE's test sets.

    Raises:
      ValueError: If there is no finished run.
    """
    best = results.read(model_dir)["best_on_dev"]
    folder = os.path.join(
        model_directory.trial_dir(model_dir, best), SUBMISSION_DIR
    )
    paths = {name: os.path.join(folder, name) for name in glue.SUBMISSIONS}
    return {name: path for name, path in paths.items() if os.path.isfile(path)}


def write_archive(
    path: str, model_dirs: Sequence[str]
) -> tuple[list[str], list[str]]:
    """Writes one archive of the predictions of several runs.

    Args:
      path: Of the archive; the same predictions give the same bytes.
      model_dirs: Finished fine-tuning runs.

    Returns:
      Names of the files in the archive, and of those that it lacks.

    Raises:
      ValueError: If a run is not finished, two runs have the same test set, or
        there is none at all.
    """
    paths: dict[str, str] = {}
    for model_dir in model_dirs:
        for name, source in find_files(model_dir).items():
            if name in paths:
                raise errors.ConfigError(
                    f"Expected {name} of one run. Received: {paths[name]} and "
                    f"{source}"
                )
            paths[name] = source
    if not paths:
        raise errors.ConfigError(
            "Expected predictions of GLUE's test sets. Received: none in "
            f"{', '.join(model_dirs)}: fine-tune with the test files in place"
        )
    names = [name for name in glue.SUBMISSIONS if name in paths]
    with (
        whole_file(path) as temporary,
        zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as archive,
    ):
        for name in names:
            with open(paths[name], "rb") as f:
                # Without the time, so that nothing but content counts.
                archive.writestr(
                    zipfile.ZipInfo(name), f.read(), zipfile.ZIP_DEFLATED
                )
    return names, [name for name in glue.SUBMISSIONS if name not in paths]
