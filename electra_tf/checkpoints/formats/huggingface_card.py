"""The model card beside a model of transformers: README.md.

Metadata as the hub reads them, what the model is, the scores of its run where
there are any, digests of its files, and lines that run.
"""

import os
import shlex
import typing
from collections.abc import Sequence

import yaml

import electra_tf
from electra_tf.checkpoints.checkpoint import Checkpoint
from electra_tf.checkpoints.formats import huggingface_files as hub_files
from electra_tf.checkpoints.run_scores import Scores
from electra_tf.files import read_json, sha256_of_file, write_atomically
from electra_tf.model.task_head import TaskHead

CARD_FILE = "README.md"

_TOKENS = "tokens = tokenizer.convert_ids_to_tokens(inputs.input_ids[0])\n"
_EXPORT = "electra-tf export --model_dir={path} --output=models/served"


class _Words(typing.NamedTuple):
    """What a card says of a class of transformers."""

    tag: str  # The hub's name for what it does, if it has one.
    title: str
    text: str  # An input, in Python.
    rest: str  # What to do with the outputs, in Python.
    command: str = _EXPORT  # What asks the same of this package, in a shell.


_WORDS = {
    "ElectraForPreTraining": _Words(
        "",
        "An ELECTRA discriminator: it says of every token whether it was "
        "replaced, and is what to fine-tune.",
        '"the chef ate the meal"',
        _TOKENS + "for token, p in zip(tokens, outputs.logits[0].sigmoid()):\n"
        '    print(f"{token}: replaced with probability {p:.2f}")\n',
        "electra-tf detect --checkpoint={path} 'the chef ate the meal'\n"
        "electra-tf finetune --init_checkpoint={path} --train_file=train.tsv "
        "--dev_file=dev.tsv \\\n    --model_dir=models/mine",
    ),
    "ElectraForMaskedLM": _Words(
        "fill-mask",
        "A masked language model, such as the generator of an ELECTRA.",
        'f"the chef {tokenizer.mask_token} the meal"',
        "at = (inputs.input_ids[0] == tokenizer.mask_token_id).nonzero()[0]\n"
        "likeliest = outputs.logits[0, at].topk(5).indices[0]\n"
        "print(tokenizer.convert_ids_to_tokens(likeliest))\n",
        "electra-tf score --checkpoint={path} 'the chef ate the meal'",
    ),
    "ElectraModel": _Words(
        "feature-extraction",
        "The encoder of an ELECTRA, without a head.",
        '"the chef ate the meal"',
        "print(outputs.last_hidden_state[0, 0])  # Of the whole text.\n",
        _EXPORT.replace("export", "export --kind=encoding"),
    ),
    "ElectraForSequenceClassification": _Words(
        "text-classification",
        "An ELECTRA that classifies texts.",
        '"the chef ate the meal"',
        "for i, p in enumerate(outputs.logits[0].{activation}):\n"
        '    print(f"{{model.config.id2label[i]}}: {{p:.3f}}")\n',
    ),
    "ElectraForTokenClassification": _Words(
        "token-classification",
        "An ELECTRA that labels words.",
        '"the chef ate the meal"',
        _TOKENS
        + "for token, i in zip(tokens, outputs.logits[0].argmax(-1).tolist()):"
        "\n    print(token, model.config.id2label[i])\n",
    ),
    "ElectraForQuestionAnswering": _Words(
        "question-answering",
        "An ELECTRA that finds answers in passages.",
        '"who ate?", "the chef ate the meal"',
        "start, end = outputs.start_logits[0], outputs.end_logits[0]\n"
        "answer = inputs.input_ids[0, start.argmax() : end.argmax() + 1]\n"
        "print(tokenizer.decode(answer))\n",
    ),
}
_USE = """## Use

The path is where the model was written, as seen from there.

```python
import torch
from transformers import AutoTokenizer, {architecture}

path = {path!r}
tokenizer = AutoTokenizer.from_pretrained(path)
model = {architecture}.from_pretrained(path)
inputs = tokenizer({text}, return_tensors="pt")
{segment}with torch.no_grad():
    outputs = model(**inputs)
{rest}```

In TensorFlow, by electra_tf:

```sh
{command}
```
"""
# Of a tagger that does not read its words in the tokenizer's segment.
_SEGMENT = 'inputs["token_type_ids"] = {} * inputs["attention_mask"]\n'


def write(
    checkpoint: Checkpoint,
    folder: str,
    path: str,
    source: str,
    notes: Sequence[str],
    scores: Scores | None = None,
) -> None:
    """Writes a card beside each model in a folder.

    Args:
      checkpoint: What the models were written from.
      folder: Where they are: one, or `generator` and `discriminator`.
      path: What the folder is going to be called.
      source: What they were converted from, such as "a KerasHub preset".
      notes: What transformers does otherwise than this package.
      scores: Of the run.
    """
    for part in hub_files.parts(folder):
        config = read_json(os.path.join(part, hub_files.CONFIG_FILE))
        words = _WORDS[config["architectures"][0]]
        place = os.path.normpath(
            os.path.join(path, os.path.relpath(part, folder))
        )
        names = os.path.abspath(place).split(os.sep)
        is_part = names[-1] in hub_files.SUBDIRECTORIES
        title = "-".join(names[-2:] if is_part else names[-1:])
        metadata = _metadata(title, words.tag, checkpoint.head, scores)
        made = f"converted from {source} by electra_tf {electra_tf.__version__}"
        facts = [*_facts(checkpoint, config), made, *notes]
        lines = "".join(f"* {fact}\n" for fact in facts)
        sections = [f"# {title}\n\n{words.title}\n\n{lines}"]
        if scores is not None:
            sections.append(_score_section(scores))
        if checkpoint.vocabulary is not None:
            sections.append(_use_section(words, config, checkpoint.head, place))
        lines = "".join(
            f"| `{n}` | `{sha256_of_file(os.path.join(part, n))}` |\n"
            for n in sorted(os.listdir(part))
        )
        head = "## Files\n\n| file | SHA-256 |\n| --- | --- |\n"
        sections.append(head + lines)
        top = yaml.safe_dump(metadata, sort_keys=False, allow_unicode=True)
        text = f"---\n{top}---\n\n" + "\n".join(sections)
        write_atomically(os.path.join(part, CARD_FILE), text)


def _metadata(
    title: str, tag: str, head: TaskHead | None, scores: Scores | None
) -> dict:
    """What stands at the top of a card, for the hub."""
    metadata: dict = {"library_name": "transformers"}
    if tag:
        metadata["pipeline_tag"] = tag
    metadata["tags"] = ["electra", "electra_tf"]
    if head is None or scores is None:
        return metadata
    data = dict.fromkeys(("name", "type"), scores.data)
    results = [
        {
            "task": {"type": tag},
            "dataset": data | {"split": split},
            "metrics": [
                {"type": name, "name": name, "value": value}
                for name, value in metrics.items()
            ],
        }
        for split, metrics in scores.by_split.items()
    ]
    return metadata | {"model-index": [{"name": title, "results": results}]}


def _facts(checkpoint: Checkpoint, config: dict) -> list[str]:
    rows = [
        f"{config['num_hidden_layers']} layers, {config['hidden_size']} wide, "
        f"{config['num_attention_heads']} attention heads, feed-forward "
        f"{config['intermediate_size']}",
        f"embeddings {config['embedding_size']} wide, a vocabulary of "
        f"{config['vocab_size']} tokens, {config['max_position_embeddings']} "
        "positions",
    ]
    vocab, head = checkpoint.vocabulary, checkpoint.head
    if vocab is not None and vocab.do_lower_case is not None:
        rows.append(
            "text is lower-cased" if vocab.do_lower_case else "text is cased"
        )
    if head is not None and head.labels:
        rows.append(f"labels: {', '.join(head.labels)}")
    if checkpoint.max_seq_length:
        rows.append(f"trained on {checkpoint.max_seq_length} tokens at most")
    if checkpoint.global_step:
        rows.append(f"trained for {checkpoint.global_step} steps")
    return rows


def _score_section(scores: Scores) -> str:
    names = list(dict.fromkeys(n for m in scores.by_split.values() for n in m))
    splits = list(scores.by_split)
    lines = [
        f"| {scores.data} | {' | '.join(splits)} |",
        f"| --- |{' ---: |' * len(splits)}",
    ]
    for name in names:
        values = (scores.by_split[split].get(name) for split in splits)
        shown = ("" if v is None else f"{v:.4g}" for v in values)
        lines.append(f"| {name} | {' | '.join(shown)} |")
    return f"## Scores\n\n{scores.about}\n\n" + "\n".join(lines) + "\n"


def _use_section(
    words: _Words, config: dict, head: TaskHead | None, path: str
) -> str:
    """Lines that run the model, of what its head has learned."""
    text, rest, segment = words.text, words.rest, ""
    if head is not None and "problem_type" in config:
        text += ', "somebody ate"' if head.has_pairs else ""
        is_one = head.kind == "classification"
        rest = rest.format(activation="softmax(-1)" if is_one else "sigmoid()")
        if head.kind == "regression":
            least, scale = head.unit
            unit = f" * {scale} + {least}" if (least, scale) != (0, 1) else ""
            rest = f"print(outputs.logits[0, 0].item(){unit})\n"
    if head is not None and head.kind == "tagging" and head.segment_of_words():
        segment = _SEGMENT.format(head.segment_of_words())
    return _USE.format(
        architecture=config["architectures"][0],
        path=path,
        text=text,
        rest=rest,
        segment=segment,
        command=words.command.format(path=shlex.quote(path)),
    )
