"""Tests of command_line/original_hparams.py."""

import dataclasses
import json
import math
import operator
import re

import pytest

from electra_tf import configs, errors, model_directory, validation
from electra_tf.command_line import (
    gin_files,
    original_hparams,
    original_settings,
)
from electra_tf.finetuning import configs as finetuning_configs

# Registers QuestionAnsweringConfig for gin.
from electra_tf.finetuning import recipe  # noqa: F401
from tests import helpers, warm

GIN = helpers.ROOT / "gin"
TABLE_6 = {
    "small": {},
    "base": {"max_seq_length": 512, "learning_rate": 2e-4}
    | {"embedding_size": 768, "generator_hidden_size": 0.33333}
    | {"train_batch_size": 256, "num_train_steps": 766000},
    "large": {"max_seq_length": 512, "learning_rate": 2e-4}
    | {"embedding_size": 1024, "mask_prob": 0.25}
    | {"train_batch_size": 2048, "num_train_steps": 400000},
}


def load(configurable, bindings):
    return gin_files.load(configurable, [], bindings)


def pretraining(**hparams):
    bindings = original_hparams.pretraining(hparams, "data", "electra")
    return load(configs.PretrainingConfig, bindings)


def finetuning(**hparams):
    bindings = original_hparams.finetuning(hparams, "data", "electra")
    return load(finetuning_configs.FinetuningConfig, bindings)


def refusal(call, *args, **kwargs):
    with pytest.raises(errors.ConfigError) as caught:
        call(*args, **kwargs)
    return str(caught.value)


@pytest.mark.parametrize("size", TABLE_6)
def test_the_same_run_as_the_gin_file(size):
    of_gin = gin_files.load(
        configs.PretrainingConfig, [str(GIN / f"{size}.gin")]
    )
    found = pretraining(model_size=size, **TABLE_6[size])
    differences = validation.differences(
        dataclasses.asdict(found), dataclasses.asdict(of_gin)
    )
    # The original's own paths.
    names = [name for name, *_ in differences]
    assert names == ["data.train_files", "run.model_dir"]


TASK_FILES = sorted(
    path.stem
    for path in (GIN / "finetune").glob("*.gin")
    if re.search(r"'data/models/electra_small/finet", path.read_text())
    # Not tasks of the original.
    and path.stem not in ("ner", "pos", "wnli")
)


@pytest.mark.parametrize("name", TASK_FILES)
@pytest.mark.parametrize("size", original_settings.MODEL_SIZES)
def test_the_same_fine_tuning_as_the_gin_file(name, size):
    of_gin = gin_files.load(
        finetuning_configs.FinetuningConfig,
        [str(GIN / "finetune" / f"{name}.gin")],
    )
    width = original_settings.MODEL_SIZES[size]["hidden_size"]
    optimizer = recipe.complete(of_gin.optimizer, of_gin.recipe, width)
    of_gin = dataclasses.replace(of_gin, optimizer=optimizer)
    tasks = list(of_gin.data.task_names)
    found = finetuning(model_size=size, task_names=tasks)
    differences = validation.differences(
        dataclasses.asdict(found), dataclasses.asdict(of_gin)
    )
    allowed = {"expected_encoder", "run.model_dir", "init_checkpoint"}
    if of_gin.question_answering is None:
        allowed.add("question_answering")
    assert {name for name, *_ in differences} <= allowed


OVERRIDES = "model_hparam_overrides"
WIDER = {"hidden_size": 512, "hidden_act": None}
WIDER = {"model_size": "base", OVERRIDES: WIDER}


# Setting -> field -> value.
FIELDS = [
    ({"electric_objective": True}, "model.electra_objective", False),
    ({"electric_objective": True}, "model.two_tower_generator", True),
    (WIDER, "model.encoder.num_attention_heads", 512 // 64),
    (WIDER, "model.encoder.intermediate_size", 4 * 512),
    (WIDER, "model.encoder.embedding_size", 512),
    (WIDER, "model.encoder.hidden_act", "linear"),
    ({"debug": True, "num_train_steps": 7}, "run.num_train_steps", 7),
    ({"debug": True}, "data.train_batch_size", 8),
    ({"debug": True}, "model.encoder.num_hidden_layers", 3),
    ({"debug": True}, "model.encoder.hidden_size", 144),
    ({"keep_checkpoint_max": None}, "run.keep_checkpoint_max", 0),
    ({"keep_checkpoint_max": 0}, "run.keep_checkpoint_max", 0),
    ({"keep_checkpoint_max": 3}, "run.keep_checkpoint_max", 3),
    ({"use_tpu": True}, "run.distribution_strategy", "tpu"),
    ({"tpu_name": "mine"}, "run.tpu", "mine"),
    ({"vocab_file": "v.txt"}, "data.vocab_file", "v.txt"),
    ({"model_dir": "here"}, "run.model_dir", "here"),
]


@pytest.mark.parametrize(("hparams", "field", "value"), FIELDS)
def test_a_setting_is_a_field(hparams, field, value):
    assert operator.attrgetter(field)(pretraining(**hparams)) == value


def test_no_training_is_evaluation_alone():
    assert not finetuning(do_train=True).data.eval_only
    assert finetuning(do_train=False).data.eval_only


def test_the_vocabulary_of_all_models(tmp_path):
    def vocab_file(**hparams):
        bindings = original_hparams.finetuning(hparams, str(tmp_path), "m")
        config = load(finetuning_configs.FinetuningConfig, bindings)
        return config.data.vocab_file

    assert vocab_file() == ""
    (tmp_path / "vocab.txt").write_text("x")
    assert vocab_file() == str(tmp_path / "vocab.txt")
    # Whatever checkpoint it is for.
    assert vocab_file(init_checkpoint="c") == str(tmp_path / "vocab.txt")
    (tmp_path / "models/m").mkdir(parents=True)
    own = tmp_path / "models/m/vocab.txt"
    own.write_text("x")
    assert vocab_file() == ""
    assert vocab_file(init_checkpoint="c") == str(own)


@pytest.mark.parametrize(
    ("hparams", "expected"),
    [
        # Small is what the original builds if nothing else is said.
        ({}, {"hidden_size": 256, "num_hidden_layers": 12}),
        (
            {"model_size": "large", "embedding_size": None},
            {"hidden_size": 1024, "num_hidden_layers": 24}
            | {"embedding_size": 1024},
        ),
        (
            {"vocab_size": 4096}
            | {
                "model_hparam_overrides": {"hidden_size": 8, "hidden_act": None}
            },
            {"hidden_size": 8, "num_hidden_layers": 12, "vocab_size": 4096}
            | {"hidden_act": "linear"},
        ),
    ],
)
def test_what_is_said_of_the_encoder_is_expected_of_the_checkpoint(
    hparams, expected
):
    assert finetuning(**hparams).expected_encoder == expected


def test_says_what_has_no_effect():
    hparams = {"tpu_zone": "us", "do_lower_case": True, "results_txt": "r.txt"}
    with pytest.warns(errors.Notice) as notes:
        original_hparams.pretraining(hparams, "data", "m")
    first, second = (str(note.message) for note in notes)
    assert first.startswith("--hparams: tpu_zone='us' has no effect")
    assert "results_txt='r.txt'" in second


@pytest.mark.parametrize(
    ("call", "hparams", "match"),
    [
        (pretraining, {"generator_size": 1}, "mean generator_hidden_size?"),
        (finetuning, {"num_epochs": 1}, "mean num_train_epochs?"),
        (pretraining, {"model_size": "huge"}, "one of small, base, large"),
        (pretraining, {OVERRIDES: {"hiden_size": 8}}, "mean hidden_size?"),
        (pretraining, {OVERRIDES: {"hidden_act": "swish"}}, "hidden_act"),
        (finetuning, {OVERRIDES: {"hidden_size": "256"}}, "to a whole number."),
        (pretraining, {OVERRIDES: []}, "a JSON object"),
        (pretraining, {"do_eval": True}, "do_eval must be False"),
        (pretraining, {"do_train": False}, "do_train must be True"),
        (finetuning, {"init_checkpoint": ""}, "init_checkpoint must be text"),
        (finetuning, {"task_names": [1]}, "task_names must be a list of"),
        (finetuning, {"use_tpu": "false"}, "true or false. Received: use_tpu"),
        (pretraining, {"num_train_steps": True}, "must be a number"),
        (pretraining, {"learning_rate": math.inf}, "learning_rate"),
    ],
)
def test_refuses(call, hparams, match):
    assert match in refusal(call, **hparams)


@pytest.mark.filterwarnings("ignore::electra_tf.errors.Notice")
@pytest.mark.parametrize("call", [pretraining, finetuning])
def test_no_value_ends_in_a_traceback(call):
    table = {
        pretraining: original_settings.PRETRAINING,
        finetuning: original_settings.FINETUNING,
    }[call]
    values = [None, True, -1, 0, 0.5, 10**18, 10**400, "x", "", [], [1], {}]
    refused = 0
    for name in table:
        for value in [*values, {"x": 1}]:
            try:
                call(**{name: value})
            except errors.ConfigError as error:
                assert "\n" not in str(error)
                refused += 1
    assert refused > 5 * len(table)


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ('{"a": 1, "a": 2}', "the name 'a' twice"),
        (f'{{"a": -1{5000 * "0"}}}', "digits"),
        ("[]", "[]"),
        ('{"a": 1', "delimiter: line 1 column 8"),
        ("nowhere.json", "No such file"),
    ],
)
def test_refuses_what_is_no_json(text, match):
    message = refusal(original_hparams.read, text)
    assert match in message and message.startswith("Expected a JSON object")


def run(module, *flags):
    return warm.execute("-m", f"electra_tf.{module}", *flags)


def test_the_tasks_of_a_flag_bring_their_own_values(tmp_path):
    model_dir = tmp_path / "models/m/finetuning_models/squad_model"
    (model_dir / "trial_1").mkdir(parents=True)
    (model_dir / "trial_1/checkpoint").write_text("")
    record = model_directory.as_dict(finetuning(task_names=["squad"]))
    record["data"] |= {"max_seq_length": 7, "num_train_epochs": 7.0}
    (model_dir / "config.json").write_text(json.dumps(record))
    result = run(
        "run_finetuning",
        *("--hparams={}", f"--data-dir={tmp_path}", "--model-name=m"),
        "--task-names=squad",
    )
    assert result.returncode == 1
    differences = "max_seq_length=512 (was 7), data.num_train_epochs=2.0 (was"
    assert differences in result.stderr


@pytest.mark.dear
def test_a_command_line_of_the_original(tmp_path):
    (tmp_path / "pretrain_tfrecords").mkdir()
    helpers.write_tfrecords(
        tmp_path / "pretrain_tfrecords/pretrain_data.tfrecord-0",
        map(helpers.row, range(8)),
    )
    helpers.write_vocab(tmp_path)
    hparams = {
        "vocab_size": len(helpers.VOCAB),
        "max_seq_length": helpers.LENGTH,
        "train_batch_size": 2,
        "num_train_steps": 1,
        OVERRIDES: {"hidden_size": 8, "num_hidden_layers": 1},
    }
    result = run(
        "run_pretraining",
        *("--data-dir", tmp_path, "--model-name", "m"),
        *("--hparams", json.dumps(hparams)),
    )
    assert result.returncode == 0, result.stderr
    model_dir = tmp_path / "models/m"
    assert result.stdout.endswith(f"pre-trained model: {model_dir}\n")
    assert "a training of one step learns nothing, as a wa" in result.stderr
    (line,) = (model_dir / "runs.jsonl").read_text().splitlines()
    flags = [f"--hparams={json.dumps(hparams)}", "--model_name=m"]
    assert json.loads(line)["flags"] == [*flags, f"--data_dir={tmp_path}"]


def documented(section: str) -> dict[str, str]:
    """Setting -> its row of a table in docs/guides/from-electra.md."""
    page = helpers.ROOT / "docs/guides/from-electra.md"
    _, _, text = page.read_text(encoding="utf-8").partition(f"### {section}\n")
    rows = re.findall(r"^\| (`.*?`) \| (.*\|)$", text.split("###")[0], re.M)
    return {
        name: row.replace("`", "")
        for names, row in rows
        for name in re.findall(r"\w+", names)
    }


@pytest.mark.parametrize(
    ("command", "hparams"),
    [
        ("run_pretraining", original_settings.PRETRAINING),
        ("run_finetuning", original_settings.FINETUNING),
    ],
)
def test_every_setting_is_documented(command, hparams):
    rows = documented("Both commands") | documented(f"`{command}`")
    assert set(rows) == set(hparams)
    for name, hparam in hparams.items():
        here = rows[name].split("|")[0].strip()
        if here.endswith(", same name"):
            here = f"{here.removesuffix(', same name')}.{name}"
        assert here == (hparam.parameter or "none")


def test_reads_json_and_files(tmp_path):
    assert original_hparams.read(' {"mask_prob": 0.2}') == {"mask_prob": 0.2}
    path = tmp_path / "hparams.json"
    path.write_text('{"mask_prob": 0.3}', encoding="utf-8-sig")
    assert original_hparams.read(str(path)) == {"mask_prob": 0.3}
    path.write_text("[1]")
    assert f"{path} (found [1])" in refusal(original_hparams.read, str(path))
