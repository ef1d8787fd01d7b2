"""What a run must decide, as frozen dataclasses that refuse what cannot work.

Every class is a gin configurable: a gin file binds its fields by name. No
TensorFlow is imported here, so a mistake is reported before the long import.
"""

import dataclasses
import logging
import os
import typing

import gin

from electra_tf import errors, packaged, validation
from electra_tf.validation import Fraction, NotNegative, Positive

# With them `gin.parse_config_file("gin/small.gin")` works anywhere, too.
gin.add_config_file_search_path(str(packaged.root()))
gin.add_config_file_search_path(str(packaged.root() / "gin"))
# And with a home or a byte order mark, which gin's own reader does not know.
gin.config._FILE_READERS[0] = (
    lambda path: open(os.path.expanduser(path), encoding="utf-8-sig"),  # noqa: SIM115
    lambda path: os.path.isfile(os.path.expanduser(path)),
)
# gin complains of every folder but the last in which it looks.
logging.getLogger().addFilter(lambda line: line.msg != "Path not found: %s")

# Of feed-forward layers and of the heads of pre-training: those of the
# original's `get_activation`, and GELU's tanh approximation.
HIDDEN_ACTS = ("gelu", "gelu_new", "relu", "tanh", "linear")
# What a head reads of a text: [CLS], as in the original, or all tokens' mean.
DEFAULT_POOLING = "cls"
POOLINGS = (DEFAULT_POOLING, "mean")
# A dtype policy that `command_line.fastest` chooses.
AUTO = "auto"
# A schedule, beside the original's.
WARMUP_STABLE_DECAY = "warmup_stable_decay"


@gin.configurable
@dataclasses.dataclass(frozen=True)
class EncoderConfig:
    """Sizes of one transformer encoder (the original's BertConfig).

    Attributes:
      vocab_size: Entries in the vocabulary.
      hidden_size: Width of the transformer layers.
      num_hidden_layers: Transformer layers.
      num_attention_heads: Heads of each attention; divides `hidden_size`.
      intermediate_size: Width of the feed-forward layer.
      embedding_size: Width of the embedding tables; a projection to
        `hidden_size` follows where the two differ. None means `hidden_size`.
      max_position_embeddings: The longest sequence that the model can read.
      type_vocab_size: Number of segments.
      hidden_dropout_prob: Dropout after dense layers and embeddings.
      attention_probs_dropout_prob: Dropout of the attention probabilities.
      initializer_range: Deviation of the truncated normal initializer.
      hidden_act: 'gelu', with the error function as in the original; its
        'relu', 'tanh' and 'linear'; or 'gelu_new', GELU's tanh approximation,
        which KerasHub and the Model Garden compute. For the feed-forward layers
        and the heads of pre-training; with 'gelu_new' the generator's head has
        'gelu', as in Hugging Face's models.
    """

    vocab_size: Positive[int]
    hidden_size: Positive[int]
    num_hidden_layers: Positive[int]
    num_attention_heads: Positive[int]
    intermediate_size: Positive[int]
    embedding_size: Positive[int | None] = None
    max_position_embeddings: Positive[int] = 512
    type_vocab_size: Positive[int] = 2
    hidden_dropout_prob: Fraction[float] = 0.1
    attention_probs_dropout_prob: Fraction[float] = 0.1
    initializer_range: Positive[float] = 0.02
    hidden_act: str = "gelu"

    def __post_init__(self):
        validation.check_types(self)
        validation.require_one_of(self, hidden_act=HIDDEN_ACTS)
        if self.embedding_size is None:
            object.__setattr__(self, "embedding_size", self.hidden_size)
        validation.require_together(
            self,
            self.hidden_size % self.num_attention_heads == 0,
            "EncoderConfig.num_attention_heads must divide hidden_size",
        )


def share_of(whole: int, share: float) -> int:
    """A part of a width or of layers, rounded half to even.

    The original's get_generator_config does so: a third of 768 is 256 for a
    share of 0.33333, too.
    """
    return round(whole * share)


@gin.configurable
@dataclasses.dataclass(frozen=True)
class ElectraConfig:
    """The pre-training model: two networks, masking and the objective.

    The names are those of the original's PretrainingConfig.

    Attributes:
      encoder: The discriminator; the one network of a masked language model.
      max_seq_length: Tokens in one example.
      mask_prob: Share of the tokens that are masked.
      electra_objective: Replaced-token detection. With this and
        `electric_objective` off, the model is a masked language model.
      discriminator_objective: What the second network learns of the corrupted
        text (section 3.5 and Table 5): 'replaced_token_detection', of every
        token whether it was replaced; 'replaced_token_detection_of_masked',
        the same with a loss at the masked positions alone (ELECTRA 15 %);
        'replace_mlm', the true tokens at these positions; 'all_tokens_mlm',
        the true token of every position.
      copy_mechanism: For 'all_tokens_mlm': a token is predicted as a mixture
        of the one that is there and of the softmax.
      electric_objective: Electric's noise-contrastive estimation
        (arXiv:2012.08561), with its two-tower generator.
      gen_weight: Weight of the generator's loss (lambda is the other one).
      disc_weight: Weight of the discriminator's loss; 50 in section 3 of
        arXiv:2003.10555.
      generator_layers: Generator layers as a share of the discriminator's.
      generator_hidden_size: Its width as a share of the discriminator's.
      untied_generator: False shares all weights of the two networks.
      untied_generator_embeddings: True gives the generator embedding tables
        of its own.
      disentangled_embeddings: Gradient-disentangled embedding sharing
        (DeBERTaV3, arXiv:2111.09543, section 3.2): the generator's word
        embeddings learn from its own loss only, and the discriminator adds a
        difference of its own to them.
      uniform_generator: Replacements are drawn uniformly from the vocabulary.
      unigram_generator: Replacements are drawn by the frequencies of the tokens
        in the training data.
      generator_training: 'maximum_likelihood'; 'adversarial', which rewards
        samples that the discriminator does not find (Appendix F), and sets
        `distinct_positions`, as it only sees one of two samples that meet; or
        'frozen', for the second of two stages (section 3.2).
      two_tower_generator: A left-to-right and a right-to-left tower instead of
        a masked language model, each with weights of its own; Electric always
        has it.
      disallow_correct: The generator may not draw the true token.
      temperature: Temperature of the generator's samples.
      masked_token_prob: Share of the chosen positions that become [MASK]; the
        rest keep their token. The released code has 0.85, the paper 1.0.
      distinct_positions: Draw masked positions without replacement. The
        released code draws with replacement, so about 7 % of them coincide.
      whole_word_masking: Draw whole words instead of tokens, without
        replacement, up to the same number of predictions: see
        `masking.draw_whole_words`. `masked_token_prob` then still decides
        token by token, and `distinct_positions` changes nothing.
    """

    encoder: EncoderConfig
    max_seq_length: Positive[int]
    mask_prob: float = 0.15
    electra_objective: bool = True
    discriminator_objective: str = "replaced_token_detection"
    copy_mechanism: bool = True
    electric_objective: bool = False
    gen_weight: NotNegative[float] = 1.0
    disc_weight: NotNegative[float] = 50.0
    generator_layers: Positive[float] = 1.0
    generator_hidden_size: Positive[float] = 0.25
    untied_generator: bool = True
    untied_generator_embeddings: bool = False
    disentangled_embeddings: bool = False
    uniform_generator: bool = False
    unigram_generator: bool = False
    generator_training: str = "maximum_likelihood"
    two_tower_generator: bool = False
    disallow_correct: bool = False
    temperature: Positive[float] = 1.0
    masked_token_prob: float = 0.85
    distinct_positions: bool = False
    whole_word_masking: bool = False

    def __post_init__(self):
        validation.check_types(self)
        share, rate = "between 0 and 1", self.masked_token_prob
        validation.require(self, 0 < self.mask_prob < 1, "mask_prob", share)
        validation.require(self, 0 <= rate <= 1, "masked_token_prob", share)
        validation.require_one_of(
            self,
            # The rows of Table 5 of arXiv:2003.10555.
            discriminator_objective=(
                "replaced_token_detection",
                "replaced_token_detection_of_masked",
                "replace_mlm",
                "all_tokens_mlm",
            ),
            generator_training=("maximum_likelihood", "adversarial", "frozen"),
        )
        # The original's configuration does the same.
        towers = self.two_tower_generator or self.electric_objective
        object.__setattr__(self, "two_tower_generator", towers)
        for rule, holds in self._rules().items():
            validation.require_together(self, holds, f"ElectraConfig{rule}")
        if self.generator_training == "adversarial":
            object.__setattr__(self, "distinct_positions", True)

    def _rules(self) -> dict[str, bool]:
        """Rule, which names the settings -> whether they go together."""
        training, has_own = self.generator_training, self.has_own_generator
        own = "untied_generator, not uniform_generator or unigram_generator"
        detects = "a discriminator_objective that detects replaced tokens"
        maximum_likelihood = training == "maximum_likelihood"
        rules = {
            f".{name} needs electra_objective": self.electra_objective
            or getattr(self, name) == getattr(ElectraConfig, name)
            for name in (
                *("discriminator_objective", "generator_training"),
                *("uniform_generator", "unigram_generator"),
            )
        }
        return rules | {
            ".max_seq_length must not exceed "
            "EncoderConfig.max_position_embeddings": (
                self.max_seq_length <= self.encoder.max_position_embeddings
            ),
            ".mask_prob must leave a token of max_seq_length to predict": (
                self.max_predictions_per_seq > 0
            ),
            " takes one of electra_objective and electric_objective": not (
                self.electra_objective and self.electric_objective
            ),
            " takes one of uniform_generator and unigram_generator": not (
                self.uniform_generator and self.unigram_generator
            ),
            f".generator_training={training!r} needs {own}": (
                maximum_likelihood or has_own
            ),
            # Shared embeddings would go on learning.
            ".untied_generator_embeddings must be True with "
            "generator_training='frozen'": (
                training != "frozen" or self.untied_generator_embeddings
            ),
            f".generator_training={training!r} needs {detects}": (
                training != "adversarial" or self.has_binary_discriminator
            ),
            f".disentangled_embeddings needs electra_objective, {detects} and "
            f"{own} or untied_generator_embeddings": (
                not self.disentangled_embeddings
                or (
                    self.electra_objective
                    and has_own
                    and not self.untied_generator_embeddings
                    and self.has_binary_discriminator
                )
            ),
            # The original fails where there are no towers to take a loss of.
            ".two_tower_generator needs electra_objective or "
            f"electric_objective, and towers that learn by themselves: {own}, "
            "generator_training='maximum_likelihood'": (
                not self.two_tower_generator
                or (
                    self.has_discriminator
                    and has_own
                    and maximum_likelihood
                    and not self.disentangled_embeddings
                )
            ),
        }

    @property
    def max_predictions_per_seq(self) -> int:
        """Slots for masked positions; the original's 0.005 included."""
        return int((self.mask_prob + 0.005) * self.max_seq_length)

    @property
    def num_position_draws(self) -> int:
        """Random draws that decide which positions of an example are masked."""
        if self.distinct_positions or self.whole_word_masking:
            return self.max_seq_length
        return self.max_predictions_per_seq

    @property
    def has_discriminator(self) -> bool:
        return self.electra_objective or self.electric_objective

    @property
    def has_binary_discriminator(self) -> bool:
        """Whether the discriminator says of tokens if they were replaced."""
        return self.electric_objective or (
            self.electra_objective
            and self.discriminator_objective.startswith("replaced_token")
        )

    @property
    def has_generator_network(self) -> bool:
        return not (self.uniform_generator or self.unigram_generator)

    @property
    def has_own_generator(self) -> bool:
        return self.has_generator_network and self.untied_generator

    @property
    def generator(self) -> EncoderConfig:
        """The generator's network.

        Raises:
          ConfigError: If there is none, or its heads do not divide its width,
            where the original cannot build it either.
        """
        sizes = self.generator_sizes
        width, heads = sizes["hidden_size"], sizes["num_attention_heads"]
        validation.require_together(
            self,
            width > 0 and sizes["num_hidden_layers"] > 0,
            "ElectraConfig.generator_layers and generator_hidden_size must "
            "leave a layer and a width",
        )
        validation.require_together(
            self,
            width % heads == 0,
            "ElectraConfig.generator_hidden_size must lead to a width that its "
            f"heads, one for each 64, divide, not a width of {width} with "
            f"{heads} heads",
        )
        return dataclasses.replace(self.encoder, **sizes)

    @property
    def generator_sizes(self) -> dict[str, typing.Any]:
        """Where the generator is not as the discriminator.

        The original's get_generator_config: the feed-forward layer is always 4
        times the width and heads are 64 wide, whatever the discriminator has.
        """
        encoder = self.encoder
        width = share_of(encoder.hidden_size, self.generator_hidden_size)
        layers = share_of(encoder.num_hidden_layers, self.generator_layers)
        is_untied = self.untied_generator_embeddings
        return {
            "hidden_size": width,
            "num_hidden_layers": layers,
            "intermediate_size": 4 * width,
            "num_attention_heads": max(1, width // 64),
            "embedding_size": width if is_untied else encoder.embedding_size,
        }


@gin.configurable
@dataclasses.dataclass(frozen=True)
class OptimizerConfig:
    """Adam with decoupled weight decay, and its schedule, as the original's.

    Attributes:
      learning_rate: Peak rate. In fine-tuning None for that of the encoder's
        size, see `finetuning.recipe`.
      optimizer: 'adam', or 'lamb' for large batches (arXiv:1904.00962), whose
        steps are in proportion to the norm of what they change.
      num_warmup_steps: Steps of linear warm-up.
      warmup_proportion: Warm-up as a share of the training steps, None for
        none. Of the two the longer one counts.
      schedule: 'polynomial', the original's: the rate decays from step 0 on.
        'warmup_stable_decay': it stays at its peak until the last steps.
      num_decay_steps: Of 'warmup_stable_decay': steps of the decay.
      decay_proportion: Likewise, as a share of the training steps; None for
        none. Of the two the longer one counts.
      lr_decay_power: Power of the polynomial decay to 0.
      layerwise_lr_decay: Factor between the rates of two layers, in fine-tuning
        alone; 1, and 0 or less, for one rate, None for that of the encoder's
        size.
      layerwise_top_layer_scaled: The released code scales even the top layer
        by the decay squared; False starts the decay below the top layer.
      embeddings_lr_scale: Share of its rate that the table of word embeddings
        gets; 0 holds it as it begins.
      weight_decay_rate: Decay, applied to all but LayerNorm and biases; 0 or
        less for none.
      beta_1: Decay of the first moment.
      beta_2: Decay of the second moment.
      epsilon: Added outside the square root.
      clip_norm: Largest global norm of the gradients.
    """

    learning_rate: Positive[float | None]
    optimizer: str = "adam"
    num_warmup_steps: NotNegative[int] = 0
    warmup_proportion: float | None = None
    schedule: str = "polynomial"
    num_decay_steps: NotNegative[int] = 0
    decay_proportion: float | None = None
    lr_decay_power: NotNegative[float] = 1.0
    layerwise_lr_decay: float | None = 0.0
    layerwise_top_layer_scaled: bool = True
    embeddings_lr_scale: NotNegative[float] = 1.0
    weight_decay_rate: float = 0.01
    beta_1: Fraction[float] = 0.9
    beta_2: Fraction[float] = 0.999
    epsilon: Positive[float] = 1e-6
    clip_norm: Positive[float] = 1.0

    def __post_init__(self):
        validation.check_types(self)
        validation.require_one_of(
            self,
            optimizer=("adam", "lamb"),
            schedule=("polynomial", WARMUP_STABLE_DECAY),
        )
        for name in ("warmup_proportion", "decay_proportion"):
            share = getattr(self, name) or 0
            validation.require(self, 0 <= share <= 1, name, "between 0 and 1")
        validation.require_together(
            self,
            bool(self.num_decay_steps or self.decay_proportion)
            == (self.schedule == WARMUP_STABLE_DECAY),
            f"OptimizerConfig.schedule={WARMUP_STABLE_DECAY!r}, and no other, "
            "needs num_decay_steps or decay_proportion",
        )

    def warmup_steps(self, num_train_steps: int) -> float:
        """Length of the warm-up; the original does not round it."""
        share = self.warmup_proportion or 0.0
        return max(self.num_warmup_steps, num_train_steps * share)

    def decay_steps(self, num_train_steps: int) -> float | None:
        """Length of the decay at the end; None for that of all steps.

        Raises:
          ConfigError: If it is longer than the training.
        """
        if self.schedule != WARMUP_STABLE_DECAY:
            return None
        if self.num_decay_steps > num_train_steps:
            raise errors.ConfigError(
                "OptimizerConfig.num_decay_steps must not exceed the training "
                f"steps, {num_train_steps}. Received: num_decay_steps="
                f"{self.num_decay_steps}"
            )
        share = self.decay_proportion or 0.0
        return max(self.num_decay_steps, num_train_steps * share)


@gin.configurable
@dataclasses.dataclass(frozen=True)
class PretrainingDataConfig:
    """Where the TFRecords are and how they are batched.

    Attributes:
      train_files: Glob, or globs separated by commas.
      vocab_file: The vocabulary that the TFRecords were built with.
      heldout_files: Like `train_files`; empty for no evaluation.
      train_batch_size: Examples in one step, over all replicas.
      eval_batch_size: Examples in one evaluation step, over all replicas.
      num_eval_steps: Evaluation steps; fewer where the held-out files end.
      biases_from_data: Start the output biases at the frequencies in the data:
        the generator's at the log-probability of each token, the
        discriminator's at the log-odds of masking, which spares a short run
        its first steps; a checkpoint's go before. The original: at 0.
    """

    train_files: str
    vocab_file: str
    heldout_files: str = ""
    train_batch_size: Positive[int] = 128
    eval_batch_size: Positive[int] = 128
    num_eval_steps: Positive[int] = 100
    biases_from_data: bool = False

    def __post_init__(self):
        validation.check_types(self)
        for name, rule in (("train_files", "a glob"), ("vocab_file", "a path")):
            validation.require(self, bool(getattr(self, name)), name, rule)


@gin.configurable
@dataclasses.dataclass(frozen=True)
class RunConfig:
    """How long to train, what to write and on which devices.

    Attributes:
      model_dir: Where checkpoints and logs go.
      num_train_steps: Optimizer steps. Fine-tuning counts epochs instead.
      stop_at_step: Last step of pre-training where it is not `num_train_steps`,
        the length of the schedule: to go on later, with other data maybe.
      save_checkpoints_steps: Steps between two checkpoints.
      steps_per_loop: Steps between two looks at the run: the live line,
        TensorBoard, a request to stop.
      eval_steps: Steps between two held-out evaluations; 0 for one at the end.
      eval_first: Evaluate before step 1, too: what a run starts from.
      keep_checkpoint_max: Checkpoints kept; 0 for all.
      keep_best_metric: Metric of the evaluations every `eval_steps` by which
        the best checkpoint is kept in <model_dir>/best, too: the lowest of a
        loss, the highest of anything else; '' for none.
      max_loss_growth: A loss above so many times the first (or 1, if that is
        more) ends the run: it learns nothing any more. 0 for no bound.
      async_checkpoints: Pre-training goes on while a copy of the state is
        written, which needs as much of the host's memory as the state.
      seed: Of the initial weights, the data order, masks, samples and dropout.
      distribution_strategy: 'one_device', 'mirrored', 'multi_worker_mirrored'
        or 'tpu', as in `official.common.distribute_utils`.
      num_gpus: GPUs of this host to use; 0 for the CPU, None for those that
        are there: one with 'one_device', all with the others.
      cluster_resolver: Where 'multi_worker_mirrored' learns who its workers
        are: 'tf_config' (the environment variable TF_CONFIG) or 'slurm'.
      tpu: Name or address of the TPU, for 'tpu'.
      micro_batch_size: Examples that a replica works on at once, where its
        part of a batch does not fit into memory; 0 for all of them, or in
        pre-training on one host for as many as fit, by an estimate. Gradients
        add up over the micro-batches, to those of the whole batch.
      num_parallel_parts: Parts of a micro-batch whose forward and backward
        passes run side by side; 0 for what is fastest. That is as many as a
        CPU has cores, with `num_intra_op_threads` = 1, where the parts are
        large enough: an operation then never waits for the other half of
        itself. Elsewhere, and in fine-tuning, it is 1.
      dtype_policy: 'float32', 'mixed_bfloat16', or 'mixed_float16', whose
        loss is scaled so that small gradients survive; 'auto' for
        'mixed_bfloat16' where the processor multiplies bfloat16 and the steps
        are large enough to gain by it, and 'float32' elsewhere. A run that goes
        on keeps what it began with.
      gradient_reduction_dtype: In which the replicas exchange their gradients:
        'float32', or 'bfloat16' for half the bytes between machines, each sum
        rounded to 8 bits. float16 would lose small gradients.
      jit_compile: Compile the whole step with XLA; None to do so on GPUs.
      tf32: Let GPUs round the factors of float32 products to 10 bits.
      deterministic: Take operations whose results do not depend on the order of
        threads. A GPU resumes bit for bit with them alone, and is slower.
      num_intra_op_threads: Threads of a CPU that share one operation; 0 for
        what is fastest: in pre-training what `num_parallel_parts` leaves over,
        and 1 of a very small model, in which other operations, not halves of
        the same, keep the other cores busy; elsewhere all cores.
    """

    model_dir: validation.LocalFolder[str]
    num_train_steps: NotNegative[int] = 0
    stop_at_step: NotNegative[int] = 0
    save_checkpoints_steps: Positive[int] = 1000
    steps_per_loop: Positive[int] = 20
    eval_steps: NotNegative[int] = 0
    eval_first: bool = False
    keep_checkpoint_max: NotNegative[int] = 5
    keep_best_metric: str = "total_loss"
    max_loss_growth: NotNegative[float] = 1000.0
    async_checkpoints: bool = True
    seed: validation.Seed[int] = 42
    distribution_strategy: str = "one_device"
    num_gpus: NotNegative[int | None] = None
    tpu: str = ""
    cluster_resolver: str = "tf_config"
    micro_batch_size: NotNegative[int] = 0
    num_parallel_parts: NotNegative[int] = 0
    dtype_policy: str = "float32"
    gradient_reduction_dtype: str = "float32"
    jit_compile: bool | None = None
    tf32: bool = True
    deterministic: bool = False
    num_intra_op_threads: NotNegative[int] = 0

    def __post_init__(self):
        validation.check_types(self)
        validation.require_one_of(
            self,
            distribution_strategy=(
                "one_device",
                "mirrored",
                "multi_worker_mirrored",
                "tpu",
            ),
            cluster_resolver=("tf_config", "slurm"),
            dtype_policy=("float32", "mixed_bfloat16", "mixed_float16", AUTO),
            gradient_reduction_dtype=("float32", "bfloat16"),
        )


@gin.configurable
@dataclasses.dataclass(frozen=True)
class PretrainingConfig:
    """All that one pre-training run needs.

    Attributes:
      model: The two networks and their objective.
      data: The TFRecords.
      optimizer: Rates and schedule.
      run: Where checkpoints go, and how long to train.
      init_checkpoint: Weights to start from, of any format that
        `checkpoints.reading` knows; empty for random ones. A run that goes
        on from a checkpoint of its own does not read it again.
      keep_global_step: Go on at the step of `init_checkpoint`, with its
        optimizer slots where it has them. Without, the step starts at 0 and
        the learning rate warms up again.
      init_generator_checkpoint: Weights of the generator: a masked language
        model of its size, as the first of two stages trains it (section 3.2 of
        arXiv:2003.10555); read after `init_checkpoint`.
    """

    model: ElectraConfig
    data: PretrainingDataConfig
    optimizer: OptimizerConfig
    run: RunConfig
    init_checkpoint: str = ""
    keep_global_step: bool = False
    init_generator_checkpoint: str = ""

    def __post_init__(self):
        validation.check_types(self)
        validation.require_positive(self.run, "num_train_steps")
        rate = self.optimizer.learning_rate
        validation.require(
            self.optimizer, rate is not None, "learning_rate", "given"
        )
        validation.require_together(
            self,
            bool(self.init_checkpoint) or not self.keep_global_step,
            "PretrainingConfig.keep_global_step needs init_checkpoint",
        )
        validation.require_together(
            self,
            not self.init_generator_checkpoint
            or (
                self.model.has_discriminator
                and self.model.has_own_generator
                and not self.model.two_tower_generator
            ),
            "PretrainingConfig.init_generator_checkpoint needs a model with "
            "electra_objective and untied_generator, and without "
            "two_tower_generator, uniform_generator and unigram_generator",
        )


@gin.configurable
@dataclasses.dataclass(frozen=True)
class QuestionAnsweringConfig:
    """How passages are cut, answers are predicted and spans are chosen.

    The names and values are those of the original's fine-tuning configuration.

    Attributes:
      max_query_length: Tokens of a question that are kept.
      doc_stride: Tokens between the starts of two windows over a passage.
      max_answer_length: Tokens of the longest answer.
      n_best_size: Starts and ends considered for one window without joint
        prediction; answers kept for one question.
      joint_prediction: Predict the end from the start.
      beam_size: Starts, and ends for each start, with joint prediction.
      answerable_classifier: Predict whether there is an answer.
      answerable_uses_start_logits: Let that prediction see the expected start.
      answerable_weight: Its share in the loss.
      qa_na_threshold: A question whose score of having no answer exceeds this
        counts as answered with "", in SQuAD 2.0.
    """

    max_query_length: Positive[int] = 64
    doc_stride: Positive[int] = 128
    max_answer_length: Positive[int] = 30
    n_best_size: Positive[int] = 20
    joint_prediction: bool = True
    beam_size: Positive[int] = 20
    answerable_classifier: bool = True
    answerable_uses_start_logits: bool = True
    answerable_weight: float = 0.5
    qa_na_threshold: float = -2.75

    def __post_init__(self):
        validation.check_types(self)
