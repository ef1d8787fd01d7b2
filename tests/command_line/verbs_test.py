"""Tests of the command electra-tf: verbs.py and __main__.py."""

import re
import subprocess

import pytest

import electra_tf
from electra_tf import packaged
from electra_tf.command_line import verbs
from tests import helpers


def test_every_verb_has_a_door_that_says_what_it_does():
    for verb, name in verbs.VERBS.items():
        assert packaged.door(name).is_file()
        line = verbs.first_line(verb)
        assert line[0].isupper() and line.endswith(".")


def test_help_lists_the_verbs(capsys):
    assert verbs.main(["--help"]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert "  pretrain     Pre-trains ELECTRA." in shown
    assert {line.split()[0] for line in shown[2:-2]} == set(verbs.VERBS)
    assert verbs.main([]) == 2


def test_the_version(capsys):
    assert verbs.main(["--version"]) == 0
    assert capsys.readouterr().out == f"electra_tf {electra_tf.__version__}\n"


@pytest.mark.parametrize(
    ("argv", "prog"),
    [
        (["-m", "electra_tf", "--help"], "electra-tf"),
        (["-m", "electra_tf", "convert", "--help"], "electra-tf convert"),
        (["-m", "electra_tf.run_pretraining", "--help"], "electra-tf pretrain"),
        (["tools/flops_computation.py"], "electra-tf flops"),
    ],
)
def test_an_output_that_cannot_be_written(argv, prog):
    # Python keeps it back, as for a file, and writes it at the end.
    with open("/dev/full", "w") as full:
        result = subprocess.run(
            helpers.command(*argv),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            cwd=helpers.ROOT,
            env=helpers.environment(PYTHONUNBUFFERED=""),
        )
    assert result.returncode == 1
    line = "error: Cannot write the output: No space left on device"
    assert result.stderr == f"{prog}: {line}\n"


@pytest.mark.parametrize(
    ("verb", "more"), [("pretran", " Did you mean pretrain?"), ("what", "")]
)
def test_refuses_a_wrong_verb(capsys, verb, more):
    assert verbs.main([verb]) == 2
    line = f"error: Unknown verb {verb!r}.{more} (see electra-tf --help)"
    assert capsys.readouterr().err == f"electra-tf: {line}\n"


def test_a_run_finds_modules_of_the_directory(tmp_path):
    (tmp_path / "mine.py").write_text("raise ValueError('mine is read')\n")
    flags = ("--gin_file=gin/small.gin", "--gin_param=import mine")
    found = helpers.execute(
        "-m", "electra_tf", "pretrain", *flags, cwd=tmp_path
    )
    assert "mine is read" in found.stderr


@pytest.mark.parametrize("argv", [["make"], ["make", "help"]])
def test_make_lists_its_targets(argv):
    result = subprocess.run(
        [*argv, "--no-print-directory"],
        cwd=helpers.ROOT,
        capture_output=True,
        text=True,
    )
    assert (result.returncode, result.stderr) == (0, "")
    text = (helpers.ROOT / "Makefile").read_text()
    targets = re.findall(r"^make (\S+)", result.stdout, re.MULTILINE)
    assert {"quickstart", "test", "check", "docs"} <= set(targets)
    for target in targets:
        assert re.search(rf"^(.* )?{target}( .*)?:", text, re.MULTILINE)
