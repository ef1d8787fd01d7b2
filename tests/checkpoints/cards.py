"""Models of transformers with their cards, of every kind."""

import re

from electra_tf.checkpoints.formats import huggingface
from tests.checkpoints import models

# Class there -> how to make one.
OF_EACH_KIND = {
    "ElectraForPreTraining": models.pretrained,
    "ElectraModel": lambda: models.pretrained().encoder_only(),
    "classification": models.finetuned,
    "multi_label_classification": lambda: models.finetuned(
        "multi_label_classification"
    ),
    "regression": lambda: models.finetuned(
        "regression", 1, {"options": {"min_value": 1.0, "scale": 4.0}}
    ),
    "tagging": lambda: models.finetuned("tagging"),
    "question_answering": lambda: models.finetuned("question_answering"),
}


def write(checkpoint, folder) -> dict[str, str]:
    """Writes models; returns the text of each card, by its folder."""
    huggingface.write(checkpoint, str(folder))
    huggingface.write_card(checkpoint, str(folder), str(folder), "a toy")
    return {
        str(path.parent.relative_to(folder)): path.read_text()
        for path in folder.rglob("README.md")
    }


def snippet(card: str) -> str:
    """The lines of Python in a card."""
    (found,) = re.findall(r"```python\n(.*?)```", card, re.DOTALL)
    return found
