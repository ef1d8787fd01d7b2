"""A checkpoint that the original trained, converted and run by transformers.

    ELECTRA_TF_GOLDEN=/path/to/golden make test-interop

compares with what the original itself predicted.
"""

import json
import os
import pathlib

import numpy as np
import pytest

from electra_tf.checkpoints import reading, verify
from electra_tf.checkpoints.formats import huggingface
from electra_tf.tasks import by_name
from tests import helpers
from tools import convert_checkpoint

GOLDEN = pathlib.Path(os.environ.get("ELECTRA_TF_GOLDEN") or "nowhere")
REAL = GOLDEN / "real_checkpoint"


@pytest.mark.skipif(
    not REAL.is_dir(), reason="ELECTRA_TF_GOLDEN has no real_checkpoint"
)
def test_predicts_what_the_original_predicted(tmp_path):
    info = helpers.read_json(REAL / "info.json")
    arguments = info["finetuning_hparams"]
    vocab_file = str(REAL / info["vocab"])
    settings = tmp_path / "hparams.json"
    settings.write_text(json.dumps(arguments | {"vocab_size": 30522}))
    for source, output, name, flags in (
        (
            REAL / f"finetuned.ckpt-{info['finetuning_steps']}",
            tmp_path / "ours",
            "electra_tf",
            [
                f"--hparams={settings}",
                f"--vocab-file={vocab_file}",
                "--do-lower-case=true",
            ],
        ),
        (tmp_path / "ours", tmp_path / "theirs", "huggingface", []),
    ):
        assert not convert_checkpoint.main(
            [
                f"--input={source}",
                f"--output={output}",
                f"--output-format={name}",
                *flags,
            ]
        )
    checkpoint = reading.read_checkpoint(tmp_path / "theirs")
    tokenizer = helpers.make_tokenizer(tmp_path / "theirs" / "vocab.txt")
    (task_name,) = arguments["task_names"]
    task = by_name.get_task(task_name, REAL / "finetuning_data" / task_name)
    for split in ("dev", "test"):
        features = task.features(
            task.read_examples(split), tokenizer, arguments["max_seq_length"]
        )
        golden = np.load(REAL / f"finetune_{split}_predictions.npz")["logits"]
        for forward, subject in (
            (huggingface.forward, str(tmp_path / "theirs")),
            (verify.forward, checkpoint),
        ):
            logits = forward(subject, features)["logits"]
            (difference,) = verify.compare(
                {"logits": golden}, {"logits": logits}, features["input_mask"]
            )
            print(split, forward.__module__, difference)
            assert difference.fits, difference
