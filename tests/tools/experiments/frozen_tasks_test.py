"""Tests of frozen_tasks.py and frozen_figures.py."""

import json
import pathlib

import frozen_figures
import frozen_tasks
import numpy as np
import pytest


@pytest.mark.dear
@pytest.mark.parametrize("metric", ["accuracy", "mcc", "spearman"])
def test_a_linear_model_reads_what_is_there(metric):
    draw = np.random.default_rng(0)
    vectors = draw.normal(size=(200, 4)).astype(np.float32)
    values = vectors[:, 0]
    if metric != "spearman":
        values = (values > 0).astype(np.int32)
    rows = vectors, values
    assert frozen_tasks.score(metric, rows, rows) > 95.0
    shuffled = vectors, draw.permutation(values)
    # Half of the labels are right by chance; the others are 0 by chance.
    chance = 50.0 if metric == "accuracy" else 0.0
    assert frozen_tasks.score(metric, shuffled, rows) - chance < 30.0


@pytest.fixture
def encoder_dir(tmp_path):
    import electra_tf

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "c", "d"]
    (tmp_path / "vocab.txt").write_text("".join(f"{w}\n" for w in words))
    preprocessor = electra_tf.Preprocessor(str(tmp_path / "vocab.txt"))
    encoder = electra_tf.Encoder(
        vocab_size=len(words),
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=128,
    )
    encoder(preprocessor(["a"]))
    encoder.save_checkpoint(str(tmp_path / "model"), preprocessor=preprocessor)
    return str(tmp_path / "model")


def _write_cola(folder: pathlib.Path) -> None:
    folder.mkdir(parents=True)
    rows = {"train": 40, "dev": 20}
    for split, num in rows.items():
        texts = ["a b a" if row % 2 else "c d" for row in range(num)]
        lines = [f"x\t{n % 2}\t\t{text}" for n, text in enumerate(texts)]
        (folder / f"{split}.tsv").write_text("\n".join(lines) + "\n")


@pytest.mark.dear
@pytest.mark.parametrize("pooling", frozen_tasks.POOLINGS)
def test_checkpoints_and_random_weights(encoder_dir, tmp_path, capsys, pooling):
    _write_cola(tmp_path / "data" / "finetuning_data" / "cola")
    output = tmp_path / "frozen.json"
    flags = [f"--data-dir={tmp_path}/data", f"--output={output}"]
    code = frozen_tasks.main(
        [encoder_dir, "--task", "cola", f"--pooling={pooling}", *flags]
    )
    printed = capsys.readouterr()
    assert code == 0, printed.err
    scores = json.loads(output.read_text())
    # Words alone tell the two kinds apart; [CLS] sees them from afar.
    assert scores[encoder_dir] == {"cola": 100.0}
    assert list(scores) == [encoder_dir, "random weights"]
    assert "cola mcc 100.0" in printed.out


@pytest.mark.dear
def test_a_mean_counts_no_padding(encoder_dir):
    import electra_tf

    encoder = electra_tf.Encoder.from_checkpoint(encoder_dir)
    preprocessor = electra_tf.Preprocessor.from_checkpoint(encoder_dir)
    features = {k: v.numpy() for k, v in preprocessor(["a b", "c"]).items()}
    outputs = encoder(preprocessor(["c"]), return_layers=True)
    vectors = np.concatenate(
        [outputs["embedding_output"][0], outputs["sequence_output"][0]], -1
    )
    for pooling, expected in (("mean", vectors.mean(0)), ("cls", vectors[0])):
        found = frozen_tasks.read(encoder, features, pooling)
        np.testing.assert_allclose(found[1], expected, rtol=1e-4, atol=1e-5)


def test_a_missing_folder_is_one_line(tmp_path, capsys):
    assert frozen_tasks.main([str(tmp_path / "none"), "--task", "sts"]) == 1
    lines = capsys.readouterr().err.strip().splitlines()
    assert lines[-1].startswith("frozen_tasks: error: ")
    assert str(tmp_path / "none") in lines[-1]


_FIGURES = {
    "rows": [
        {
            "row": "ELECTRA",
            "budget_flops": 9.6e13,
            "seed": 2,
            "frozen": dict.fromkeys(frozen_tasks.TASKS, 12.34),
        }
    ],
    "stages": [
        {"step": 0, "disc_auc": None, "fine_tuned": 1, "mean": 2, "cls": 3},
        {"step": 4500, "disc_auc": 0.7, "fine_tuned": 4, "mean": 5, "cls": 6},
    ],
}


def test_tables():
    tables = frozen_figures.blocks(_FIGURES)
    row = [cell.strip() for cell in tables["frozen"].splitlines()[2].split("|")]
    assert row[1:-1] == ["ELECTRA", "9.6e13", "2", *["12.3"] * 5]
    stages = [
        [cell.strip() for cell in line.split("|")][1:-1]
        for line in tables["frozen-stages"].splitlines()[2:]
    ]
    assert stages == [
        ["random weights", "", "1.0", "2.0", "3.0"],
        ["4,500", "0.700", "4.0", "5.0", "6.0"],
    ]


def test_plot(tmp_path):
    path = tmp_path / "stages.png"
    frozen_figures.draw(_FIGURES, str(path))
    assert path.read_bytes().startswith(b"\x89PNG")
