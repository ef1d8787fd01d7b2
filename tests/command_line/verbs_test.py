"""Tests of the command electra-tf: verbs.py and __main__.py."""

import subprocess

import pytest

import electra_tf
from electra_tf.command_line import packaged, verbs
from tests import helpers

# The doors that the command must have.
EXPECTED = {
    *("pretrain", "finetune", "build-vocab", "build-data", "check-data"),
    *("convert", "export", "serve", "predict", "detect", "score", "plan"),
    *("flops", "quickstart"),
}


def run(*args, **kwargs):
    return helpers.execute("-m", "electra_tf", *args, **kwargs)


def test_every_verb_has_a_door_that_says_what_it_does():
    assert set(verbs.VERBS) == EXPECTED
    for verb, name in verbs.VERBS.items():
        assert packaged.door(name).is_file()
        line = verbs.first_line(verb)
        assert line[0].isupper() and line.endswith(".")


def test_help_lists_the_verbs(capsys):
    assert verbs.main(["--help"]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert "  pretrain     Pre-trains ELECTRA." in shown
    assert {line.split()[0] for line in shown[2:-2]} == EXPECTED
    assert verbs.main([]) == 2


def test_the_version(capsys):
    assert verbs.main(["--version"]) == 0
    assert capsys.readouterr().out == f"electra_tf {electra_tf.__version__}\n"


@pytest.mark.parametrize(
    ("argv", "prog"),
    [
        (["-m", "electra_tf", "--help"], "electra-tf"),
        (["-m", "electra_tf", "convert", "--help"], "electra-tf convert"),
        (["-m", "electra_tf.run_pretraining", "--help"], "run_pretraining"),
        (["tools/flops_computation.py"], "flops_computation"),
    ],
)
def test_an_output_that_cannot_be_written(argv, prog):
    # Python keeps it back, as for a file, and writes it at the end.
    env = helpers.environment(PYTHONUNBUFFERED="")
    with open("/dev/full", "w") as full:
        result = subprocess.run(
            helpers.command(*argv),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            cwd=helpers.ROOT,
            env=env,
        )
    assert result.returncode == 1
    assert result.stderr == (
        f"{prog}: error: Cannot write the output: No space left on device\n"
    )


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["pretran"], "Unknown verb 'pretran'. Did you mean pretrain?"),
        (["what"], "Unknown verb 'what'."),
    ],
)
def test_refuses_a_wrong_verb(capsys, argv, expected):
    assert verbs.main(argv) == 2
    assert capsys.readouterr().err == (
        f"electra-tf: error: {expected} (see electra-tf --help)\n"
    )


def test_what_serve_lacks_is_said(capsys, monkeypatch):
    def without_waitress(*_):
        raise ModuleNotFoundError("No module named 'waitress'", name="waitress")

    monkeypatch.setattr(verbs, "_run", without_waitress)
    assert verbs.main(["serve"]) == 1
    assert capsys.readouterr().err == (
        "electra-tf: error: serve needs the package waitress: pip install "
        "'electra_tf[serving]'\n"
    )


def test_a_verb_is_its_door(tmp_path):
    found = run("convert", "--inptu=a", cwd=tmp_path)
    assert found.returncode == 2
    assert found.stderr == (
        "electra-tf convert: error: the following arguments are required: "
        "--input, --output, --output-format (see --help)\n"
    )
    found = run("pretrain", "--gin_file=gin/smal.gin", cwd=tmp_path)
    assert found.returncode == 1
    assert found.stderr == (
        "electra-tf pretrain: error: Expected a gin file at gin/smal.gin, "
        "found none. Did you mean gin/small.gin?\n"
    )


def test_the_flags_of_a_run_are_refused_and_told_as_those_of_the_others(
    tmp_path,
):
    found = run("pretrain", "--model_dri=a", cwd=tmp_path)
    assert found.returncode == 2
    assert found.stderr == (
        "electra-tf pretrain: error: Unknown command line flag 'model_dri'. "
        "Did you mean: model_dir ? (see --help)\n"
    )
    found = run("finetune", "--help", cwd=tmp_path)
    assert (found.returncode, found.stderr) == (0, "")
    assert "--init_checkpoint" in found.stdout


def test_a_run_finds_modules_of_the_directory(tmp_path):
    (tmp_path / "mine.py").write_text("raise ValueError('mine is read')\n")
    found = run(
        "pretrain",
        "--gin_file=gin/small.gin",
        "--gin_param=import mine",
        cwd=tmp_path,
    )
    assert "mine is read" in found.stderr
