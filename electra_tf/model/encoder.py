"""input_ids -> [B, L, D]: the transformer encoder of BERT and ELECTRA.

Layers are named so that a variable's path is its name in a checkpoint of the
original, such as electra/encoder/layer_0/attention/self/query/kernel. Inside
the transformer, activations are kept two-dimensional, [B * L, D], so that every
dense layer is one plain matrix product.

Dropout is stateless: a call without `dropout_seed` has none, and a seed gives
the same masks on every run. `electra_tf.Encoder` is the Keras model around it,
which draws a seed where Keras says `training=True`.

Shapes: B batch, L length, D hidden, E embedding, H heads, V vocabulary.
"""

import typing

import keras
import tensorflow as tf

from electra_tf import configs
from electra_tf.model import costs, kernels

# The original's BERT code has it.
MASKED_ATTENTION_LOGIT = -10000.0
# A network's table of words. What two networks' tables differ by is _delta.
WORD_EMBEDDINGS = "word_embeddings"


def initializer(initializer_range: float) -> keras.initializers.Initializer:
    """Truncated normal, cut at two deviations."""
    return keras.initializers.TruncatedNormal(stddev=initializer_range)


def size_of_axis(x: tf.Tensor, axis: int) -> int | tf.Tensor:
    """A number where it is known: each operation less is built faster."""
    size = x.shape[axis]
    return tf.shape(x)[axis] if size is None else size


class Dropout:
    """Dropout whose mask follows from a key; no variables, hence no layer.

    Attributes:
      rate: Share of the activations that become 0.
    """

    def __init__(self, rate: float):
        self.rate = rate

    def __call__(self, x: tf.Tensor, key: tf.Tensor | None) -> tf.Tensor:
        """Applies dropout after a key <int32>[2]; None for no dropout."""
        if not self.drops(key):
            return x
        return kernels.dropout(x, key, rate=self.rate)

    def drops(self, key: tf.Tensor | None) -> bool:
        """Whether there is a dropout."""
        return key is not None and self.rate > 0.0


class Layer(keras.layers.Layer):
    """A layer that decides itself what is float32 under a mixed policy."""

    def __init__(self, name: str):
        super().__init__(name=name, autocast=False)

    def add_weight(self, **kwargs):
        """A variable that stays float32 when it is read."""
        return super().add_weight(autocast=False, **kwargs)

    def build(self, input_shape=None):
        """Builds the layers within that no other layer has built."""
        for layer in self._layers:
            if not layer.built:
                layer.build()


class LayerNorm(Layer):
    """Layer normalisation with float32 statistics under every policy."""

    def __init__(self, width: int):
        super().__init__(name="LayerNorm")
        self.width = width

    def build(self, input_shape=None):
        self.beta = self.add_weight(
            name="beta", shape=(self.width,), initializer="zeros"
        )
        self.gamma = self.add_weight(
            name="gamma", shape=(self.width,), initializer="ones"
        )

    def call(self, x):
        return kernels.layer_norm(x, *self.weights_as_tensors())

    def weights_as_tensors(self) -> tuple[tf.Tensor, tf.Tensor]:
        """Gamma and beta, <float32>[D]."""
        # Under a policy such as "bfloat16" the variables are no float32.
        return (
            tf.cast(self.gamma.value, tf.float32),
            tf.cast(self.beta.value, tf.float32),
        )


class Dense(keras.layers.Dense):
    """A dense layer without activation; Glorot where no range is given."""

    def __init__(
        self,
        input_size: int,
        units: int,
        initializer_range: float | None,
        name: str,
    ):
        kernel = initializer_range and initializer(initializer_range)
        super().__init__(
            units, kernel_initializer=kernel or "glorot_uniform", name=name
        )
        self.input_size = input_size

    def build(self, input_shape=None):
        super().build((None, self.input_size))

    def quantize(self, mode=None, type_check=True, **kwargs):
        """As Keras's own, which refuses a subclass by itself."""
        super().quantize(mode, type_check=False, **kwargs)


class Embeddings(Layer):
    """Sum of word, segment and position embeddings, normalised.

    Args:
      config: Sizes.
      is_disentangled: The owner's words are those that it shares, which do not
        learn from it, plus a difference (arXiv:2111.09543, section 3.2).
    """

    def __init__(
        self, config: configs.EncoderConfig, is_disentangled: bool = False
    ):
        super().__init__(name="embeddings")
        self.config = config
        self.is_disentangled = is_disentangled
        self.layer_norm = LayerNorm(typing.cast(int, config.embedding_size))
        self.dropout = Dropout(config.hidden_dropout_prob)

    def build(self, input_shape=None):
        config = self.config

        def table(name, rows, first_values=None):
            return self.add_weight(
                name=name,
                shape=(rows, config.embedding_size),
                initializer=first_values
                or initializer(config.initializer_range),
            )

        self.word_embeddings = table(WORD_EMBEDDINGS, config.vocab_size)
        if self.is_disentangled:
            self.word_embeddings_delta = table(
                f"{WORD_EMBEDDINGS}_delta", config.vocab_size, "zeros"
            )
        self.token_type_embeddings = table(
            "token_type_embeddings", config.type_vocab_size
        )
        self.position_embeddings = table(
            "position_embeddings", config.max_position_embeddings
        )
        self.layer_norm.build()

    def call(self, input_ids, segment_ids, dropout_key=None, is_shared=False):
        """Looks up and adds the three embeddings, <float>[B, L, E].

        `is_shared` says that another encoder than the owner asks.
        """
        length = size_of_axis(input_ids, 1)
        words = self._look_up(self.word_embeddings, input_ids)
        if self.is_disentangled and not is_shared:
            words = tf.stop_gradient(words) + self._look_up(
                self.word_embeddings_delta, input_ids
            )
        embeddings = (
            words
            + self._look_up(self.token_type_embeddings, segment_ids)
            + self._cast(self.position_embeddings.value[:length])
        )
        return self.dropout(self.layer_norm(embeddings), dropout_key)

    def _look_up(self, table, ids):
        # Of the value: a look-up in the variable is an operation that a graph
        # runs whether or not anything follows from it, with the generator that
        # the ids are drawn from. See `engine.Engine._sums_of_weights`.
        table = tf.convert_to_tensor(table.value)
        return self._cast(tf.gather(table, ids))

    def _cast(self, x):
        return tf.cast(x, self.compute_dtype)


class SelfAttention(Layer):
    """Multi-head attention up to the concatenated heads."""

    def __init__(self, config: configs.EncoderConfig):
        super().__init__(name="self")
        self.config = config
        width = config.hidden_size
        self.query, self.key, self.value = (
            Dense(width, width, config.initializer_range, name)
            for name in ("query", "key", "value")
        )
        self.dropout = Dropout(config.attention_probs_dropout_prob)

    def call(self, x, attention_bias, dropout_key=None):
        """Attends within each sequence.

        Takes <float>[B * L, D] and what is added to the scores <float32>[B, 1,
        1 or L, L]. Returns the context <float>[B * L, D] and the probabilities
        <float32>[B, H, L, L] before dropout.
        """
        heads = self.config.num_attention_heads
        width = self.config.hidden_size // heads
        length = size_of_axis(attention_bias, -1)

        def split_heads(projected):
            if heads == 1:
                return tf.reshape(projected, [-1, 1, length, width])
            split = tf.reshape(projected, [-1, length, heads, width])
            return tf.transpose(split, [0, 2, 1, 3])

        query = split_heads(self.query(x))
        key = split_heads(self.key(x))
        value = split_heads(self.value(x))
        scale = width**-0.5
        if not self.dropout.drops(dropout_key):
            scores = tf.matmul(query, key, transpose_b=True)
            probs = kernels.attention_probs(scores, attention_bias, scale)
            context = tf.matmul(tf.cast(probs, x.dtype), value)
        else:
            context, probs = kernels.dropped_attention(
                *(query, key, value, attention_bias, dropout_key),
                scale=scale,
                rate=self.dropout.rate,
                # A length that is not known is one of fine-tuning on a CPU.
                recomputes=isinstance(length, int)
                and length >= costs.RECOMPUTED_LENGTH,
            )
        if heads > 1:
            context = tf.transpose(context, [0, 2, 1, 3])
        return tf.reshape(context, [-1, heads * width]), probs


class ResidualOutput(Layer):
    """Dense, dropout, residual connection, layer normalisation."""

    def __init__(self, config: configs.EncoderConfig, input_size: int):
        super().__init__(name="output")
        width = config.hidden_size
        self.dense = Dense(input_size, width, config.initializer_range, "dense")
        self.dropout = Dropout(config.hidden_dropout_prob)
        self.layer_norm = LayerNorm(width)

    def call(self, x, residual, dropout_key=None):
        x = self.dense(x)
        if not self.dropout.drops(dropout_key):
            return self.layer_norm(x + residual)
        weights = self.layer_norm.weights_as_tensors()
        return kernels.add_and_normalize(
            x, residual, *weights, dropout_key, rate=self.dropout.rate
        )


class Attention(Layer):
    """Self-attention with its output layer."""

    NUM_DROPOUTS = 2

    def __init__(self, config: configs.EncoderConfig):
        super().__init__(name="attention")
        self.self_attention = SelfAttention(config)
        self.residual_output = ResidualOutput(config, config.hidden_size)

    def call(self, x, attention_bias, dropout_keys=None):
        probs_key, output_key = dropout_keys or [None] * self.NUM_DROPOUTS
        context, probs = self.self_attention(x, attention_bias, probs_key)
        return self.residual_output(context, x, output_key), probs


class Intermediate(Layer):
    """The wide half of the feed-forward block."""

    def __init__(self, config: configs.EncoderConfig):
        super().__init__(name="intermediate")
        self.config = config
        sizes = config.hidden_size, config.intermediate_size
        self.dense = Dense(*sizes, config.initializer_range, "dense")

    def call(self, x, is_training=False):
        return kernels.activation(
            self.dense(x), is_training, self.config.hidden_act
        )


class TransformerLayer(Layer):
    """Attention and feed-forward, each followed by its normalisation."""

    NUM_DROPOUTS = Attention.NUM_DROPOUTS + 1

    def __init__(self, config: configs.EncoderConfig, index: int):
        super().__init__(name=f"layer_{index}")
        self.attention = Attention(config)
        self.intermediate = Intermediate(config)
        self.residual_output = ResidualOutput(config, config.intermediate_size)

    def call(self, x, attention_bias, dropout_keys=None):
        """<float>[B * L, D] -> the same, and the attention's probabilities.

        `dropout_keys` has a key for each of its dropouts; None in inference.
        """
        is_training = dropout_keys is not None
        *attention_keys, output_key = dropout_keys or [None] * self.NUM_DROPOUTS
        attended, probs = self.attention(x, attention_bias, attention_keys)
        wide = self.intermediate(attended, is_training=is_training)
        return self.residual_output(wide, attended, output_key), probs


class TransformerStack(Layer):
    """The transformer layers, under the name "encoder"."""

    def __init__(self, config: configs.EncoderConfig):
        super().__init__(name="encoder")
        self.transformer_layers = [
            TransformerLayer(config, index)
            for index in range(config.num_hidden_layers)
        ]

    @property
    def num_dropouts(self) -> int:
        """Dropouts of all layers."""
        return TransformerLayer.NUM_DROPOUTS * len(self.transformer_layers)

    def call(self, x, attention_bias, dropout_keys=None):
        outputs, attention_probs = [], []
        for index, layer in enumerate(self.transformer_layers):
            layer_keys = None
            if dropout_keys is not None:
                first = index * layer.NUM_DROPOUTS
                layer_keys = dropout_keys[first : first + layer.NUM_DROPOUTS]
            x, probs = layer(x, attention_bias, layer_keys)
            outputs.append(x)
            attention_probs.append(probs)
        return outputs, attention_probs


def attention_bias(input_mask: tf.Tensor, direction: str = "both") -> tf.Tensor:
    """What is added to attention scores so that padding is not attended to.

    <float32>[B, 1, 1, L]; or [B, 1, L, L] for the direction 'left_to_right' or
    'right_to_left', where no token after, or before, its own is seen.
    """
    # Not by indexing with newaxis, which LiteRT has no op for.
    allowed = tf.expand_dims(tf.cast(input_mask, tf.float32), 1)
    allowed = tf.expand_dims(allowed, 1)
    if direction != "both":
        length = tf.shape(input_mask)[1]
        square = tf.ones([length, length])
        band = (-1, 0) if direction == "left_to_right" else (0, -1)
        allowed *= tf.linalg.band_part(square, *band)
    return (1.0 - allowed) * MASKED_ATTENTION_LOGIT


class Encoder(Layer):
    """The transformer encoder; ELECTRA's discriminator is one with a head.

    Args:
      config: Its sizes.
      name: Scope of its variables: "electra" or "generator" in the original.
      embeddings: Embeddings of another encoder to share; None for its own.
      direction: See `attention_bias`.
      is_disentangled: Of embeddings of its own, see `Embeddings`.
    """

    def __init__(
        self,
        config: configs.EncoderConfig,
        name: str = "electra",
        embeddings: Embeddings | None = None,
        direction: str = "both",
        is_disentangled: bool = False,
    ):
        super().__init__(name=name)
        self.config = config
        self.direction = direction
        self.shares_embeddings = embeddings is not None
        self.embeddings = embeddings or Embeddings(config, is_disentangled)
        self.embeddings_project = None
        if config.embedding_size != config.hidden_size:
            # Glorot, unlike every other layer of the encoder: the original
            # gives this one no initializer.
            sizes = typing.cast(int, config.embedding_size), config.hidden_size
            self.embeddings_project = Dense(*sizes, None, "embeddings_project")
        self.stack = TransformerStack(config)

    def call(
        self,
        input_ids,
        input_mask,
        segment_ids,
        dropout_seed=None,
        return_layers=False,
        training=None,
    ):
        """Encodes a batch.

        Args:
          input_ids: <int32>[B, L].
          input_mask: <int32>[B, L].
          segment_ids: <int32>[B, L].
          dropout_seed: <int32>[2], or None for no dropout.
          return_layers: Also return what lies between input and output.
          training: What Keras says, also where a layer around this one was
            called with it; True needs a seed.

        Returns:
          {"sequence_output": <float>[B, L, D], "pooled_output": <float>[B, D]},
          the latter the first token's vector. With `return_layers` also
          "embedding_output" <float>[B, L, D] (the input of the first layer),
          "all_encoder_layers" (a list of <float>[B, L, D]) and
          "attention_probs" (a list of <float32>[B, H, L, L]).

        Raises:
          ValueError: If there should be dropout, but nothing that it could
            follow from.
        """
        config = self.config
        rates = config.hidden_dropout_prob, config.attention_probs_dropout_prob
        if training and dropout_seed is None and any(rates):
            raise ValueError(
                "Expected a dropout_seed with training=True, since dropout here"
                " follows from it; electra_tf.Encoder draws its own. Received: "
                f"training={training}, dropout_seed=None"
            )
        embeddings_key, *stack_keys = kernels.draw_keys(
            dropout_seed, 1 + self.stack.num_dropouts
        )
        x = self.embeddings(
            input_ids,
            segment_ids,
            embeddings_key,
            is_shared=self.shares_embeddings,
        )
        x = tf.reshape(x, [-1, self.config.embedding_size])
        if self.embeddings_project is not None:
            x = self.embeddings_project(x)
        layers, attention_probs = self.stack(
            x,
            attention_bias(input_mask, self.direction),
            None if dropout_seed is None else stack_keys,
        )

        length = size_of_axis(input_ids, 1)

        def as_sequence(flat):
            return tf.reshape(flat, [-1, length, self.config.hidden_size])

        sequence_output = as_sequence(layers[-1])
        outputs = {
            "sequence_output": sequence_output,
            "pooled_output": sequence_output[:, 0],
        }
        if return_layers:
            outputs["embedding_output"] = as_sequence(x)
            outputs["all_encoder_layers"] = [as_sequence(y) for y in layers]
            outputs["attention_probs"] = attention_probs
        return outputs
