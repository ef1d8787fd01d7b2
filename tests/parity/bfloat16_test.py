"""The original's recordings against a model that computes in bfloat16.

bfloat16 has 8 bits: a product is off by up to 2^-8 of its terms, and a network
of some layers by a few times that. A sample whose margin is smaller than that
may be another one, so the discriminator's inputs are not those of the
recording, and losses are compared as means over all batches.
"""

import keras
import numpy as np
import pytest

from tests.parity import comparison, parity_test, pretraining_parity

# Of the root mean squares of errors and logits, of the greatest ones, and of
# the means of a loss. The greatest of 20,000 errors depends on how kernels of a
# CPU add up: 0.038 with AVX2 alone, where the bfloat16 instructions of others
# stay below 2^-5. Their mean square does not.
_LOGITS, _GREATEST_LOGIT, _LOSS = 2**-5, 2**-4, 2**-7
FOLDERS = sorted(
    path.parent
    for path in (parity_test.GOLDEN / "pretrain").glob("*/config.json")
)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_bfloat16_is_as_close_as_its_bits(folder, mixed_bfloat16):
    golden = pretraining_parity.Folder(folder)
    golden.load(0)
    assert keras.config.dtype_policy().compute_dtype == "bfloat16"
    outputs = golden.forward_all()
    recorded = golden.read("outputs.npz")
    compared = []
    for name, expected in recorded.items():
        found = [
            output[name.removeprefix("batch0_")]
            for output in outputs[: 1 if name.startswith("batch0_") else None]
            if name.removeprefix("batch0_") in output
        ]
        if not found:
            continue
        ours = np.stack(found) if not name.startswith("batch0_") else found[0]
        if name.endswith(("generator_logits", "cloze_logits")):
            error = _root_mean_square(ours - expected)
            assert error <= _LOGITS * _root_mean_square(expected), name
            error = comparison.relative_error(ours, expected)
            assert error < _GREATEST_LOGIT, name
        elif name in ("mlm_loss", "cloze_loss", "disc_loss", "total_loss"):
            assert ours.mean() == pytest.approx(expected.mean(), _LOSS), name
        else:
            continue
        compared.append(name)
    assert "total_loss" in compared


def _root_mean_square(values: np.ndarray) -> float:
    return float(np.sqrt(np.mean(np.square(values, dtype=np.float64))))
