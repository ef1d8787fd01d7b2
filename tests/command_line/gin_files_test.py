"""Tests of command_line/gin_files.py and of the files in gin/."""

import dataclasses
import math

import gin
import pytest
import tensorflow as tf

from electra_tf import configs, errors
from electra_tf.command_line import gin_files as gin_files_lib
from electra_tf.finetuning import configs as finetuning_configs
from electra_tf.model import ablations, costs, masking
from tests import helpers

ROOT = helpers.ROOT
GIN = ROOT / "gin"

# Table 6 of arXiv:2003.10555; sequence lengths and disc_weight from the text.
TABLE_6 = {
    #                         small,  base,    large
    "num_hidden_layers": (12, 12, 24),
    "hidden_size": (256, 768, 1024),
    "intermediate_size": (1024, 3072, 4096),
    "num_attention_heads": (4, 12, 16),
    "attention head size": (64, 64, 64),
    "embedding_size": (128, 768, 1024),
    "generator_hidden_size": (1 / 4, 1 / 3, 1 / 4),
    "mask_prob": (0.15, 0.15, 0.25),
    "lr_decay_power": (1.0, 1.0, 1.0),
    "num_warmup_steps": (10000, 10000, 10000),
    "learning_rate": (5e-4, 2e-4, 2e-4),
    "epsilon": (1e-6, 1e-6, 1e-6),
    "beta_1": (0.9, 0.9, 0.9),
    "beta_2": (0.999, 0.999, 0.999),
    "attention_probs_dropout_prob": (0.1, 0.1, 0.1),
    "hidden_dropout_prob": (0.1, 0.1, 0.1),
    "weight_decay_rate": (0.01, 0.01, 0.01),
    "train_batch_size": (128, 256, 2048),
    "num_train_steps": (1000000, 766000, 400000),
    "max_seq_length": (128, 512, 512),
    "disc_weight": (50.0, 50.0, 50.0),
    "vocab_size": (30522, 30522, 30522),
}

PRETRAINING = f"{helpers.GIN}RunConfig.model_dir = 'model'\n"


@pytest.fixture
def gin_file(tmp_path):
    path = tmp_path / "run.gin"
    path.write_text(PRETRAINING)
    return path


def load(*gin_files, params=()):
    return gin_files_lib.load(
        configs.PretrainingConfig, [str(path) for path in gin_files], params
    )


def refusal(*gin_files, params=()):
    with pytest.raises(errors.ConfigError) as caught:
        load(*gin_files, params=params)
    return str(caught.value)


@pytest.mark.parametrize(
    ("column", "size"), enumerate(["small", "base", "large"])
)
def test_equals_table_6(column, size):
    config = load(GIN / f"{size}.gin")
    model, encoder = config.model, config.model.encoder
    width, heads = encoder.hidden_size, encoder.num_attention_heads
    found = {"attention head size": width // heads}
    for part in (encoder, model, config.optimizer, config.data, config.run):
        found |= {n: getattr(part, n) for n in TABLE_6 if hasattr(part, n)}
    expected = {name: values[column] for name, values in TABLE_6.items()}
    assert found == pytest.approx(expected, rel=2e-5)


@pytest.mark.parametrize(
    ("name", "num_variables", "num_parameters"),
    [
        ("small.gin", 402, 14_196_219),
        ("base.gin", 400, 119_386_427),
        pytest.param("large.gin", 784, 354_655_291, marks=pytest.mark.dear),
    ],
)
def test_the_models_are_those_of_the_original(
    name, num_variables, num_parameters
):
    """Trainable variables of the graphs that the original builds."""
    config = load(GIN / name).model
    with tf.Graph().as_default():  # Shapes alone, no values.
        model = ablations.make_model(
            config, masking.SpecialIds(cls=101, sep=102, mask=103)
        )
    shapes = [tuple(v.shape) for v in model.trainable_variables]
    assert len(shapes) == num_variables
    assert sum(map(math.prod, shapes)) == num_parameters
    assert costs.num_parameters(ablations.networks(config)) == num_parameters


@pytest.mark.parametrize(
    "name",
    ["small", "base", "large", "quickstart", "quickstart_finetuning"],
)
def test_the_operative_config_parses_back(tmp_path, name):
    kind = configs.PretrainingConfig
    if name == "quickstart_finetuning":
        kind = finetuning_configs.FinetuningConfig
    config = gin_files_lib.load(kind, [str(GIN / f"{name}.gin")])
    written = tmp_path / "operative_config.gin"
    written.write_text(gin.operative_config_str())
    assert gin_files_lib.load(kind, [str(written)]) == config


def test_a_later_file_overrides_an_earlier_one(gin_file, tmp_path):
    later = tmp_path / "later.gin"
    later.write_text("RunConfig.seed = 7\nRunConfig.num_train_steps = 20\n")
    run = load(gin_file, later, params=["RunConfig.num_train_steps = 30"]).run
    assert (run.seed, run.num_train_steps) == (7, 30)


def test_an_included_file_includes_its_own_neighbours(tmp_path):
    (tmp_path / "rows").mkdir()
    (tmp_path / "sizes.gin").write_text(PRETRAINING)
    (tmp_path / "base.gin").write_text("include 'sizes.gin'\n")
    row = tmp_path / "rows" / "row.gin"
    row.write_text("include '../base.gin'\nRunConfig.seed = 7\n")
    # Of that name, but nobody's neighbour.
    (tmp_path / "rows" / "sizes.gin").write_text("RunConfig.seed = 1\n")
    assert load(row).run.seed == 7


@pytest.mark.parametrize(
    "params",
    [
        ["ElectraConfig.mask_prob = %prob", "prob = 0.2"],
        [
            "PretrainingConfig.model = @wide/ElectraConfig()",
            "wide/ElectraConfig.mask_prob = 0.2",
        ],
    ],
)
def test_macros_and_scopes(gin_file, params):
    assert load(gin_file, params=params).model.mask_prob == 0.2


def test_the_packages_own_files_are_found_anywhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert load("gin/small.gin").model.encoder.hidden_size == 256
    own = tmp_path / "own.gin"
    own.write_text("include 'gin/small.gin'\nRunConfig.seed = 7\n")
    config = load(own)
    assert (config.model.encoder.hidden_size, config.run.seed) == (256, 7)


def test_a_file_of_the_working_directory_goes_first(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "gin").mkdir()
    (tmp_path / "gin" / "small.gin").write_text(PRETRAINING)
    own = tmp_path / "own.gin"
    own.write_text("include 'gin/small.gin'\n")
    for path in ("gin/small.gin", own):
        assert load(path).model.encoder.hidden_size == 8
    # The package's base.gin, whose neighbour is not the one here.
    (tmp_path / "gin" / "pretraining.gin").write_text("RunConfig.seed = 1\n")
    assert load("gin/base.gin").run.seed == 42


def test_nothing_is_left_of_an_earlier_load(gin_file):
    load(gin_file, params=["RunConfig.seed = 7"])
    assert load(gin_file).run.seed == 42


def test_a_byte_order_mark_and_a_home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "run.gin").write_text(PRETRAINING, encoding="utf-8-sig")
    run = load("~/run.gin", params=["RunConfig.model_dir = '~/a,~/b'"]).run
    assert run.model_dir == f"{tmp_path}/a,{tmp_path}/b"
    gin.clear_config()
    gin.parse_config_file("~/run.gin")
    assert gin.query_parameter("EncoderConfig.vocab_size") == 20
    gin.clear_config()


def test_refuses_a_missing_file():
    assert refusal("gin/smal.gin") == (
        "Expected a gin file at gin/smal.gin, found none. Did you mean "
        "gin/small.gin?"
    )
    assert refusal("/no.gin") == "Expected a gin file at /no.gin, found none"


def test_refuses_a_file_that_is_not_utf_8(tmp_path):
    included, path = tmp_path / "a.gin", tmp_path / "b.gin"
    included.write_bytes(b"# caf\xe9\n")
    path.write_text("include 'a.gin'\n")
    for name in (included, path):
        line = f"Expected a gin file in UTF-8. Received: {included}, "
        assert refusal(name).startswith(line)


def test_names_file_and_line(gin_file, tmp_path):
    other = tmp_path / "other.gin"
    other.write_text("RunConfig.seed = 3\nRunConfig.sede = 4\n")
    assert refusal(gin_file, other) == (
        f"RunConfig has no parameter sede ({other}, line 2). Did you mean seed?"
    )


@pytest.mark.parametrize(
    ("params", "line"),
    [
        (
            ["ElektraConfig.mask_prob = 0.2"],
            "(--gin_param=ElektraConfig.mask_prob = 0.2). Did you mean Electra",
        ),
        (["PretrainingConfig.run = @RumConfig()"], "mean RunConfig?"),
        (["ElectraConfig.mask_porb = 0.2"], "mean mask_prob?"),
        (
            ["ElectraConfig.mask_prob = %prob", "porb = 0.2"],
            "%prob, which it does not define. Did you mean porb?",
        ),
        (["prob = 0.2"], "sets prob, which nothing reads."),
        (
            ["wide/ElectraConfig.max_seq_length = 8"],
            "nothing reads. Did you mean ElectraConfig.max_seq_length?",
        ),
        (
            [
                "PretrainingConfig.model = @wide/ElectraConfig()",
                "wide/ElectraConfig.mask_prob = 0.2",
                "wyde/ElectraConfig.mask_prob = 0.3",
            ],
            "nothing reads. Did you mean wide/ElectraConfig.mask_prob?",
        ),
        (["FinetuningDataConfig.max_seq_length = 8"], "which nothing reads."),
        (["ElectraConfig.max_seq_length = '16'"], "int. Received: '16'"),
        (["ElectraConfig.mask_prob = 1.5"], "Received: mask_prob=1.5"),
        (["RunConfig.model_dir = model"], "with quotes if it is text"),
        (["RunConfig.seed ="], "Unable to parse value."),
        (["RunConfig.seed"], "Couldn't parse statement"),
        (["RunConfig.seed = (3"], "multi-line statement"),
        (["import nothing_of_this_name"], "nothing_of_this_name"),
    ],
)
def test_refuses_a_binding(gin_file, params, line):
    message = refusal(gin_file, params=params)
    assert line in message and "\n" not in message


def test_refuses_a_missing_value():
    message = refusal(GIN / "pretraining.gin")
    assert message.startswith("The gin configuration must set EncoderConfig.")
    assert "EncoderConfig.hidden_size" in message


def test_the_size_that_is_missing_is_that_of_the_vocabulary(gin_file, tmp_path):
    vocab_file = helpers.write_vocab(tmp_path)
    gin_file.write_text(
        PRETRAINING.replace("EncoderConfig.vocab_size = 20\n", "")
        + f"PretrainingDataConfig.vocab_file = '{vocab_file}'\n"
    )
    assert refusal(gin_file) == (
        "The gin configuration must set EncoderConfig.vocab_size; --gin_param="
        f"EncoderConfig.vocab_size=20 is that of {vocab_file}"
    )


@pytest.mark.parametrize(
    ("name", "configurables", "others"),
    [
        (
            "pretraining.gin",
            [
                *(configs.PretrainingConfig, configs.ElectraConfig),
                *(configs.EncoderConfig, configs.PretrainingDataConfig),
                *(configs.OptimizerConfig, configs.RunConfig),
            ],
            # Columns of Table 6, what fine-tuning alone has, and the folder.
            TABLE_6.keys()
            | {"layerwise_lr_decay", "layerwise_top_layer_scaled", "model_dir"},
        ),
        (
            "finetuning.gin",
            (
                finetuning_configs.FinetuningConfig,
                finetuning_configs.FinetuningDataConfig,
                configs.OptimizerConfig,
            ),
            # What is read, and how.
            {"init_checkpoint", "expected_encoder", "question_answering"}
            | {"task_name", "task_names", "data_dir", "vocab_file", "eval_only"}
            | {"train_file", "dev_file", "test_file"}
            | {"text_columns", "label_column", "label_separator"}
            | {"task_type", "has_header", "label_names"}
            # Of a schedule for lengths that are not known.
            | {"num_decay_steps", "decay_proportion"},
        ),
    ],
)
def test_every_choice_has_its_line(name, configurables, others):
    lines = (GIN / name).read_text().splitlines()
    bound = {line.partition(" =")[0] for line in lines if " =" in line}
    missing = {
        f"{configurable.__name__}.{field.name}"
        for configurable in configurables
        for field in dataclasses.fields(configurable)
        if field.name not in others
    } - bound
    assert not missing


@pytest.mark.parametrize(
    "load_it",
    [
        "from electra_tf.command_line import gin_files\n"
        "c = gin_files.load(configs.PretrainingConfig, ['gin/small.gin'])",
        # As in a notebook.
        "import gin\n"
        "gin.parse_config_file('gin/small.gin')\n"
        "c = configs.PretrainingConfig()",
        "import gin\n"
        "gin.parse_config_file('own.gin')\n"
        "c = configs.PretrainingConfig()",
    ],
)
def test_needs_nothing_else_to_be_imported(tmp_path, load_it):
    (tmp_path / "own.gin").write_text("include 'gin/small.gin'\n")
    code = f"from electra_tf import configs\n{load_it}\n"
    result = helpers.execute(
        "-c", f"{code}print(c.model.encoder.hidden_size)", cwd=tmp_path
    )
    assert result.stdout == "256\n", result.stderr
    assert not result.stderr


def test_the_record_of_default_questions_can_be_read(tmp_path):
    kind = finetuning_configs.FinetuningConfig
    params = [
        "FinetuningConfig.init_checkpoint = 'model'",
        "FinetuningDataConfig.task_names = ('rte', 'triviaqa')",
        "FinetuningDataConfig.data_dir = 'data'",
        "RunConfig.model_dir = 'out'",
    ]
    config = gin_files_lib.load(kind, [], params)
    assert config.question_answering == configs.QuestionAnsweringConfig()
    path = tmp_path / "operative_config.gin"
    path.write_text(gin.operative_config_str())
    assert gin_files_lib.load(kind, [str(path)], []) == config
