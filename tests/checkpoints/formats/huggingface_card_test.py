"""Tests of checkpoints/formats/huggingface_card.py and of run_scores.py."""

import hashlib
import json

import huggingface_hub
import pytest

from electra_tf.checkpoints import run_scores
from electra_tf.checkpoints.formats import huggingface
from electra_tf.checkpoints.run_scores import Scores
from tests.checkpoints import cards, models

SCORES = Scores(
    {"dev": {"accuracy": 66.25, "loss": 0.5}, "test": {"accuracy": 61.0}},
    "letters",
    "Of trial 2 of 3. Rows: dev 5, test 6.",
)


def test_a_fine_tuned_model(tmp_path):
    folder = tmp_path / "my model"
    (text,) = cards.write(models.finetuned(), folder, SCORES).values()
    data = huggingface_hub.ModelCard(text).data
    assert data.library_name == "transformers"
    assert data.pipeline_tag == "text-classification"
    assert data.model_name == "my model"
    assert [
        (r.dataset_name, r.dataset_split, r.metric_type, r.metric_value)
        for r in data.eval_results
    ] == [
        ("letters", "dev", "accuracy", 66.25),
        ("letters", "dev", "loss", 0.5),
        ("letters", "test", "accuracy", 61.0),
    ]
    assert (
        "\n| letters | dev | test |\n| --- | ---: | ---: |\n"
        "| accuracy | 66.25 | 61 |\n| loss | 0.5 |  |\n"
    ) in text
    assert "* 2 layers, 8 wide, 2 attention heads, feed-forward 16\n" in text
    assert "* text is lower-cased\n" in text
    weights = (folder / "model.safetensors").read_bytes()
    digest = hashlib.sha256(weights).hexdigest()
    assert f"| `model.safetensors` | `{digest}` |\n" in text
    assert "README.md" not in text
    assert f"--model_dir='{folder}'" in text


def test_a_generator_and_its_discriminator(tmp_path):
    found = cards.write(models.pretrained(), tmp_path / "both")
    assert set(found) == {"generator", "discriminator"}
    for part, text in found.items():
        assert f"\n# both-{part}\n" in text
        assert f"{tmp_path}/both/{part}" in text
        assert "Scores" not in text
    tag = huggingface_hub.ModelCard(found["generator"]).data.pipeline_tag
    assert tag == "fill-mask"


@pytest.mark.parametrize("kind", cards.OF_EACH_KIND)
def test_a_snippet_is_python(tmp_path, kind):
    """That it runs is in tests/interop/huggingface_card_interop.py."""
    checkpoint = cards.OF_EACH_KIND[kind]()
    for part, text in cards.write(checkpoint, tmp_path / "m").items():
        compile(cards.snippet(text), part, "exec")


def test_a_snippet_computes_what_the_head_has_learned(tmp_path):
    for kind, line in (
        ("tagging", 'inputs["token_type_ids"] = 1 * inputs["attention_mask"]'),
        ("regression", "print(outputs.logits[0, 0].item() * 4.0 + 1.0)"),
    ):
        checkpoint = cards.OF_EACH_KIND[kind]()
        (text,) = cards.write(checkpoint, tmp_path / kind).values()
        assert line in cards.snippet(text).splitlines()
        for note in huggingface.notes(checkpoint):
            assert f"* {note}\n" in text
    theirs = models.finetuned("tagging", settings={"segment": 0})
    (text,) = cards.write(theirs, tmp_path / "theirs").values()
    assert "token_type_ids" not in text


def test_without_a_vocabulary_there_is_nothing_to_run(tmp_path):
    checkpoint = models.finetuned(vocabulary=None)
    (text,) = cards.write(checkpoint, tmp_path / "m").values()
    assert "```" not in text


RESULTS = {
    "task": "letters",
    "best_on_dev": 2,
    "num_rows": {"train": 9, "dev": 5},
    "trials": [
        {"trial": 1, "dev": {"accuracy": 50.0}},
        {"trial": 2, "dev": {"accuracy": 60.0, "name": "no number"}},
    ],
}


def test_the_scores_of_a_run(tmp_path):
    for name in ("trial_1", "trial_2/best"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "results.json").write_text(json.dumps(RESULTS))
    found = run_scores.read(tmp_path)
    assert found == Scores(
        {"dev": {"accuracy": 60.0}},
        "letters",
        "Of trial 2 of 2. Rows: train 9, dev 5. The trial was chosen by its "
        "score on dev.",
    )
    found = run_scores.read(tmp_path / "trial_1")
    assert found.by_split == {"dev": {"accuracy": 50.0}}
    assert found.about == "Of trial 1 of 2. Rows: train 9, dev 5."
    assert run_scores.read(tmp_path / "trial_1" / "model.ckpt-3") == found
    # Weights of another step.
    assert run_scores.read(tmp_path / "trial_2" / "best") is None


def write_results(folder, **changes):
    text = json.dumps(RESULTS | changes)
    (folder / "results.json").write_text(text)


def test_a_trial_with_patience_has_the_scores_of_its_best_step(tmp_path):
    best = tmp_path / "trial_2" / "best"
    best.mkdir(parents=True)
    trial = {"trial": 2, "best_step": 60, "last_step": 90, "dev": {"f1": 7.0}}
    write_results(tmp_path, trials=[trial])
    (best / "eval_results.json").write_text('{"step": 60, "dev_score": 7.0}')
    found = run_scores.read(best, 60)
    assert found.data == "letters"
    assert found.by_split == {"dev": {"f1": 7.0}}
    assert run_scores.read(tmp_path / "trial_2", 60) == found
    assert run_scores.read(tmp_path / "trial_2" / "model.ckpt-90", 90) is None
    # Never finite: the last weights are the model.
    write_results(tmp_path, trials=[trial | {"best_step": None}])
    assert run_scores.read(best, 60) is None
    assert run_scores.read(tmp_path / "trial_2" / "model.ckpt-90", 90)


def test_folds_and_several_tasks(tmp_path):
    trials = [trial | {"fold": trial["trial"]} for trial in RESULTS["trials"]]
    write_results(tmp_path, trials=trials, num_folds=2)
    assert run_scores.read(tmp_path).about == (
        "Of trial 2 of 2. On dev of fold 2 of 2. The trial was chosen by its "
        "score on dev."
    )
    tasks = {
        n: {"task": n, "num_rows": {"dev": 5}} for n in ("words", "letters")
    }
    scores = {"words": {"dev": {"f1": 3.0}}, "letters": {"dev": {"f1": 60.0}}}
    write_results(tmp_path, tasks=tasks, trials=[{"trial": 2, "tasks": scores}])
    # The first by name.
    assert run_scores.read(tmp_path) == Scores(
        {"dev": {"f1": 60.0}}, "letters", "Of trial 2 of 1. Rows: dev 5."
    )


def test_the_scores_of_pretraining(tmp_path):
    (tmp_path / "eval_results.json").write_text('{"step": 5, "disc_auc": 0.7}')
    assert run_scores.read(tmp_path) == Scores(
        {"held-out": {"disc_auc": 0.7}},
        "pre-training",
        "Of held-out examples, at step 5.",
    )
    assert run_scores.read(tmp_path, 5) == run_scores.read(tmp_path)
    # Of a checkpoint before.
    assert run_scores.read(tmp_path, 4) is None
    # Whatever its folder is called.
    (tmp_path / "config.json").write_text("{}")
    other = tmp_path.rename(tmp_path.with_name("trial_1"))
    assert run_scores.read(other, 5)


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"trials": 3}'])
def test_no_scores(tmp_path, content):
    assert run_scores.read(tmp_path) is None
    (tmp_path / "results.json").write_text(content)
    assert run_scores.read(tmp_path) is None
