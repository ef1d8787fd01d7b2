"""The forward pass of transformers, in a process of its own.

    python transformers_forward.py inputs.npz outputs.npz FOLDER ...

TensorFlow and torch in one process may end in a segmentation fault, so nothing
of this package is imported here.
"""

import json
import os
import sys
from collections.abc import Mapping, Sequence

import numpy as np
import torch
import transformers

# Their activation in a masked language model's head, whatever hidden_act says.
GELUS = ("gelu", "gelu_new")
# As in huggingface_files, which cannot be imported here.
WRAPPERS = ("state_dict", "model_state_dict", "model", "module")
_HEADS = (
    *("PreTraining", "MaskedLM", "SequenceClassification"),
    *("TokenClassification", "QuestionAnswering"),
)


def outputs(
    folders: Sequence[str], inputs: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """What the models in some folders compute; see `huggingface.forward`."""
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    features = {
        name: torch.tensor(np.asarray(inputs[original], np.int64))
        for name, original in (
            ("input_ids", "input_ids"),
            ("attention_mask", "input_mask"),
            ("token_type_ids", "segment_ids"),
        )
    }
    arrays: dict[str, np.ndarray] = {}
    for folder in folders:
        with open(os.path.join(folder, "config.json"), encoding="utf-8") as f:
            name = (json.load(f).get("architectures") or [""])[0]
        if name not in [f"ElectraFor{head}" for head in _HEADS]:
            name = "ElectraModel"
        model = _load(getattr(transformers, name), folder)
        is_generator = name == "ElectraForMaskedLM"
        if is_generator and model.config.hidden_act not in GELUS:
            model.generator_predictions.activation = (
                transformers.activations.ACT2FN[model.config.hidden_act]
            )
        with torch.no_grad():
            results = model.float().eval()(
                **features, output_hidden_states=True
            )
        prefix = "generator_" if is_generator else ""
        arrays[f"{prefix}sequence_output"] = results["hidden_states"][-1]
        if name == "ElectraForPreTraining":
            prefix = "discriminator_"
        for output in ("logits", "start_logits", "end_logits"):
            if output in results:
                arrays[f"{prefix}{output}"] = results[output]
    return {name: np.asarray(array) for name, array in arrays.items()}


def _load(model_class, folder: str):
    """A model; its own loader passes over tensors with something around."""
    path = os.path.join(folder, "pytorch_model.bin")
    others = ("model.safetensors", "model.safetensors.index.json")
    if os.path.exists(path) and not {*others} & {*os.listdir(folder)}:
        state = torch.load(path, map_location="cpu", weights_only=True)
        for name in WRAPPERS:
            if isinstance(state.get(name), dict):
                config = transformers.AutoConfig.from_pretrained(folder)
                return model_class.from_pretrained(
                    None, config=config, state_dict=state[name]
                )
    return model_class.from_pretrained(folder, local_files_only=True)


if __name__ == "__main__":
    source, target, *model_folders = sys.argv[1:]
    with np.load(source) as arrays_in:
        results_out = outputs(model_folders, arrays_in)
        np.savez(target, **results_out)  # type: ignore[arg-type]
