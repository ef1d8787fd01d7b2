"""Tests of tools/plan_run.py."""

from electra_tf.training import matmul_rate, plan
from tests import helpers
from tools import plan_run

SMALL = str(helpers.ROOT / "gin" / "small.gin")


def test_prints_the_table(capsys):
    assert plan_run.main([f"--gin_file={SMALL}", "--num_devices=8"]) == 0
    text = capsys.readouterr().out
    assert "1000000 steps" in text
    for hardware in plan.devices():
        assert hardware.name in text


def test_an_open_dtype_is_settled(capsys, monkeypatch):
    asked = []
    monkeypatch.setattr(
        matmul_rate, "cpu_rate", lambda dtype: asked.append(dtype) or 1e12
    )
    flags = [f"--gin_file={SMALL}", "--hardware=this_cpu"]
    plan_run.main([*flags, "--gin_param=RunConfig.dtype_policy='auto'"])
    (policy,) = asked
    line, *_ = capsys.readouterr().out.splitlines()
    assert line.removesuffix("'").endswith(policy)
    assert line.startswith("chosen: RunConfig.dtype_policy='")
