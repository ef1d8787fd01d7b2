"""What a fine-tuning run must decide; no TensorFlow, as in `configs`."""

import dataclasses
import functools
import math
import typing

import gin

from electra_tf import configs, validation
from electra_tf.tasks.names import MRQA_TASKS, SQUAD_TASKS, TASK_TYPES

# What fine-tuning has in place of the defaults of `OptimizerConfig` and
# `RunConfig`, which are those of pre-training. None: see `recipe`.
OPTIMIZER: dict[str, float | None] = {
    "learning_rate": None,
    "layerwise_lr_decay": None,
    "warmup_proportion": 0.1,
}
RUN = {"keep_checkpoint_max": 1}
# Fields of `RunConfig` that fine-tuning does not read -> what it has instead.
_OF_PRETRAINING = {
    "num_train_steps": "FinetuningDataConfig.num_train_epochs says how long",
    "stop_at_step": "a run that is stopped goes on",
}

# What is done with texts that are longer than `max_seq_length`.
LONG_TEXTS = ("cut", "windows")


@gin.configurable
@dataclasses.dataclass(frozen=True)
class FinetuningDataConfig:
    """What to fine-tune on: files of your own, or tasks of the original.

    Attributes:
      task_name: Name of the task of `train_file`, also of its head in the
        checkpoint.
      train_file: Labelled rows, .tsv, .csv, .jsonl or .json: one text column
        or two, and a label column; or .conll, a word and its tag a line.
      dev_file: Like `train_file`: the rows to score.
      vocab_file: The vocabulary of the pre-trained model; empty for the one
        beside `init_checkpoint`.
      test_file: Like `train_file`, labels optional; scored at the end.
      do_lower_case: Lower-case the text; None for what the vocabulary or the
        checkpoint says: see `checkpoints.reading.read_checkpoint`.
      strip_accents: Drop accents while lower-casing; None likewise.
      text_cleaning: What is done to text before that, in exported models too,
        see `text.cleaning.clean`: 'none', 'kcelectra' or 'kcelectra_fixed';
        None for that of the vocabulary.
      max_seq_length: Longer texts are cut.
      long_texts: Texts longer than `max_seq_length` are 'cut', or read in
        'windows' that overlap, and their logits are the mean of the windows',
        in training, evaluation and export. For one text in each row.
      window_stride: Tokens from the start of a window to that of the next one;
        None for half of `max_seq_length`.
      max_windows: Of one text; what is behind them is cut.
      weigh_windows: A window counts as much as it has tokens; otherwise all of
        a text count alike, also a last one of few words.
      train_batch_size: Examples in one step.
      eval_batch_size: Examples in one evaluation step.
      num_train_epochs: Passes over the training rows; None for 3, or 10 with
        an encoder narrower than ELECTRA-Small: see `recipe`.
      task_names: Tasks by name, such as 'rte', instead of files; several are
        trained jointly.
      data_dir: Where the files of `task_names` are: as in the original, in
        finetuning_data/<task> below it, or in <task>, or in the folder that
        GLUE's archive has for it.
      double_unordered: Train on both orders of a pair where the order does not
        matter (mrpc, sts).
      folds: Parts of `train_file` for cross-validation: as many models, each
        trained on the other parts and scored on its own; 0 for none.
      dev_fraction: Part of the rows of `train_file` that are held out and
        scored instead of a `dev_file`, as Keras's `validation_split`, but drawn
        by `run.seed` with the same share of each label; 0 for none.
      task_type: What the labels of the files are: 'classification',
        'multi_label', 'regression', 'tagging', or 'auto', which takes lists and
        labels with a | for several a row, numbers with a point for regression,
        lists of words for tagging, and all else for classes.
      text_columns: One or two columns of the files; none for `text` or a usual
        pair.
      label_column: The column of labels; empty for `label`.
      label_names: Names of labels that are numbers in the files, in their
        order; none for labels as they are.
      label_separator: Between the labels of a row; empty for "|".
      has_header: Whether the first row of a .tsv or .csv names its columns;
        they are called 1, 2, ... otherwise.
      bucketed: Train on batches of rows of similar length, padded to the
        longest of them. False takes any rows together and pads them to
        `max_seq_length`, as does a TPU.
      skip_empty_texts: Leave rows of the files without a text out and count
        them, rather than refuse them.
      eval_only: Train nothing: score `dev_file` and `test_file`, or the tasks'
        sets but "train", with the models that the run in the model directory
        trained.
    """

    task_name: str = "own_data"
    train_file: str = ""
    dev_file: str = ""
    vocab_file: str = ""
    test_file: str = ""
    do_lower_case: bool | None = None
    strip_accents: bool | None = None
    text_cleaning: str | None = None
    max_seq_length: validation.Positive[int] = 128
    train_batch_size: validation.Positive[int] = 32
    eval_batch_size: validation.Positive[int] = 32
    num_train_epochs: validation.Positive[float | None] = None
    task_names: tuple[str, ...] = ()
    data_dir: str = ""
    double_unordered: bool = True
    folds: int = 0
    dev_fraction: validation.Fraction[float] = 0.0
    task_type: str = "auto"
    text_columns: tuple[str, ...] = ()
    label_column: str = ""
    label_names: tuple[str, ...] = ()
    label_separator: str = ""
    has_header: bool = True
    skip_empty_texts: bool = False
    bucketed: bool = True
    long_texts: str = "cut"
    window_stride: validation.Positive[int | None] = None
    max_windows: validation.Positive[int] = 32
    weigh_windows: bool = False
    eval_only: bool = False

    def __post_init__(self):
        validation.check_types(self)
        validation.require_one_of(
            self, task_type=("auto", *TASK_TYPES), long_texts=LONG_TEXTS
        )
        must = functools.partial(validation.require, self)
        has_windows = self.long_texts == "windows"
        room = self.max_seq_length - 2
        must(
            self.window_stride is None
            or (has_windows and self.window_stride <= room),
            "window_stride",
            f"None without --long_texts=windows, and at most the {room} tokens "
            "that a window has room for",
        )
        must(
            has_windows or not self.weigh_windows,
            "weigh_windows",
            "False without --long_texts=windows",
        )
        must(not has_windows or room >= 1, "max_seq_length", "3 or more")
        must(bool(self.task_name), "task_name", "given")
        must(len(self.text_columns) <= 2, "text_columns", "one or two names")
        must(self.folds == 0 or self.folds >= 2, "folds", "0, or 2 or more")
        if self.task_names:
            different = len(set(self.task_names)) == len(self.task_names)
            must(bool(self.data_dir), "data_dir", "given with --task_names")
            must(different, "task_names", "different from each other")
            for name in ("train_file", "dev_file", "test_file"):
                rule = "empty with --task_names, whose files are in --data_dir"
                must(not getattr(self, name), name, rule)
            for name in ("folds", "dev_fraction"):
                must(not getattr(self, name), name, "0 without --train_file")
        elif self.eval_only:
            rule = "given with --eval_only, or --test_file"
            must(bool(self.dev_file or self.test_file), "dev_file", rule)
        elif not self.train_file:
            rule = "given, or --task_names and --data_dir"
            must(False, "train_file", rule)
        elif self.folds or self.dev_fraction:
            rule = "empty with --folds or --dev_fraction, scored instead"
            must(not self.dev_file, "dev_file", rule)
            is_one = not (self.folds and self.dev_fraction)
            must(is_one, "folds", "0 with --dev_fraction")
        else:
            rule = "given, or --folds or --dev_fraction"
            must(bool(self.dev_file), "dev_file", rule)

    def num_train_steps(self, num_examples: int) -> int:
        """Steps for the wanted epochs: at least one, otherwise the original's.

        An epoch is as long as all batches, the last one filled up; the product
        with the epochs is rounded down.
        """
        per_epoch = self.steps_per_epoch(num_examples)
        epochs = self.num_train_epochs
        return max(1, int(per_epoch * (3.0 if epochs is None else epochs)))

    def steps_per_epoch(self, num_examples: int) -> int:
        """Batches that hold every row once, the last one filled up."""
        return math.ceil(num_examples / self.train_batch_size)


@gin.configurable
@dataclasses.dataclass(frozen=True)
class FinetuningConfig:
    """All that one fine-tuning run needs.

    Attributes:
      init_checkpoint: Pre-trained model: a model directory, or a checkpoint of
        any format that electra-tf convert reads. It has the encoder's sizes.
      data: The labelled set, or the tasks.
      optimizer: Rates and schedule.
      run: Where the results go.
      num_trials: Models with different seeds, `run.seed` and those after it.
      recipe: Rate and layer-wise decay where `optimizer` leaves them open:
        'paper', Table 7 of arXiv:2003.10555, or 'released', what the original's
        configure_finetuning.py has. They differ for a small encoder.
      from_scratch: Take the sizes of `init_checkpoint`, but not its weights:
        what pre-training is to be compared with.
      dropout: In the encoder and in the head; None for what `init_checkpoint`
        has, and 0.1 in the head.
      head_dropout: In the head, the classifier, alone; None for `dropout`.
      pooling: What the head reads of a text: 'cls', the first token's vector,
        as the original, or 'mean', the mean of all tokens' vectors, which may
        be more after a short pre-training. For classification, regression and
        multi_label.
      class_weights: What rows count in training: 'balanced' gives all labels
        the same sum, as scikit-learn's `compute_class_weight` does; or a weight
        for each label, 1 for the others, as {'yes': 19.0} or 'yes=19,no=1';
        None for all alike. For classification and multi_label.
      learning_rates: Tried one after the other instead of
        `optimizer.learning_rate`, each with `num_trials` seeds.
      num_train_epochs_options: Likewise instead of `data.num_train_epochs`,
        with every learning rate.
      reseed_degenerate: How often a model that says the same of every row is
        trained again with another seed.
      question_answering: `QuestionAnsweringConfig`; None for its defaults.
      keep_head: Go on with the head of `init_checkpoint`, which is fine-tuned
        itself, rather than with a new one.
      early_stopping_patience: Training ends after so many evaluations in a row
        whose dev score was not better than the best before, and the weights of
        the best are the model; 0 trains to the end and takes the last. There
        is one every `run.eval_steps` steps, or each epoch where that is 0.
      expected_encoder: Field of `EncoderConfig` -> the value that
        `init_checkpoint` must have, or the run is refused; None for any. It
        changes nothing that is learned.
    """

    # For a gin file that does not include gin/finetuning.gin, or none at all.
    GIN_DEFAULTS: typing.ClassVar[tuple[str, ...]] = (
        "FinetuningConfig.data = @FinetuningDataConfig()",
        "FinetuningConfig.optimizer = @OptimizerConfig()",
        "FinetuningConfig.run = @RunConfig()",
        *(f"OptimizerConfig.{name} = {of}" for name, of in OPTIMIZER.items()),
        *(f"RunConfig.{name} = {of}" for name, of in RUN.items()),
    )

    init_checkpoint: str
    data: FinetuningDataConfig
    optimizer: configs.OptimizerConfig
    run: configs.RunConfig
    num_trials: validation.Positive[int] = 1
    recipe: str = "paper"
    from_scratch: bool = False
    dropout: validation.Fraction[float | None] = None
    learning_rates: tuple[float, ...] = ()
    num_train_epochs_options: tuple[float, ...] = ()
    reseed_degenerate: validation.NotNegative[int] = 0
    question_answering: configs.QuestionAnsweringConfig | None = None
    keep_head: bool = False
    early_stopping_patience: validation.NotNegative[int] = 0
    expected_encoder: dict | None = None
    head_dropout: validation.Fraction[float | None] = None
    class_weights: str | dict | None = None
    pooling: str = configs.DEFAULT_POOLING

    def __post_init__(self):
        validation.check_types(self)
        if self.question_answering is None and any(
            name in SQUAD_TASKS or name in MRQA_TASKS
            for name in self.data.task_names
        ):
            # Now, so that the record of the run has it as one that it read.
            object.__setattr__(
                self, "question_answering", configs.QuestionAnsweringConfig()
            )
        for name, instead in _OF_PRETRAINING.items():
            validation.require(
                self.run,
                not getattr(self.run, name),
                name,
                f"0 in fine-tuning, where {instead}",
            )
        validation.require_one_of(
            self, recipe=("paper", "released"), pooling=configs.POOLINGS
        )
        must = functools.partial(validation.require, self)
        must(
            not self.keep_head
            or not (self.from_scratch or len(self.data.task_names) > 1),
            "keep_head",
            "False from scratch and for several tasks",
        )
        for name in ("learning_rates", "num_train_epochs_options"):
            values = getattr(self, name)
            is_good = len({x for x in values if x > 0}) == len(values)
            must(is_good, name, "different positive numbers")
        validation.require(
            self.run,
            not self.early_stopping_patience
            or self.run.keep_best_metric in ("total_loss", "dev_score"),
            "keep_best_metric",
            "left alone with early_stopping_patience, which goes by dev_score",
        )
        known = {f.name for f in dataclasses.fields(configs.EncoderConfig)}
        must(
            known >= set(self.expected_encoder or ()),
            "expected_encoder",
            "made of fields of EncoderConfig",
        )
        weights = self.weights_of_classes
        if isinstance(weights, dict):
            must(
                bool(weights)
                and all(0.0 < weight < math.inf for weight in weights.values()),
                "class_weights",
                "'balanced', or a positive number for each label, such as "
                "'yes=19,no=1'",
            )
            must(
                len(self.data.task_names) <= 1,
                "class_weights",
                "'balanced' or None for several tasks",
            )

    @property
    def weights_of_classes(self) -> str | dict[str, float] | None:
        """`class_weights`: 'balanced', or label -> weight; NaN for none."""
        given = self.class_weights
        if given is None or given == "balanced":
            return given
        pairs: typing.Collection = ()
        if isinstance(given, dict):
            pairs = given.items()
        elif isinstance(given, str):
            # A label may hold a "=", a weight does not.
            pairs = [part.rpartition("=")[::2] for part in given.split(",")]
        try:
            weights = {str(label).strip(): float(of) for label, of in pairs}
        except (TypeError, ValueError):
            weights = {}
        is_once = bool(weights) and len(weights) == len(pairs)
        return weights if is_once else {"": math.nan}
