"""metrics.jsonl of a model directory; imports no TensorFlow."""

import json
import os

from electra_tf.command_line import write_atomically

METRICS_FILE = "metrics.jsonl"


class MetricsLog:
    """metrics.jsonl: one line per look at the run.

    Args:
      model_dir: Where the file is.
      first_step: Lines of later steps are dropped: a run that was killed and
        resumed from an earlier checkpoint writes them again.
    """

    def __init__(self, model_dir: str, first_step: int):
        self.path = os.path.join(model_dir, METRICS_FILE)
        kept = [r for r in read_metrics(self.path) if r["step"] <= first_step]
        write_atomically(
            self.path, "".join(json.dumps(record) + "\n" for record in kept)
        )

    def is_best(self, step: int, metric: str, value: float) -> bool:
        """Whether no evaluation before a step was as good.

        Args:
          step: Of the evaluation.
          metric: Lower is better where its name ends in "loss".
          value: What was found.
        """
        sign = -1 if metric.endswith("loss") else 1
        return all(
            sign * value > sign * record[metric]
            for record in read_metrics(self.path)
            if record["split"] == "heldout"
            and record["step"] < step
            and metric in record
        )

    def write(self, step: int, split: str, metrics: dict[str, float]) -> None:
        record = {"step": step, "split": split} | metrics
        with open(self.path, "a", encoding="utf-8") as f:
            f.write(json.dumps(record) + "\n")


def read_metrics(path: str) -> list[dict]:
    """Lines of a metrics.jsonl; a last line that was cut short is left out."""
    records = []
    if os.path.exists(path):
        with open(path, encoding="utf-8") as f:
            for line in f:
                try:
                    records.append(json.loads(line))
                except json.JSONDecodeError:
                    break
    return records
