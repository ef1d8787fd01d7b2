"""Fine-tuning: a pre-trained encoder and labelled sets -> scored models."""

import dataclasses
import os
from collections.abc import Callable

from electra_tf import errors, model_directory
from electra_tf.files import write_json
from electra_tf.finetuning import (
    predictions,
    preparation,
    report,
    results,
    trials,
)
from electra_tf.finetuning.configs import FinetuningConfig
from electra_tf.text import vocabulary
from electra_tf.training import replicas, workers


def finetune(
    config: FinetuningConfig,
    before_training: Callable[[], None],
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
      What results.json holds, see `results.summarize`, "recipe", see
      `recipe.choices`, and "notes", what was said before the first step. None
      for every worker but the chief.

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
    # Of what the other digests and the configuration say, nothing twice.
    contents = {
        name: digest
        for name, digest in plan.of_trial(plan.trials[0]).digests.items()
        if name not in ("of_texts", "tensors")
    }
    workers.refuse_differences(strategy, config, contents)
    trials.refuse_changes(plan)
    if is_chief:
        for line in plan.told:
            print(line)
        before_training()
        # What exporting needs to know, beside config.json.
        vocabulary.write(plan.start.tokenizer.vocabulary, model_dir)
        tasks = [data.about() for data in plan.folds[0]]
        model = {"encoder": dataclasses.asdict(plan.start.encoder_config)} | (
            tasks[0] if len(tasks) == 1 else {"tasks": tasks}
        )
        write_json(os.path.join(model_dir, model_directory.MODEL_FILE), model)
    records = trials.run_all(plan, strategy)
    if not is_chief:
        return None
    found = results.summarize(
        plan.folds, records, config.from_scratch, plan.of_rows
    )
    found["recipe"] = {
        name: choice._asdict() for name, choice in plan.recipe.items()
    }
    found["notes"] = [*plan.told, *plan.notes]
    results.write(model_dir, found)
    predictions.write_submission(model_dir)
    report.write(model_dir, found)
    return found
