"""How far our arrays are from golden ones, for all parity modules."""

import json
import pathlib

import numpy as np

# One layer or one forward pass, relative to the largest entry of an array.
FORWARD_TOLERANCE = 1e-5
# Gradients, and everything that comes out of several updates.
TRAINING_TOLERANCE = 1e-4
# A case records how far its own numbers move when every initial weight is
# multiplied by 1 + 1e-7 * N(0, 1); so many times that is rounding as well.
SENSITIVITIES = 5.0


def read_json(path: pathlib.Path):
    return json.loads(path.read_text(encoding="utf-8"))


def read_npz(path: pathlib.Path) -> dict[str, np.ndarray]:
    with np.load(path) as arrays:
        return {name: arrays[name] for name in arrays.files}


def magnitude(array) -> float:
    """The largest finite entry of an array, without its sign."""
    array = np.asarray(array, np.float64)
    finite = np.abs(array[np.isfinite(array)])
    return float(finite.max()) if finite.size else 0.0


def absolute_error(ours, golden) -> float:
    """The largest difference; infinite where shapes or infinities differ."""
    ours = np.asarray(ours, np.float64)
    golden = np.asarray(golden, np.float64)
    if ours.shape != golden.shape:
        return float("inf")
    infinite = ~np.isfinite(golden)
    if not np.array_equal(ours[infinite], golden[infinite]):
        return float("inf")
    difference = np.abs(ours[~infinite] - golden[~infinite])
    # A NaN of ours stays one, and a NaN passes no check.
    return float(difference.max()) if difference.size else 0.0


def relative_error(ours, golden) -> float:
    """The largest difference as a share of the largest golden entry."""
    return absolute_error(ours, golden) / (magnitude(golden) or 1.0)


def num_different(ours, golden, where=None) -> float:
    """How many entries differ, among those `where` says count."""
    ours, golden = np.asarray(ours), np.asarray(golden)
    if ours.shape != golden.shape:
        return float("inf")
    different = ours != golden
    if where is not None:
        different &= where
    return float(np.count_nonzero(different))


def close_call(logits, predictions, tolerance=FORWARD_TOLERANCE) -> np.ndarray:
    """Whether a prediction's logit is the best but for the tolerance."""
    chosen = np.take_along_axis(logits, predictions[..., np.newaxis], -1)
    gap = logits.max(axis=-1) - chosen[..., 0]
    return (gap > 0) & (gap <= tolerance * magnitude(logits))
