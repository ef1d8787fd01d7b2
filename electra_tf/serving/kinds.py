"""What an exported model does; imports no TensorFlow."""

# These need a fine-tuned head of that kind.
TASK_KINDS = (
    "classification",
    "multi_label_classification",
    "regression",
    "tagging",
    "question_answering",
)
ENCODING = "encoding"
DETECTION = "replaced_token_detection"
KINDS = (*TASK_KINDS, ENCODING, DETECTION)
# That of the checkpoint's head.
AUTO = "auto"
