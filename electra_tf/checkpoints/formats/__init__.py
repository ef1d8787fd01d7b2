"""Formats of checkpoints: one module for each, with its names."""

# Name -> its module, imported when it is needed, and what it is called in
# messages. A path is tried in this order: first those whose directories say
# what they are.
FORMATS = {
    "electra_tf": ("electra_tf_format", "a model directory of electra_tf"),
    "huggingface": ("huggingface", "a Hugging Face directory"),
    "kerashub": ("kerashub", "a KerasHub preset"),
    "original": ("original", "a TensorFlow 1 checkpoint of the original"),
    "model_garden": ("model_garden", "a checkpoint of the Model Garden"),
}
