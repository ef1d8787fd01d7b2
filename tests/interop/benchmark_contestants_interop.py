"""transformers and PyTorch as a contestant of tools/benchmarks/bench.py."""

import dataclasses
import math

import contest
import numpy as np
import pytest

from tests import helpers


def test_transformers_learns(tmp_path):
    rows = np.tile(np.arange(4, 12), [6, 1])
    np.savez(
        tmp_path / "rows.npz",
        input_ids=rows,
        input_mask=np.ones_like(rows),
        segment_ids=np.zeros_like(rows),
    )
    sizes = dataclasses.asdict(helpers.encoder_config())
    process = contest.Process(
        "transformers_training.train",
        {
            "discriminator": sizes,
            "generator": sizes,
            "special_ids": [0, 2, 3, 4],
            "masked_alone": True,
            "folder": str(tmp_path),
            "batch_size": 4,
            "learning_rate": 0.01,
            "is_bfloat16": False,
        },
    )
    answer = process(2)
    process.close()
    assert answer["seconds"] > 0
    assert answer["loss"] == pytest.approx(
        math.log(20) + 50 * math.log(2), rel=0.1
    )
