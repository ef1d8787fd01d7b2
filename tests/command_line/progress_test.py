"""Tests of command_line/progress.py."""

import io
import os

import pytest

from electra_tf.command_line import progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def clock(monkeypatch):
    """A clock that the test sets."""
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def train(monkeypatch, stream, total=10):
    """What is written to a stream, and a line of progress on it."""
    monkeypatch.setattr(progress.sys, "stderr", stream)
    return stream, progress.Progress("training", total, "step")


def test_a_terminal_line_is_redrawn(monkeypatch, clock):
    out, live = train(monkeypatch, Terminal())
    clock[0] += 6
    live.update(2, "loss 0.5")
    clock[0] += 2
    live.update(4, "loss 0.25")
    live.close()
    live.note("held-out at step 5")
    assert out.getvalue() == (
        # 3 s a step, 8 steps to go; then 2 s a step, 6 to go.
        "\r\x1b[Ktraining step 2/10 | loss 0.5 | ETA 0:00:24"
        "\r\x1b[Ktraining step 4/10 | loss 0.25 | ETA 0:00:12"
        "\n\r\x1b[Kheld-out at step 5\n"
    )


def test_a_file_gets_a_line_every_ten_seconds(monkeypatch, clock):
    out, live = train(monkeypatch, io.StringIO(), 100)
    for step in (1, 2, 3, 4):
        clock[0] += 4
        live.update(step)
    live.note("held-out")
    live.close()
    assert out.getvalue().splitlines() == [
        "training step 1/100 | ETA 0:06:36",
        "training step 4/100 | ETA 0:06:24",
        "held-out",
    ]


def test_what_was_done_before_does_not_count_for_the_rate(monkeypatch, clock):
    out, live = train(monkeypatch, io.StringIO(), 100)
    live.start(90)
    clock[0] += 10
    live.update(90)
    clock[0] += 10
    live.update(95)
    assert out.getvalue().splitlines() == [
        "training step 90/100 | ETA ?",
        # 20 s for 5 steps, 5 to go.
        "training step 95/100 | ETA 0:00:20",
    ]
    out, live = train(monkeypatch, io.StringIO(), 5)
    live.start(5)
    live.update(5)
    assert out.getvalue() == "training step 5/5 | ETA 0:00:00\n"


def test_without_a_unit_the_share_is_shown(monkeypatch, clock):
    out, _ = train(monkeypatch, io.StringIO())
    live = progress.Progress("reading", 200)
    clock[0] += 4
    live.update(50, "3 of 7 files")
    assert live.seconds == 4.0
    assert out.getvalue() == "reading 25% | 3 of 7 files | ETA 0:00:12\n"


def test_a_terminal_shows_ten_states_a_second_and_the_last(monkeypatch, clock):
    out, live = train(monkeypatch, Terminal())
    for text in "abc":
        live.show(text)
        clock[0] += 0.06
    live.show("d")
    live.close()
    assert out.getvalue() == "\r\x1b[Ka\r\x1b[Kc\r\x1b[Kd\n"


def test_a_line_longer_than_the_terminal_is_cut(monkeypatch, clock):
    out, live = train(monkeypatch, Terminal())
    live.close()  # Nothing is written where nothing was done.
    monkeypatch.setattr(out, "fileno", lambda: 2, raising=False)
    size = os.terminal_size((5, 24))
    monkeypatch.setattr(progress.os, "get_terminal_size", lambda fd: size)
    live.show("abcdefg")
    assert out.getvalue() == "\r\x1b[Kabcd"
