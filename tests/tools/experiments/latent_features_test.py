"""Tests of latent_features.py."""

import latent_features
import numpy as np
import pytest

from electra_tf import configs
from tests import helpers


@pytest.fixture
def reader(tmp_path):
    pattern = helpers.write_tfrecords(
        tmp_path / "a.tfrecord", [helpers.row(n) for n in range(30)]
    )
    data = configs.PretrainingDataConfig(pattern, helpers.write_vocab(tmp_path))
    return latent_features.Reader(
        configs.PretrainingConfig(
            model=helpers.electra_config(),
            data=data,
            optimizer=configs.OptimizerConfig(1e-3),
            run=helpers.run_config(tmp_path),
        )
    )


def test_a_text_is_the_mean_of_its_tokens(reader, monkeypatch):
    first, second, third = helpers.VOCAB[5:8]
    alone = reader.read([first, second, third])
    np.testing.assert_allclose(np.linalg.norm(alone, axis=1), 1.0, rtol=1e-5)
    monkeypatch.setattr(latent_features, "_BATCH", 2)
    done = []
    text = f"{first} {second} {second}"
    found = reader.read([text, "", f"{third} {first}"], done.append)
    np.testing.assert_allclose(
        found,
        [
            (alone[0] + 2 * alone[1]) / 3,
            np.zeros(alone.shape[1]),
            (alone[2] + alone[0]) / 2,
        ],
        atol=1e-6,
    )
    assert done == [2, 3]
