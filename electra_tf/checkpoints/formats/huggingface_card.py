"""The model card beside a model of transformers: README.md.

Metadata as the hub reads them, what the model is, the scores of its run where
there are any, digests of its files, and lines that run.
"""

import os
import shlex
from collections.abc import Sequence

import yaml

import electra_tf
from electra_tf.checkpoints.checkpoint import Checkpoint
from electra_tf.checkpoints.formats import huggingface_files as hub_files
from electra_tf.checkpoints.run_scores import Scores
from electra_tf.files import read_json, sha256_of_file, write_atomically
from electra_tf.model.task_head import TaskHead

CARD_FILE = "README.md"

# Class there -> the hub's name for what it does.
_PIPELINE_TAGS = {
    "ElectraForMaskedLM": "fill-mask",
    "ElectraForSequenceClassification": "text-classification",
    "ElectraForTokenClassification": "token-classification",
    "ElectraForQuestionAnswering": "question-answering",
    "ElectraModel": "feature-extraction",
}
_TITLES = {
    "ElectraForPreTraining": (
        "An ELECTRA discriminator: it says of every token whether it was "
        "replaced, and is what to fine-tune."
    ),
    "ElectraForMaskedLM": (
        "A masked language model, such as the generator of an ELECTRA."
    ),
    "ElectraModel": "The encoder of an ELECTRA, without a head.",
    "ElectraForSequenceClassification": "An ELECTRA that classifies texts.",
    "ElectraForTokenClassification": "An ELECTRA that labels words.",
    "ElectraForQuestionAnswering": (
        "An ELECTRA that finds answers in passages."
    ),
}
_START = """import torch
from transformers import AutoTokenizer, {architecture}

path = {path!r}
tokenizer = AutoTokenizer.from_pretrained(path)
model = {architecture}.from_pretrained(path)
inputs = tokenizer({text}, return_tensors="pt")
{segment}with torch.no_grad():
    outputs = model(**inputs)
"""
_TOKENS = "tokens = tokenizer.convert_ids_to_tokens(inputs.input_ids[0])\n"
# What follows the start: an input, and what to do with the outputs.
_SNIPPETS = {
    "ElectraForPreTraining": (
        '"the chef ate the meal"',
        _TOKENS + "for token, p in zip(tokens, outputs.logits[0].sigmoid()):\n"
        '    print(f"{token}: replaced with probability {p:.2f}")\n',
    ),
    "ElectraForMaskedLM": (
        'f"the chef {tokenizer.mask_token} the meal"',
        "at = (inputs.input_ids[0] == tokenizer.mask_token_id).nonzero()[0]\n"
        "likeliest = outputs.logits[0, at].topk(5).indices[0]\n"
        "print(tokenizer.convert_ids_to_tokens(likeliest))\n",
    ),
    "ElectraModel": (
        '"the chef ate the meal"',
        "print(outputs.last_hidden_state[0, 0])  # Of the whole text.\n",
    ),
    "ElectraForTokenClassification": (
        '"the chef ate the meal"',
        _TOKENS
        + "for token, i in zip(tokens, outputs.logits[0].argmax(-1).tolist()):"
        "\n    print(token, model.config.id2label[i])\n",
    ),
    "ElectraForQuestionAnswering": (
        '"who ate?", "the chef ate the meal"',
        "start, end = outputs.start_logits[0], outputs.end_logits[0]\n"
        "answer = inputs.input_ids[0, start.argmax() : end.argmax() + 1]\n"
        "print(tokenizer.decode(answer))\n",
    ),
}
_OF_TEXTS = {
    "classification": (
        "for i, p in enumerate(outputs.logits[0].softmax(-1)):\n"
        '    print(f"{model.config.id2label[i]}: {p:.3f}")\n'
    ),
    "multi_label_classification": (
        "for i, p in enumerate(outputs.logits[0].sigmoid()):\n"
        '    print(f"{model.config.id2label[i]}: {p:.3f}")\n'
    ),
    "regression": "print(outputs.logits[0, 0].item(){unit})\n",
}
# Of a tagger that does not read its words in the tokenizer's segment.
_SEGMENT = 'inputs["token_type_ids"] = {} * inputs["attention_mask"]\n'
# What asks the same of this package, in a shell.
_COMMANDS = {
    "ElectraForPreTraining": (
        "electra-tf detect --checkpoint={path} 'the chef ate the meal'\n"
        "electra-tf finetune --init_checkpoint={path} --train_file=train.tsv "
        "--dev_file=dev.tsv \\\n    --model_dir=models/mine"
    ),
    "ElectraForMaskedLM": (
        "electra-tf score --checkpoint={path} 'the chef ate the meal'"
    ),
    "ElectraModel": (
        "electra-tf export --kind=encoding --model_dir={path} "
        "--output=models/served"
    ),
}
_EXPORT = "electra-tf export --model_dir={path} --output=models/served"


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
      scores: Of the run, if there was one.
    """
    for part in hub_files.parts(folder):
        inside = os.path.relpath(part, folder)
        name = os.path.normpath(os.path.join(path, inside))
        text = card(checkpoint, part, name, source, notes, scores)
        write_atomically(os.path.join(part, CARD_FILE), text)


def card(
    checkpoint: Checkpoint,
    folder: str,
    path: str,
    source: str,
    notes: Sequence[str],
    scores: Scores | None,
) -> str:
    """The card of the model in a folder; `write` has the words."""
    config = read_json(os.path.join(folder, hub_files.CONFIG_FILE))
    (architecture,) = config["architectures"]
    head = checkpoint.head
    names = os.path.abspath(path).split(os.sep)
    is_part = names[-1] in hub_files.SUBDIRECTORIES
    title = "-".join(names[-2:] if is_part else names[-1:])
    metadata = _metadata(title, architecture, head, scores)
    sections = [
        f"# {title}\n\n{_TITLES[architecture]}\n\n"
        + _facts(checkpoint, config, source, notes)
    ]
    if scores is not None:
        sections.append(_score_section(scores))
    if checkpoint.vocabulary is not None:
        sections.append(_use_section(architecture, head, path))
    sections.append(_digest_section(folder))
    return (
        f"---\n{yaml.safe_dump(metadata, sort_keys=False, allow_unicode=True)}"
        "---\n\n" + "\n".join(sections)
    )


def _metadata(
    title: str,
    architecture: str,
    head: TaskHead | None,
    scores: Scores | None,
) -> dict:
    """What stands at the top of a card, for the hub."""
    found: dict = {"library_name": "transformers"}
    tag = _PIPELINE_TAGS.get(architecture)
    if tag:
        found["pipeline_tag"] = tag
    found["tags"] = ["electra", "electra_tf"]
    if head is not None and scores is not None:
        found["model-index"] = [
            {
                "name": title,
                "results": [
                    {
                        "task": {"type": tag},
                        "dataset": {
                            "name": scores.data,
                            "type": scores.data,
                            "split": split,
                        },
                        "metrics": [
                            {"type": name, "name": name, "value": value}
                            for name, value in metrics.items()
                        ],
                    }
                    for split, metrics in scores.by_split.items()
                ],
            }
        ]
    return found


def _facts(
    checkpoint: Checkpoint, config: dict, source: str, notes: Sequence[str]
) -> str:
    rows = [
        f"{config['num_hidden_layers']} layers, {config['hidden_size']} wide, "
        f"{config['num_attention_heads']} attention heads, feed-forward "
        f"{config['intermediate_size']}",
        f"embeddings {config['embedding_size']} wide, a vocabulary of "
        f"{config['vocab_size']} tokens, {config['max_position_embeddings']} "
        "positions",
    ]
    vocab = checkpoint.vocabulary
    if vocab is not None and vocab.do_lower_case is not None:
        rows.append(
            "text is lower-cased" if vocab.do_lower_case else "text is cased"
        )
    head = checkpoint.head
    if head is not None and head.labels:
        rows.append(f"labels: {', '.join(head.labels)}")
    if checkpoint.max_seq_length:
        rows.append(f"trained on {checkpoint.max_seq_length} tokens at most")
    if checkpoint.global_step:
        rows.append(f"trained for {checkpoint.global_step} steps")
    rows.append(
        f"converted from {source} by electra_tf {electra_tf.__version__}"
    )
    return "".join(f"* {row}\n" for row in (*rows, *notes))


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


def _use_section(architecture: str, head: TaskHead | None, path: str) -> str:
    if architecture == "ElectraForSequenceClassification":
        assert head is not None
        text, rest = '"the chef ate the meal"', _OF_TEXTS[head.kind]
        if head.has_pairs:
            text += ', "somebody ate"'
        if head.kind == "regression":
            least, scale = head.unit
            unit = f" * {scale} + {least}" if (least, scale) != (0, 1) else ""
            rest = rest.format(unit=unit)
    else:
        text, rest = _SNIPPETS[architecture]
    segment = ""
    if head is not None and head.kind == "tagging" and head.segment_of_words():
        segment = _SEGMENT.format(head.segment_of_words())
    start = _START.format(
        architecture=architecture, path=path, text=text, segment=segment
    )
    commands = _COMMANDS.get(architecture, _EXPORT).format(
        path=shlex.quote(path)
    )
    return (
        "## Use\n\nThe path is where the model was written, as seen from "
        "there.\n\n"
        f"```python\n{start}{rest}```\n\nIn TensorFlow, by electra_tf:\n\n"
        f"```sh\n{commands}\n```\n"
    )


def _digest_section(folder: str) -> str:
    rows = "".join(
        f"| `{name}` | `{sha256_of_file(os.path.join(folder, name))}` |\n"
        for name in sorted(os.listdir(folder))
        if name != CARD_FILE
    )
    return f"## Files\n\n| file | SHA-256 |\n| --- | --- |\n{rows}"
