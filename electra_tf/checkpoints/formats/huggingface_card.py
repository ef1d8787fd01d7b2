"""The model card beside a model of transformers: README.md.

Metadata as the hub reads them, what the model is, and lines that run it.
"""

import os

import yaml

import electra_tf
from electra_tf.checkpoints.checkpoint import Checkpoint
from electra_tf.checkpoints.formats import huggingface_files as hub_files
from electra_tf.files import read_json, write_atomically

CARD_FILE = "README.md"

# Class -> what the hub calls its task; replaced-token detection has no name.
_TAGS = {
    "ElectraForMaskedLM": "fill-mask",
    "ElectraModel": "feature-extraction",
    "ElectraForSequenceClassification": "text-classification",
    "ElectraForTokenClassification": "token-classification",
    "ElectraForQuestionAnswering": "question-answering",
}
_TEXT = '"the chef ate the meal"'
_MASKED = 'f"the chef {model.tokenizer.mask_token} the meal"'
_PIPELINE = """from transformers import pipeline

model = pipeline({tag!r}, {path!r})
print(model({text}))
"""
_MODEL = """import torch
from transformers import AutoTokenizer, {architecture}

tokenizer = AutoTokenizer.from_pretrained({path!r})
model = {architecture}.from_pretrained({path!r})
inputs = tokenizer({text}, return_tensors="pt")
with torch.no_grad():
    outputs = model(**inputs)
"""
# What follows that for a class that no pipeline of transformers runs.
_REST = {
    "ElectraForPreTraining": (
        "replaced = outputs.logits[0].sigmoid().tolist()\n"
        'print(*zip(inputs.tokens(), replaced), sep="\\n")\n'
    ),
    "ElectraForQuestionAnswering": (
        "start, end = outputs.start_logits[0], outputs.end_logits[0]\n"
        "answer = inputs.input_ids[0, start.argmax() : end.argmax() + 1]\n"
        "print(tokenizer.decode(answer))\n"
    ),
}


def write(checkpoint: Checkpoint, folder: str, path: str, source: str) -> None:
    """Writes a card beside each model in a folder.

    Args:
      checkpoint: What the models were written from.
      folder: Where they are: one, or `generator` and `discriminator`.
      path: What the folder is going to be called.
      source: What they were converted from, such as "a KerasHub preset".
    """
    for part in hub_files.parts(folder):
        config = read_json(os.path.join(part, hub_files.CONFIG_FILE))
        architecture = hub_files.architecture(config)
        tag = _TAGS.get(architecture, "")
        text = _MASKED if tag == "fill-mask" else _TEXT
        if tag == "question-answering":
            text = f'"who ate?", {text}'
        place = os.path.normpath(
            os.path.join(path, os.path.relpath(part, folder))
        )
        names = os.path.abspath(place).split(os.sep)
        is_part = names[-1] in hub_files.SUBDIRECTORIES
        metadata = {"library_name": "transformers", "pipeline_tag": tag}
        metadata = {name: value for name, value in metadata.items() if value}
        top = yaml.safe_dump(metadata | {"tags": ["electra", "electra_tf"]})
        facts = [
            *_facts(checkpoint, config),
            f"converted from {source} by electra_tf {electra_tf.__version__}",
        ]
        sections = [
            f"---\n{top}---",
            f"# {'-'.join(names[-2:] if is_part else names[-1:])}",
            f"An ELECTRA, as transformers' {architecture}.",
            "\n".join(f"* {fact}" for fact in facts),
        ]
        if checkpoint.vocabulary is not None:
            if checkpoint.head and checkpoint.head.has_pairs:
                text = f'{{"text": {text}, "text_pair": "somebody ate"}}'
            rest = _REST.get(architecture)
            lines = (_MODEL if rest else _PIPELINE).format(
                tag=tag, path=place, text=text, architecture=architecture
            ) + (rest or "")
            sections += ["## Use", f"```python\n{lines}```\n"]
        write_atomically(os.path.join(part, CARD_FILE), "\n\n".join(sections))


def _facts(checkpoint: Checkpoint, config: dict) -> list[str]:
    rows = [
        f"{config['num_hidden_layers']} layers, {config['hidden_size']} wide, "
        f"a vocabulary of {config['vocab_size']} tokens, "
        f"{config['max_position_embeddings']} positions"
    ]
    vocab, head = checkpoint.vocabulary, checkpoint.head
    if vocab is not None:
        case = "lower-cased" if vocab.lower_cases() else "cased"
        rows.append(f"text is {case}")
    if head is not None and head.labels:
        rows.append(f"labels: {', '.join(head.labels)}")
    if head is not None and head.kind == "regression":
        least, scale = head.unit
        rows.append(f"an output of y says {scale:g} y + {least:g}")
    if head is not None and head.kind == "tagging":
        rows.append(
            f"words are read in segment {head.segment_of_words()} "
            "(token_type_ids)"
        )
    return rows
