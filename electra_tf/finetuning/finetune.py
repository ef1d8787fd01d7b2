"""Fine-tuning: a pre-trained encoder and a labelled set -> a scored model."""

import collections
import dataclasses
import functools
import json
import os
import re
import statistics
import tempfile
import typing
from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from electra_tf import (
    configs,
    optimization,
    tokenization,
    training,
)
from electra_tf.checkpoint_conversion import reading, vocabulary
from electra_tf.checkpoint_conversion.checkpoint import Checkpoint, Vocabulary
from electra_tf.command_line import write_atomically
from electra_tf.finetuning import batches, text_tasks
from electra_tf.finetuning.features import Features
from electra_tf.finetuning.model import FinetuningModel

RESULTS_FILE = "results.json"


def finetune(
    config: configs.FinetuningConfig, before_training: Callable[[], None]
) -> dict:
    """Fine-tunes one model per seed and scores each on dev and test.

    Finished trials are not run again, and an unfinished one goes on from its
    last checkpoint. A trial is in <model_dir>/trial_<n>.

    Args:
      config: Everything the run needs.
      before_training: Called once all is checked, before the first step.

    Returns:
      What results.json holds: scores per trial and their summaries.

    Raises:
      ValueError: If data, vocabulary and checkpoint do not fit together.
      training.Stopped: After a request to stop.
      training.TrainingError: If the loss is not finite.
    """
    data = config.data
    if config.run.distribution_strategy == "multi_worker_mirrored":
        raise configs.ConfigError(
            "Fine-tuning runs on one machine: RunConfig.distribution_strategy "
            "must be one_device, mirrored or tpu. Received: "
            "distribution_strategy='multi_worker_mirrored'"
        )
    training.set_policy(config.run)
    checkpoint = read_encoder(config.init_checkpoint)
    encoder_config = typing.cast(
        configs.EncoderConfig, checkpoint.discriminator
    )
    tokenizer = _make_tokenizer(config, checkpoint)
    _check_sizes(config, encoder_config, tokenizer)
    files = {"train": data.train_file, "dev": data.dev_file}
    if data.test_file:
        files["test"] = data.test_file
    task = text_tasks.LabelledTextTask(data.task_name, files)
    examples = {split: task.read_examples(split) for split in files}
    features = {
        split: task.features(examples[split], tokenizer, data.max_seq_length)
        for split in files
    }
    before_training()
    _write_model_files(config, encoder_config, task, tokenizer)
    trials = []
    for trial in range(1, config.num_trials + 1):
        trials.append(
            _run_trial(
                config,
                trial,
                encoder_config,
                checkpoint,
                task,
                examples,
                features,
            )
        )
    results = _summarize(config, task, examples, trials)
    write_atomically(
        os.path.join(config.run.model_dir, RESULTS_FILE),
        json.dumps(results, indent=1) + "\n",
    )
    return results


def read_encoder(init_checkpoint: str) -> Checkpoint:
    """The encoder of a checkpoint of any format.

    Raises:
      ValueError: If there is none, or it cannot be read.
    """
    checkpoint = reading.read_checkpoint(init_checkpoint)
    if checkpoint.discriminator is None:
        raise configs.ConfigError(
            "FinetuningConfig.init_checkpoint must be a checkpoint with a "
            f"discriminator. Received: {init_checkpoint}, with a generator only"
        )
    return checkpoint.encoder_only()


def _make_tokenizer(
    config: configs.FinetuningConfig, checkpoint: Checkpoint
) -> tokenization.FullTokenizer:
    """Of the given vocabulary, or of the one beside the checkpoint."""
    vocab_file, found = config.data.vocab_file, checkpoint.vocabulary
    if vocab_file:
        return tokenization.FullTokenizer(
            vocab_file,
            *_text_settings(
                config.data, tokenization.load_settings(vocab_file), vocab_file
            ),
        )
    if found is None:
        raise configs.ConfigError(
            "FinetuningDataConfig.vocab_file must be given, as there is no "
            f"vocabulary beside {config.init_checkpoint}"
        )
    made_for = {}
    if found.do_lower_case is not None:
        made_for = {
            "do_lower_case": found.do_lower_case,
            "strip_accents": vocabulary.strips_accents(found),
        }
    settings = _text_settings(config.data, made_for, config.init_checkpoint)
    with tempfile.TemporaryDirectory() as folder:
        vocabulary.write(found, folder)
        return tokenization.FullTokenizer(
            os.path.join(folder, vocabulary.VOCAB_FILE), *settings
        )


def _text_settings(
    data: configs.FinetuningDataConfig, made_for: dict[str, bool], source: str
) -> tuple[bool, bool]:
    """Whether text is lower-cased, and whether it loses its accents.

    Args:
      data: May say so.
      made_for: What the vocabulary was made for, where that is known.
      source: Where the vocabulary comes from.

    Raises:
      ConfigError: If the two differ.
    """
    settings: dict[str, bool] = {}
    for name in ("do_lower_case", "strip_accents"):
        wanted = getattr(data, name)
        known = made_for.get(name)
        # Without lower-casing, accents are kept whatever is said of them.
        counts = settings.get("do_lower_case", True)
        if counts and known is not None and wanted not in (None, known):
            raise configs.ConfigError(
                f"FinetuningDataConfig.{name} must be {known}, as for "
                f"{source}. Received: {name}={wanted}"
            )
        settings[name] = next(
            value for value in (wanted, known, True) if value is not None
        )
    return settings["do_lower_case"], settings["strip_accents"]


def _check_sizes(config, encoder_config, tokenizer) -> None:
    data = config.data
    if tokenizer.vocab_size != encoder_config.vocab_size:
        raise configs.ConfigError(
            f"Expected the vocabulary of {config.init_checkpoint} with "
            f"{encoder_config.vocab_size} entries. Received: {data.vocab_file} "
            f"with {tokenizer.vocab_size}"
        )
    if data.max_seq_length > encoder_config.max_position_embeddings:
        raise configs.ConfigError(
            "FinetuningDataConfig.max_seq_length must not exceed the "
            f"{encoder_config.max_position_embeddings} positions of "
            f"{config.init_checkpoint}. Received: "
            f"max_seq_length={data.max_seq_length}"
        )


def _write_model_files(config, encoder_config, task, tokenizer) -> None:
    """What exporting needs to know, beside config.json."""
    vocabulary.write(
        Vocabulary(
            tuple(tokenizer.vocab),
            tokenizer.do_lower_case,
            tokenizer.strip_accents,
        ),
        config.run.model_dir,
    )
    write_atomically(
        os.path.join(config.run.model_dir, "model.json"),
        json.dumps(
            {
                "encoder": dataclasses.asdict(encoder_config),
                "task_name": task.name,
                "labels": task.labels,
            },
            indent=1,
        )
        + "\n",
    )


def build_model(
    encoder_config: configs.EncoderConfig,
    task: text_tasks.ClassificationTask,
) -> FinetuningModel:
    """The encoder with the task's head."""
    return FinetuningModel(encoder_config, [task.make_head(encoder_config)])


def _run_trial(
    config: configs.FinetuningConfig,
    trial: int,
    encoder_config: configs.EncoderConfig,
    checkpoint: Checkpoint,
    task: text_tasks.ClassificationTask,
    examples: dict[str, Sequence],
    features: dict[str, Features],
) -> dict:
    """Trains and scores one model; reads the scores where that is done."""
    trial_dir = os.path.join(config.run.model_dir, f"trial_{trial}")
    results_path = os.path.join(trial_dir, RESULTS_FILE)
    if os.path.exists(results_path):
        with open(results_path, encoding="utf-8") as f:
            return json.load(f)
    num_train_steps = config.data.num_train_steps(len(examples["train"]))
    run = dataclasses.replace(
        config.run,
        model_dir=trial_dir,
        seed=config.run.seed + trial - 1,
        num_train_steps=num_train_steps,
    )
    os.makedirs(trial_dir, exist_ok=True)
    training.set_policy(run)  # Seeds the new head.
    strategy = training.make_strategy(run)
    with strategy.scope():
        model = build_model(encoder_config, task)
        if not config.from_scratch:
            reading.assign_all(
                checkpoint,
                model.electra.variables,
                config.init_checkpoint,
                "the encoder",
            )
        optimizer = optimization.AdamWeightDecay(
            config.optimizer,
            num_train_steps,
            {
                v.path: optimization.layerwise_scale(
                    v.path,
                    encoder_config.num_hidden_layers,
                    config.optimizer.layerwise_lr_decay,
                    config.optimizer.layerwise_top_layer_scaled,
                )
                for v in model.trainable_variables
            },
        )
        optimizer.build(model.trainable_variables)
        engine = training.Engine(
            strategy,
            model,
            _make_loss_function(model),
            optimizer,
            run,
            config.data.train_batch_size,
            functools.partial(
                batches.train_dataset, features["train"], run.seed
            ),
        )
    training.train(
        engine,
        num_train_steps,
        f"fine-tuning trial {trial}/{config.num_trials}",
        (f"{task.name}_loss", f"{task.name}_accuracy"),
    )
    result: dict = {"trial": trial, "seed": run.seed}
    predict = make_predictor(model, task.name, config.data.eval_batch_size)
    for split in ("dev", "test"):
        if split in features:
            outputs = predict(features[split])
            result[split] = task.scores(outputs)
            result[split]["predicted_labels"] = len(
                np.unique(outputs["predictions"])
            )
            _write_predictions(trial_dir, split, task, examples[split], outputs)
    write_atomically(results_path, json.dumps(result, indent=1) + "\n")
    return result


def _make_loss_function(model: FinetuningModel):
    """The engine's view of the model."""

    def loss_function(features, dropout_seed, all_reduce_sum):
        outputs = model(
            features,
            dropout_seed=dropout_seed,
            all_reduce_sum=all_reduce_sum,
            teacher_forcing=True,
        )
        return outputs["total_loss"], model.metric_sums(outputs)

    return loss_function


def make_predictor(
    model: FinetuningModel, task_name: str, batch_size: int
) -> Callable[[Features], dict[str, np.ndarray]]:
    """A function from N rows to the head's outputs for them, without dropout.

    Args:
      model: The fine-tuned model.
      task_name: Whose head.
      batch_size: Rows of a step.

    Returns:
      A function of features; its result maps names to [N, ...], in the order
      of the rows.
    """

    @tf.function(reduce_retracing=True)
    def step(batch):
        return model(batch)["task_outputs"][task_name]

    def predict(features: Features) -> dict[str, np.ndarray]:
        collected: dict[str, list[np.ndarray]] = collections.defaultdict(list)
        order = []
        for rows, batch in batches.eval_batches(features, batch_size):
            order.append(rows)
            for name, values in step(batch).items():
                collected[name].append(values.numpy())
        back = np.argsort(np.concatenate(order))
        return {
            name: np.concatenate(parts)[back]
            for name, parts in collected.items()
        }

    return predict


def _write_predictions(trial_dir, split, task, examples, outputs) -> None:
    """One row per example: true label, predicted label, scores."""
    scores = tf.nn.softmax(outputs["logits"]).numpy()
    path = os.path.join(trial_dir, f"{split}_predictions.tsv")
    with open(path, "w", encoding="utf-8", newline="\n") as f:

        def write_row(*columns):
            # Quotes mean nothing, as in GLUE's files; a line is a row.
            cleaned = (re.sub(r"[\t\r\n]", " ", c) for c in columns)
            f.write("\t".join(cleaned) + "\n")

        write_row("label", "prediction", *task.labels, "text")
        for example, prediction, row in zip(
            examples, outputs["predictions"], scores, strict=True
        ):
            write_row(
                example.label,
                task.labels[prediction],
                *(f"{score:.6f}" for score in row),
                example.text_a,
            )


def _summarize(config, task, examples, trials) -> dict:
    """Scores over the trials, and of always saying the commonest label."""
    counts = collections.Counter(e.label for e in examples["train"])
    majority_label = max(sorted(counts), key=lambda label: counts[label])
    best = max(trials, key=lambda result: result["dev"]["accuracy"])
    results = {
        "task": task.name,
        "labels": task.labels,
        "from_scratch": config.from_scratch,
        "num_rows": {split: len(rows) for split, rows in examples.items()},
        "trials": trials,
        "best_on_dev": best["trial"],
        "degenerate_trials": [
            result["trial"]
            for result in trials
            if result["dev"]["predicted_labels"] == 1
        ],
        "majority": {"label": majority_label},
    }
    for split in ("dev", "test"):
        if split not in examples:
            continue
        accuracies = [result[split]["accuracy"] for result in trials]
        results[split] = {
            "accuracy_mean": statistics.fmean(accuracies),
            "accuracy_median": statistics.median(accuracies),
            "accuracy_stdev": (
                statistics.stdev(accuracies) if len(trials) > 1 else None
            ),
        }
        share = sum(e.label == majority_label for e in examples[split])
        results["majority"][split] = 100.0 * share / len(examples[split])
    return results


def format_results(results: dict) -> str:
    """The results as a table."""
    lines = []
    for result in results["trials"]:
        scores = "  ".join(
            f"{split} {result[split]['accuracy']:5.2f} %"
            for split in ("dev", "test")
            if split in result
        )
        lines.append(f"  trial {result['trial']}: accuracy {scores}")
    for split in ("dev", "test"):
        if split in results:
            mean = results[split]["accuracy_mean"]
            spread = results[split]["accuracy_stdev"]
            lines.append(
                f"  {split}: mean {mean:.2f} %"
                + (f" +- {spread:.2f}" if spread is not None else "")
                + f", majority class {results['majority'][split]:.2f} %"
            )
    for trial in results["degenerate_trials"]:
        lines.append(
            f"  trial {trial} is degenerate: it gives every row of the dev set "
            "the same label. Try another seed or a lower learning rate."
        )
    return "\n".join(lines)
