"""Pre-training: configuration -> a trained model and its held-out metrics.

`pretrain` is the paper's run: vocabulary, data, model, optimizer and engine,
put together and trained. What it takes stands below it in the order of use;
last, `advice` on what the metrics show.
"""

import contextlib
import dataclasses
import functools
import os
from collections.abc import Callable

import tensorflow as tf

from electra_tf import configs, errors, files, model_directory, validation
from electra_tf.checkpoints import continuing
from electra_tf.model import ablations, masking
from electra_tf.pretraining_data import batches, manifest
from electra_tf.text import vocabulary
from electra_tf.training import engine as engine_lib
from electra_tf.training import loop, optimization, replicas, saving, workers

# Held-out masks and samples must not repeat those of training.
EVAL_SEED_OFFSET = 1_000_003
# Before this share of the steps a discriminator that finds nothing is young.
_GRACE = 0.1
_MIN_GRACE_STEPS = 500
# Fewer of the replaced tokens found than this, ranked hardly better than by
# chance (0.5): it says "original" to everything.
_COLLAPSED_RECALL = 0.01
_COLLAPSED_AUC = 0.6
# A generator of the paper's sizes is right for about 55 % of its samples when
# it is trained.
_TOO_GOOD_ACCURACY = 0.75
# More float16 steps than this that are not taken are worth a word.
_MANY_SKIPPED = 0.1


def pretrain(
    config: configs.PretrainingConfig, before_training: Callable[[], None]
) -> dict[str, float] | None:
    """Trains a model, resuming where an earlier run stopped, and evaluates it.

    Args:
      config: Everything the run needs.
      before_training: Called once all is checked and built, before step 1.

    Returns:
      Held-out metrics under the original's names, empty without held-out data;
      None for every worker but the chief.

    Raises:
      ValueError: If data, vocabulary and configuration do not fit together, a
        setting is one of fine-tuning, or workers differ.
      Stopped: After a request to stop.
      TrainingError: If the loss is not finite.
    """
    optimization.refuse_layerwise_rates(config.optimizer)
    inputs, engine = _begin(config)
    strategy = engine.strategy
    if replicas.are_several_workers(strategy):
        variables = [*engine.model.variables, *engine.optimizer.variables]
        weights = "the initial weights, those of init_checkpoint if it is given"
        contents = {
            "the training records": inputs.train_data.digest,
            "the held-out records": inputs.scored_on(config),
            "the vocabulary": inputs.vocab,
            weights: workers.digest_of_variables(variables),
        }
        workers.refuse_differences(strategy, config, contents)
    is_chief = replicas.is_chief(strategy)
    if is_chief:
        _describe(config, engine.model, inputs)
        before_training()
        _note_inputs(config, inputs)
    metrics = _train(config, inputs, engine)
    if not is_chief:
        return None
    if inputs.heldout_data:
        path = os.path.join(
            config.run.model_dir, model_directory.EVAL_RESULTS_FILE
        )
        files.write_json(path, {"step": _last_step(config.run)} | metrics)
    return metrics


def evaluate(config: configs.PretrainingConfig) -> dict[str, float]:
    """Scores a model on held-out examples; trains and writes nothing.

    Args:
      config: Everything a run needs. The model is that of `run.model_dir` as
        far as it is trained, and without one that of `init_checkpoint`.

    Returns:
      See `pretrain`.

    Raises:
      ValueError: As of `pretrain`; or if there are no held-out examples, or no
        model.
    """
    is_trained = saving.is_under_way(config.run.model_dir)
    starts = config.init_checkpoint or config.init_generator_checkpoint
    validation.require_together(
        config,
        bool(config.data.heldout_files and (is_trained or starts)),
        "PretrainingConfig needs heldout_files, and init_checkpoint or a "
        "trained model in model_dir, to evaluate",
    )
    inputs, engine = _begin(config)
    saving.Checkpoints(engine).restore()
    assert inputs.heldout_data is not None
    return engine.evaluate_on(
        inputs.heldout_data.dataset,
        config.data.eval_batch_size,
        inputs.num_eval_steps,
    )


@dataclasses.dataclass(frozen=True)
class _Inputs:
    """What a run reads before it begins."""

    vocab: vocabulary.Vocabulary
    train_data: batches.PretrainingData
    heldout_data: batches.PretrainingData | None
    num_eval_steps: int

    def scored_on(self, config: configs.PretrainingConfig) -> str | None:
        """Which held-out examples, in a line; None without any."""
        if self.heldout_data is None:
            return None
        number = self.num_eval_steps * config.data.eval_batch_size
        return f"{number} of {self.heldout_data.digest}"


def _begin(
    config: configs.PretrainingConfig,
) -> tuple[_Inputs, engine_lib.Engine]:
    # First: workers can only meet before anything else has run.
    strategy = replicas.make_strategy(config.run)
    replicas.set_policy(config.run)
    inputs = _read_inputs(config)
    return inputs, _make_engine(config, inputs, strategy)


def _read_inputs(config: configs.PretrainingConfig) -> _Inputs:
    """Reads what a run is made of, and refuses what does not fit together."""
    data, run = config.data, config.run
    vocab = vocabulary.load_of_size(
        data.vocab_file, config.model.encoder.vocab_size
    )
    in_graph = replicas.has_other_host(run)
    train_data = batches.PretrainingData(
        data.train_files, config.model, run.seed, in_graph=in_graph
    )
    # Whoever takes the model treats text as that of the records was.
    treatment = manifest.treatment_of_text(train_data.records.files)
    vocab = dataclasses.replace(vocab, **treatment)  # type: ignore[arg-type]
    _refuse_other_inputs(config, vocab, train_data.digest)
    heldout_data, num_eval_steps = None, 0
    if data.heldout_files:
        heldout_data = batches.PretrainingData(
            data.heldout_files,
            config.model,
            run.seed + EVAL_SEED_OFFSET,
            shuffle=False,
            in_graph=in_graph,
        )
        whole = len(heldout_data) // data.eval_batch_size
        num_eval_steps = min(data.num_eval_steps, whole)
        if not whole:
            raise errors.ConfigError(
                "PretrainingDataConfig.eval_batch_size must not exceed the "
                "held-out examples. Received: eval_batch_size="
                f"{data.eval_batch_size}, but {data.heldout_files} holds "
                f"{len(heldout_data)} examples"
            )
    for part in filter(None, (train_data, heldout_data)):
        manifest.refuse_unfinished(part.records.files)
        part.refuse_without_text(vocab)
    return _Inputs(vocab, train_data, heldout_data, num_eval_steps)


def _make_engine(
    config: configs.PretrainingConfig,
    inputs: _Inputs,
    strategy: tf.distribute.Strategy,
) -> engine_lib.Engine:
    """The model and the optimizer where they begin, in the engine of a run."""
    run, data = config.run, config.data
    with strategy.scope():
        model = ablations.make_model(
            config.model,
            masking.SpecialIds.of(inputs.vocab),
            masking.continues_a_word(inputs.vocab.tokens),
        )
        if data.biases_from_data:
            model.set_output_biases(inputs.train_data.token_frequencies())
        if config.model.unigram_generator:
            model.set_unigram_generator(inputs.train_data.token_frequencies())
        optimizer = optimization.AdamWeightDecay(
            config.optimizer, run.num_train_steps
        )
        engine = engine_lib.Engine(
            *(strategy, model, model.training_loss, optimizer, run),
            *(data.train_batch_size, inputs.train_data.dataset),
            ablations.networks(config.model),
        )
        if config.init_checkpoint or config.init_generator_checkpoint:
            continuing.start_from_init_checkpoint(
                *(config, inputs.vocab, model, optimizer),
                *(engine.global_step, engine.loss_scale),
            )
    if inputs.heldout_data:  # Now, not at the first evaluation.
        engine.share_of_batch(data.eval_batch_size, "eval_batch_size")
    return engine


def _last_step(run: configs.RunConfig) -> int:
    """The one after which this start of the command ends."""
    return min(run.stop_at_step or run.num_train_steps, run.num_train_steps)


def _train(
    config: configs.PretrainingConfig,
    inputs: _Inputs,
    engine: engine_lib.Engine,
) -> dict[str, float]:
    """Trains to the last step; its held-out metrics, empty without data."""
    data, last_step = config.data, _last_step(config.run)
    heldout_data = inputs.heldout_data
    is_chief = replicas.is_chief(engine.strategy)
    evaluated: dict[int, dict[str, float]] = {}  # Step -> metrics.

    def evaluate(between_loops=lambda: None):
        step = int(engine.global_step.numpy())
        evaluated[step] = engine.evaluate_on(
            heldout_data.dataset,
            data.eval_batch_size,
            inputs.num_eval_steps,
            between_loops,
        )
        # Not before: a run that does not come here has changed nothing.
        if is_chief:
            _note_heldout(config, inputs)
        return dict(evaluated[step])

    try:
        loop.train(
            engine,
            last_step,
            "pre-training",
            engine.model.live_metrics,
            evaluate if heldout_data else None,
            functools.partial(
                advice, config, inputs.train_data.share_of_padding()
            ),
        )
        if heldout_data and last_step not in evaluated:
            with loop.stoppable_evaluation(engine) as leave_if_asked:
                evaluate(leave_if_asked)
            if is_chief:
                summaries = loop.Summaries(config.run.model_dir)
                summaries.write(last_step, evaluated[last_step])
                summaries.close()
    except (tf.errors.OpError, UnicodeDecodeError, errors.DataError):
        # TensorFlow does not tell which record it cannot read, nor quite when.
        inputs.train_data.refuse_bad_batches(
            data.train_batch_size,
            max(0, int(engine.global_step.numpy()) - 2),
            replicas.PREFETCHED_BATCHES,
        )
        if heldout_data:
            heldout_data.refuse_bad_batches(
                data.eval_batch_size, 0, inputs.num_eval_steps
            )
        raise
    return evaluated.get(last_step, {})


def _note_inputs(config: configs.PretrainingConfig, inputs: _Inputs) -> None:
    """Keeps beside the model what it learns from and is scored on."""
    model_dir = config.run.model_dir
    # The directory may be moved, and the file may change.
    if inputs.vocab.do_lower_case is None and saving.is_under_way(model_dir):
        # How text is treated may have been known when it began.
        vocabulary.write_tokens(inputs.vocab.tokens, model_dir)
    else:
        vocabulary.write(inputs.vocab, model_dir)
    scored_on = inputs.scored_on(config)
    before = _read_train_data(model_dir).get("heldout")
    _write_train_data(model_dir, inputs.train_data.digest, before or scored_on)
    if before and scored_on not in (None, before):
        errors.warn(
            "the held-out examples are others than before: scores from now on "
            "cannot be compared with those so far, and "
            f"{model_directory.BEST_DIR}/ begins anew"
        )


def _note_heldout(config: configs.PretrainingConfig, inputs: _Inputs) -> None:
    """Lets best/ begin anew where other examples are held out than before."""
    model_dir, scored_on = config.run.model_dir, inputs.scored_on(config)
    if _read_train_data(model_dir).get("heldout") == scored_on:
        return
    best_dir = os.path.join(model_dir, model_directory.BEST_DIR)
    with contextlib.suppress(FileNotFoundError):
        os.remove(os.path.join(best_dir, model_directory.EVAL_RESULTS_FILE))
    _write_train_data(model_dir, inputs.train_data.digest, scored_on)


def _read_train_data(model_dir: str) -> dict:
    """What `_write_train_data` wrote; nothing where it did not."""
    path = os.path.join(model_dir, model_directory.TRAIN_DATA_FILE)
    return files.read_json(path, ("sha256",)) if os.path.isfile(path) else {}


def _write_train_data(model_dir: str, digest: str, heldout: str | None) -> None:
    path = os.path.join(model_dir, model_directory.TRAIN_DATA_FILE)
    files.write_json(path, {"sha256": digest, "heldout": heldout}, indent=None)


def _refuse_other_inputs(
    config: configs.PretrainingConfig,
    vocab: vocabulary.Vocabulary,
    digest: str,
) -> None:
    """Refuses records or tokens other than those that the model learned."""
    model_dir, data = config.run.model_dir, config.data
    if not model_directory.has_learned(model_dir):
        return
    if _read_train_data(model_dir).get("sha256", digest) != digest:
        raise errors.ConfigError(
            f"{model_dir} holds a run on other records than those of "
            f"PretrainingDataConfig.train_files={data.train_files}: other "
            "files, or of other names, which are their order, or built again. "
            "Choose another --model_dir, or bring the old ones back"
        )
    path = os.path.join(model_dir, vocabulary.VOCAB_FILE)
    if not os.path.isfile(path):
        return
    if vocabulary.load_vocab(path) != list(vocab.tokens):
        raise errors.ConfigError(
            f"Expected the vocabulary that the model in {model_dir} has "
            f"learned, its {vocabulary.VOCAB_FILE}. Received: another one as "
            "PretrainingDataConfig.vocab_file"
        )


def _describe(
    config: configs.PretrainingConfig, model, inputs: _Inputs
) -> None:
    """Says what is trained on what, and warns of what makes a run worse."""
    data, run, train_data = config.data, config.run, inputs.train_data
    num_parameters = sum(
        int(tf.size(v.value)) for v in model.trainable_variables
    )
    epochs = run.num_train_steps * data.train_batch_size / len(train_data)
    print(
        f"{num_parameters / 1e6:.1f} M parameters, {len(train_data)} examples "
        f"of {config.model.max_seq_length} tokens, {epochs:.1f} epochs in "
        f"{run.num_train_steps} steps of {data.train_batch_size} examples; "
        f"TensorBoard: tensorboard --logdir={run.model_dir}"
    )
    for part in filter(None, (train_data, inputs.heldout_data)):
        counts = part.records.num_examples()
        for line in manifest.differences(counts, data.vocab_file):
            errors.warn(line)
    if doubled := train_data.records.doubled():
        errors.warn(
            f"{len(doubled)} file(s) of examples are another one once more, "
            f"such as {doubled[0][0]}, which is {doubled[0][1]}: their "
            "examples count twice"
        )
    if inputs.heldout_data:
        inputs.heldout_data.warn_as_heldout(
            train_data, data.eval_batch_size, data.num_eval_steps
        )
    optimization.warn_of_schedule(config.optimizer, run.num_train_steps)
    starts = config.init_checkpoint or config.init_generator_checkpoint
    if config.model.generator_training == "frozen" and not starts:
        errors.warn(
            "ElectraConfig.generator_training='frozen' without init_checkpoint "
            "or init_generator_checkpoint: the generator keeps random weights"
        )


def advice(
    config: configs.PretrainingConfig,
    share_of_padding: float,
    step: int,
    metrics: dict[str, float],
) -> dict[str, str]:
    """What a user should know about the metrics of a look.

    Args:
      config: Of the run.
      share_of_padding: Of all tokens.
      step: Of the look.
      metrics: Of training or of an evaluation.

    Returns:
      Name of a finding -> a sentence; empty where all is as it should be.
    """
    steps = config.run.num_train_steps
    lines = {}
    is_young = step < max(_MIN_GRACE_STEPS, _GRACE * steps)
    recall = metrics.get("disc_recall", 1.0)
    auc = _auc_of_tokens(metrics, share_of_padding)
    if not is_young and recall < _COLLAPSED_RECALL and auc < _COLLAPSED_AUC:
        lines["collapsed"] = (
            "the discriminator has collapsed: it calls every token original "
            f"(disc_recall {recall:.3f}, disc_auc without padding {auc:.2f}). "
            "Try a longer warm-up, or with --gin_param a lower "
            "OptimizerConfig.learning_rate=... or a larger "
            "ElectraConfig.disc_weight=..."
        )
    accuracy = metrics.get("sampled_masked_lm_accuracy", 0.0)
    if step < steps / 2 and accuracy > _TOO_GOOD_ACCURACY:
        lines["generator_too_good"] = (
            f"the generator is too good too early: {100 * accuracy:.0f} % of "
            "its samples are the true token, so that the discriminator has "
            "little to learn from. Try more text, or with "
            "--gin_param a smaller ElectraConfig.generator_hidden_size=..."
        )
    num_skipped = metrics.get("skipped_steps", 0.0)
    if num_skipped > _MANY_SKIPPED * step and not is_young:
        lines["skipped_steps"] = (
            f"{num_skipped:g} of {step} steps were not taken, as their float16 "
            "gradients were not finite. Try with --gin_param a lower "
            "OptimizerConfig.learning_rate=..., or RunConfig.dtype_policy="
            "'mixed_bfloat16'"
        )
    return lines


def _auc_of_tokens(metrics: dict[str, float], share_of_padding: float) -> float:
    """disc_auc without padding, which counts as ordered rightly."""
    auc = metrics.get("disc_auc", 1.0)
    original = (1 - share_of_padding) * (1 - metrics.get("replaced_rate", 0.0))
    if not original:
        return auc
    return 1 - (1 - auc) * (original + share_of_padding) / original
