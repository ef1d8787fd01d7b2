"""Options of question answering; imports no TensorFlow."""

import dataclasses

import gin

from electra_tf import configs


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

    max_query_length: int = 64
    doc_stride: int = 128
    max_answer_length: int = 30
    n_best_size: int = 20
    joint_prediction: bool = True
    beam_size: int = 20
    answerable_classifier: bool = True
    answerable_uses_start_logits: bool = True
    answerable_weight: float = 0.5
    qa_na_threshold: float = -2.75

    def __post_init__(self):
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.type is float and type(value) is int:
                object.__setattr__(self, field.name, float(value))
            elif type(value) is not field.type:
                raise configs.ConfigError(
                    f"QuestionAnsweringConfig.{field.name} must be "
                    f"{field.type.__name__}. Received: {value!r}"
                )
            if field.type is int and value < 1:
                raise configs.ConfigError(
                    f"QuestionAnsweringConfig.{field.name} must be positive. "
                    f"Received: {field.name}={value!r}"
                )
