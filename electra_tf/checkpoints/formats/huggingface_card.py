"""The model card beside a model of transformers: README.md.

Metadata as the hub reads them, what the model is, and lines that run it.
"""

import os

import electra_tf
from electra_tf.checkpoints.checkpoint import Checkpoint
from electra_tf.checkpoints.formats import huggingface_files as hub_files
from electra_tf.files import read_json, write_atomically

# Class -> what the hub calls its task; replaced-token detection has no name.
_TAGS = {
    "ElectraForMaskedLM": "fill-mask",
    "ElectraModel": "feature-extraction",
    "ElectraForSequenceClassification": "text-classification",
    "ElectraForTokenClassification": "token-classification",
    "ElectraForQuestionAnswering": "question-answering",
}
_CARD = """---
library_name: transformers
{tag}tags: [electra, electra_tf]
---

# {name}

An ELECTRA, as transformers' {architecture}.

{facts}
"""
_USE = """
## Use

```python
from transformers import AutoTokenizer, {architecture}

tokenizer = AutoTokenizer.from_pretrained({path!r})
model = {architecture}.from_pretrained({path!r})
inputs = tokenizer({texts}, return_tensors="pt")
print(model(**inputs))
```
"""


def write(checkpoint: Checkpoint, folder: str, path: str, source: str) -> None:
    """Writes a card beside each model in a folder.

    Args:
      checkpoint: What the models were written from.
      folder: Where they are: one, or `generator` and `discriminator`.
      path: What the folder is going to be called.
      source: What they were converted from, such as "a KerasHub preset".
    """
    vocab, head, said = checkpoint.vocabulary, checkpoint.head, []
    if vocab is not None:
        case = "lower-cased" if vocab.lower_cases() else "cased"
        said.append(f"text is {case}")
    if head is not None and head.tags:
        said.append(f"labels: {', '.join(dict.fromkeys(head.tags))}")
    if head is not None and head.kind == "regression":
        least, scale = head.unit
        said.append(f"an output of y says {scale:g} y + {least:g}")
    if head is not None and head.kind == "tagging":
        segment = head.segment_of_words()
        said.append(f"words are read in segment {segment} (token_type_ids)")
    for part in hub_files.parts(folder):
        config = read_json(os.path.join(part, hub_files.CONFIG_FILE))
        architecture = hub_files.architecture(config)
        tag = _TAGS.get(architecture, "")
        place = os.path.normpath(
            os.path.join(path, os.path.relpath(part, folder))
        )
        names = os.path.abspath(place).split(os.sep)
        is_part = names[-1] in hub_files.SUBDIRECTORIES
        facts = [
            f"{config['num_hidden_layers']} layers, {config['hidden_size']} "
            f"wide, a vocabulary of {config['vocab_size']} tokens, "
            f"{config['max_position_embeddings']} positions",
            *said,
            f"converted from {source} by electra_tf {electra_tf.__version__}",
        ]
        card = _CARD.format(
            tag=f"pipeline_tag: {tag}\n" if tag else "",
            name="-".join(names[-2:] if is_part else names[-1:]),
            architecture=architecture,
            facts="\n".join(f"* {fact}" for fact in facts),
        )
        texts = '"the chef ate the meal"'
        if tag == "question-answering":
            texts = f'"who ate?", {texts}'
        elif head and head.has_pairs:
            texts += ', "somebody ate"'
        if vocab is not None:
            card += _USE.format(
                architecture=architecture, path=place, texts=texts
            )
        write_atomically(os.path.join(part, "README.md"), card)
