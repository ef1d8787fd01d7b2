"""Tests of tools/flops_computation.py."""

from electra_tf.model import costs
from tools import flops_computation


def test_prints_every_model(capsys):
    assert flops_computation.main([]) == 0
    header, *rows = capsys.readouterr().out.splitlines()
    assert header.split()[0] == "model"
    assert [row.split()[0] for row in rows] == list(costs.model_costs())
    (small,) = (row for row in rows if row.startswith("electra_small"))
    assert small.split()[1:3] == ["1.293743798272000e+18", "1.0"]
    flops_computation.main(["--corrected"])
    assert capsys.readouterr().out.splitlines() != [header, *rows]
