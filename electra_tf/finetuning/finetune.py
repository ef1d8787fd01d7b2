"""Fine-tuning: a pre-trained encoder and labelled sets -> scored models."""

import dataclasses
import itertools
import json
import os
from collections.abc import Callable, Mapping, Sequence

from electra_tf import errors, model_directory
from electra_tf.files import write_atomically
from electra_tf.finetuning import predictions, preparation, results, trials
from electra_tf.finetuning.configs import FinetuningConfig
from electra_tf.text import vocabulary
from electra_tf.training import replicas


def finetune(
    config: FinetuningConfig,
    before_training: Callable[[], None],
) -> dict | None:
    """Fine-tunes the models of a run and scores each of them.

    Finished trials are not run again, and an unfinished one goes on from its
    last checkpoint. A trial is in <model_dir>/trial_<n>. Beside results.json
    and results.txt there are the best trial's predictions of GLUE's test sets,
    glue_submission.zip, where these were predicted.

    Args:
      config: Everything the run needs.
      before_training: Called once all is checked, before the first step.

    Returns:
      What results.json holds, see `results.summarize`; None for every worker
      but the chief.

    Raises:
      ValueError: If data, vocabulary and checkpoint do not fit together.
      errors.Stopped: After a request to stop.
      errors.TrainingError: If the loss is not finite.
    """
    # First: workers can only meet before anything else has run.
    strategy = replicas.make_strategy(config.run)
    is_chief = replicas.is_chief(strategy)
    replicas.set_policy(config.run)
    prepared = preparation.prepare(config)
    model_dir = config.run.model_dir
    if is_chief:
        for note in prepared.notes:
            print(note)
        before_training()
        _write_model_files(prepared)
    records = trials.run_all(config, prepared, strategy)
    if not is_chief:
        return None
    found = results.summarize(prepared.folds, records, config.from_scratch)
    for name, content in (
        (model_directory.RESULTS_FILE, json.dumps(found, indent=1)),
        (model_directory.TABLE_FILE, results.format_results(found)),
    ):
        write_atomically(os.path.join(model_dir, name), content + "\n")
    _write_submission(model_dir)
    return found


def _write_submission(model_dir: str) -> None:
    """Packs the best trial's predictions of GLUE's test sets, if there are."""
    if not predictions.find_files(model_dir):
        return
    path = os.path.join(model_dir, predictions.ARCHIVE)
    try:
        predictions.write_archive(path, [model_dir])
    except errors.ConfigError as error:
        print(f"no {predictions.ARCHIVE}: {error}")


def _has_pairs(examples: Mapping[str, Sequence]) -> bool:
    """Whether the examples are pairs of texts."""
    return any(
        getattr(example, "text_b", None) is not None
        for example in itertools.chain(*examples.values())
    )


def _write_model_files(prepared: preparation.Prepared) -> None:
    """What exporting needs to know, beside config.json."""
    model_dir = prepared.run.model_dir
    vocabulary.write(prepared.tokenizer.vocabulary, model_dir)
    tasks = [
        {"task_name": data.task.name, "has_pairs": _has_pairs(data.examples)}
        | data.task.description()
        for data in prepared.folds[0]
    ]
    about = {"encoder": dataclasses.asdict(prepared.encoder_config)} | (
        tasks[0] if len(tasks) == 1 else {"tasks": tasks}
    )
    write_atomically(
        os.path.join(model_dir, model_directory.MODEL_FILE),
        json.dumps(about, indent=1) + "\n",
    )
