"""Tests of tools/quickstart/run_quickstart.py."""

import os
import signal
import sys
import time

import pytest
import quickstart_steps
import run_quickstart
from quickstart_steps import Step

from electra_tf import packaged
from electra_tf.command_line import verbs
from tests import helpers


def names(steps):
    return [step.name for step in run_quickstart.steps_left(steps)]


def step(name, *commands):
    return Step(name, (name,), commands)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_every_command_is_there():
    for command in (c for s in quickstart_steps.STEPS for c in s.commands):
        first, door, *_ = command.split()
        if first == "electra-tf":
            assert door in verbs.VERBS
        else:
            assert first == "python"
            assert packaged.door(door).is_file()


def make_old(path):
    """Older than what it is made from."""
    os.utime(path, (1e9, 1e9))


def test_what_is_there_is_not_done_again(folder):
    steps = [step("a"), Step("b", ("b", "also"), ()), step("c")]
    assert names(steps) == ["a", "b", "c"]
    for name in ("a", "b"):
        (folder / name).touch()
    assert names(steps) == ["b", "c"]  # Not all results of b are there.
    (folder / "also").touch()
    assert names(steps) == ["c"]
    (folder / "c").touch()
    assert names(steps) == []
    make_old(folder / "also")
    assert names(steps) == ["b", "c"]
    (folder / "a").unlink()
    assert names(steps) == ["a", "b", "c"]


def test_runs_a_step_and_keeps_its_seconds(folder, capfd):
    (folder / "say.py").write_text("import sys; print('said', *sys.argv[1:])")
    run_quickstart.run(step("said", f"python {folder}/say.py 'a b' c"))
    assert capfd.readouterr().out == (
        f"$ python {folder}/say.py 'a b' c\nsaid a b c\n"
    )
    seconds = (folder / "build/quickstart/seconds/said").read_text()
    assert 0 <= int(seconds) < 60


def test_a_failing_step_ends_it(folder):
    (folder / "fail.py").write_text("exit(3)")
    with pytest.raises(ValueError, match="code 3: run the same again"):
        run_quickstart.run(step("a", f"python {folder}/fail.py now"))
    assert not (folder / "build/quickstart/seconds/a").exists()


def test_prints_the_commands(folder):
    flags = ("-m", "electra_tf", "quickstart", "--dry-run")
    lines = helpers.execute(*flags, cwd=folder).stdout.splitlines()
    assert len(lines) == 10
    assert "electra-tf pretrain --gin_file=gin/quickstart.gin" in lines
    # As it can be typed here.
    script = "tools/quickstart/build_docstring_corpus.py"
    assert lines[0].startswith(f"python {helpers.ROOT}/{script} --output_dir=")
    assert not list(folder.iterdir())


_WAITS = """
import signal, sys, time
def leave(*_):
    time.sleep(0.5)
    print("saved", flush=True)
    sys.exit(75)
signal.signal(signal.SIGTERM, leave)
signal.signal(signal.SIGINT, leave)
open("ready", "w").close()
time.sleep(60)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_run_saves_before_it_leaves(folder, number):
    (folder / "waits.py").write_text(_WAITS)
    code = (
        "import run_quickstart as r, quickstart_steps as s\n"
        f"r.run(s.Step('a', ('a',), ('python {folder}/waits.py now',)))"
    )
    tools = helpers.ROOT / "tools" / "quickstart"
    process = helpers.start(
        "-c",
        code,
        cwd=folder,
        env=helpers.environment(PYTHONPATH=f"{helpers.ROOT}:{tools}"),
        start_new_session=True,
    )
    while not (folder / "ready").exists():
        assert process.poll() is None
        time.sleep(0.02)
    if number == signal.SIGINT:  # A terminal tells all of them.
        os.killpg(process.pid, number)
    else:
        process.send_signal(number)
    stdout, stderr = process.communicate(timeout=30)
    assert stdout.endswith("saved\n")
    assert "ended with exit code 75: run the same again" in stderr
    assert sys.executable not in stdout
