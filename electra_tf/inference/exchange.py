"""What is exchanged with an exported model: lines -> texts, answers -> lines.

Imports no TensorFlow.
"""

import json
from collections.abc import Sequence

from electra_tf import files
from electra_tf.command_line import text_lines
from electra_tf.command_line.text_lines import Line

# What the inputs of exported models are called, in the order of a line.
INPUT_NAMES = ("text", "text_pair", "question", "context")


def refuse_object(line: Line, names: Sequence[str]) -> None:
    """Refuses a line of text that is a JSON object with the model's inputs."""
    try:
        content = json.loads(line.content)
    except (ValueError, RecursionError):
        return
    if isinstance(content, dict) and content.keys() >= set(names):
        raise ValueError(
            f"{line.place}: expected a text. Received: a JSON object with "
            f"{', '.join(names)}: --input-format=jsonl reads such lines, "
            "--input-format=text takes them for texts"
        )


def parse_line(line: Line, names: Sequence[str], is_json: bool) -> list[bytes]:
    """The texts of one line, as bytes, one for each name.

    Raises:
      ValueError: If it has other texts than these.
    """
    named, shown = ", ".join(names), repr(text_lines.decode(line.content)[:60])
    if not is_json:
        texts = line.content.split(b"\t")
        if len(texts) == len(names):
            return texts
        raise ValueError(
            f"{line.place}: expected {len(names)} text(s), {named}, separated "
            f"by a tab. Received: {len(texts)}, {shown}"
        )
    others = set(INPUT_NAMES).difference(names)
    try:
        row = json.loads(line.content, object_pairs_hook=files.each_once)
        if not others.intersection(n for n in row if row[n] is not None):
            # JSON can hold what is no character.
            return [row[name].encode("utf-8") for name in names]
    except (ValueError, RecursionError, LookupError, TypeError, AttributeError):
        pass
    raise ValueError(
        f"{line.place}: expected a JSON object with the text(s) {named}, each "
        f"once and no other. Received: {shown}"
    ) from None


def as_lines(answer: dict, input_names: Sequence[str]) -> list[str]:
    """An answer of `predictor.ExportedModel`: the texts, a line an output."""
    texts = (text_lines.printable(answer[name]) for name in input_names)
    outputs = {n: v for n, v in answer.items() if n not in input_names}
    width = max(map(len, outputs), default=0)
    return [
        " | ".join(texts),
        *(
            f"  {name:{width}}  {text_lines.printable(_readable(value))}"
            for name, value in outputs.items()
        ),
    ]


def _readable(value) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, dict):
        best = sorted(value.items(), key=lambda item: -item[1])
        return ", ".join(f"{name} {_readable(score)}" for name, score in best)
    if isinstance(value, list):
        return ", ".join(map(_readable, value))
    return str(value)
