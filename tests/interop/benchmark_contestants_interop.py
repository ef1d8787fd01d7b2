"""transformers and PyTorch as a contestant of tools/benchmarks/training.py."""

import math
import sys

import numpy as np
import pytest

from tests import helpers
from tools.benchmarks import transformers_worker


def test_transformers_learns(tmp_path):
    rows = np.tile(np.arange(4, 12), [6, 1])
    np.savez(
        tmp_path / "rows.npz",
        input_ids=rows,
        input_mask=np.ones_like(rows),
        segment_ids=np.zeros_like(rows),
    )
    sizes = transformers_worker.sizes(helpers.encoder_config())
    worker = transformers_worker.Worker(
        sys.executable,
        discriminator=sizes,
        generator=sizes,
        special_ids=[0, 2, 3, 4],
        masked_alone=True,
        rows=str(tmp_path / "rows.npz"),
        batch_size=4,
        learning_rate=0.01,
        is_bfloat16=False,
    )
    assert worker(2) > 0
    worker.close()
    assert worker.losses[0] == pytest.approx(
        math.log(20) + 50 * math.log(2), rel=0.1
    )
