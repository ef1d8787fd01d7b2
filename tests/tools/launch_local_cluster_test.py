"""Tests of tools/launch_local_cluster.py, with workers that only print."""

import contextlib
import json
import os
import pathlib
import signal
import sys
import time

import pytest

from electra_tf.training import local_cluster
from tests import helpers
from tools import launch_local_cluster

TOOL = helpers.ROOT / "tools" / "launch_local_cluster.py"


def start(code, *args):
    """Two workers with some Python."""
    command = (sys.executable, "-c", code, *args)
    return helpers.start(TOOL, "--num_workers=2", "--", *command)


def test_every_worker_knows_the_cluster():
    code = "import os; print(os.environ['TF_CONFIG'])"
    command = ("--num_workers=3", "--", sys.executable, "-c", code)
    result = helpers.execute(TOOL, *command)
    assert result.returncode == 0, result.stderr
    found = dict(line.split(" ", 1) for line in result.stdout.splitlines())
    assert sorted(found) == ["[0]", "[1]", "[2]"]
    tf_configs = [json.loads(found[f"[{index}]"]) for index in range(3)]
    for index, tf_config in enumerate(tf_configs):
        assert tf_config["task"] == {"type": "worker", "index": index}
        assert tf_config["cluster"] == tf_configs[0]["cluster"]
    workers = tf_configs[0]["cluster"]["worker"]
    assert len(set(workers)) == 3
    assert all(worker.startswith("localhost:") for worker in workers)


def test_flags_after_the_dashes_are_the_commands():
    code = "import sys; print(sys.argv[1:])"
    command = (sys.executable, "-c", code, "--a_b", "--")
    result = helpers.execute(TOOL, "--num-workers=1", "--", *command)
    assert result.stdout == "[0] ['--a_b', '--']\n"


WAITS = """
import json, os, signal, sys, time
index = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
for number in (signal.SIGTERM, signal.SIGINT):
    signal.signal(number, lambda *_: sys.exit(75))
print("ready", flush=True)
{then}
time.sleep(60)
"""


def test_an_error_stops_the_others(monkeypatch, capfd):
    monkeypatch.setattr(local_cluster, "_GRACE_SECONDS", 0.5)
    code = WAITS.format(then="if index: sys.exit(3)")
    command = [sys.executable, "-c", code]
    assert launch_local_cluster.main(["--num_workers=2", "--", *command]) == 3
    lines = sorted(capfd.readouterr().out.splitlines())
    assert lines == ["[0] ready", "[1] ready"]


@pytest.mark.dear
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_reaches_all(number):
    process = start(WAITS.format(then=""))
    for _ in range(2):
        assert process.stdout.readline().endswith("ready\n")
    process.send_signal(number)
    process.communicate(timeout=60)
    assert process.returncode == 75


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_while_they_are_started_reaches_all(number, monkeypatch):
    tf_config = local_cluster.tf_config

    def interrupted(ports, index):
        if index:  # The first one is there, the second is not.
            os.kill(os.getpid(), number)
        return tf_config(ports, index)

    monkeypatch.setattr(local_cluster, "tf_config", interrupted)
    before = signal.getsignal(number)
    result = launch_local_cluster.main(["--num_workers=2", "--", "sleep", "60"])
    assert result == 128 + number
    assert signal.getsignal(number) is before


def test_workers_do_not_outlive_their_launcher(tmp_path):
    """Whatever kills it: they save and leave."""
    code = WAITS.format(then="open(sys.argv[1] + str(index), 'w').close()")
    process = start(code, str(tmp_path / "worker"))
    end = time.monotonic() + 60
    while len(list(tmp_path.iterdir())) < 2:
        assert time.monotonic() < end
        time.sleep(0.01)
    process.kill()
    # Both ends of the workers' pipes are theirs alone now.
    process.communicate(timeout=60)
    while _num_with(str(tmp_path)):
        assert time.monotonic() < end
        time.sleep(0.01)


def _num_with(argument: str) -> int:
    """Processes that have it on their command lines."""
    found = 0
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            found += argument in path.read_text(errors="replace")
    return found


# As the tool, but impatient.
AT_ONCE = """
import sys
from electra_tf.training import local_cluster
from tools import launch_local_cluster
local_cluster._GRACE_SECONDS = 0.5
sys.exit(launch_local_cluster.main())
"""


def test_an_output_that_nobody_takes_stops_all():
    # Who writes one line only never hears that its reader has gone.
    code = WAITS.format(then="while True: print('x' * 10_000, flush=True)")
    command = ("--num_workers=2", "--", sys.executable, "-c", code)
    process = helpers.start("-c", AT_ONCE, *command)
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(timeout=60) == 1
    process.stderr.close()
