"""Which way a metric is better, which Keras's callbacks ask of it."""

from typing import TypeVar

import keras

M = TypeVar("M", bound=keras.metrics.Metric)

# Parts of the names of what is better where it is less.
_ERRORS = ("loss", "error", "mse")
# Better neither way.
_NEITHER = ("rate", "norm", "scale")


def directed(metric: M) -> M:
    """The metric, with the direction that its name tells."""
    if not metric.name.endswith(_NEITHER):
        is_error = any(part in metric.name for part in _ERRORS)
        metric._direction = "down" if is_error else "up"
    return metric
