"""Compares everything in a folder of golden numbers with what we compute.

    ELECTRA_TF_GOLDEN=/path/to/golden python -m pytest tests/parity

runs every module `*_parity.py` of this folder over the golden folder, which is
tests/parity/golden by default, and prints a table. The cases, their sizes,
seeds and options are those that the folder holds. What it holds and no check
reads fails the run. A case that an exception stops fails it as well, after all
others have run.
"""

import functools
import importlib
import json
import os
import pathlib
import re
import shutil

import numpy as np
import pytest

from electra_tf.checkpoints.formats import huggingface, original
from tests.checkpoints import models
from tests.parity import comparison, coverage, report
from tests.parity.cases import Case, Outcome, run, run_case
from tests.parity.check import Check

pytestmark = pytest.mark.usefixtures("graph_optimizer")

HERE = pathlib.Path(__file__).parent
SMALL_GOLDEN = HERE / "golden"
GOLDEN = pathlib.Path(os.environ.get("ELECTRA_TF_GOLDEN") or SMALL_GOLDEN)
MODULES = sorted(path.stem for path in HERE.glob("*_parity.py"))


@functools.cache
def outcome_of(module: str) -> Outcome:
    """What a module says about the golden folder, asked once."""
    report.RESULTS.golden_dir = str(GOLDEN)
    outcome = report.RESULTS.outcomes[module] = run(module, GOLDEN)
    return outcome


def reasons() -> dict[str, str]:
    """Pattern -> why what it matches is not compared, of all modules."""
    patterns: dict[str, str] = {}
    for module in MODULES:
        loaded = importlib.import_module(f"tests.parity.{module}")
        patterns |= getattr(loaded, "NOT_COMPARED", {})
    return patterns


def require_equal(outcome: Outcome) -> None:
    """Fails with all that stopped and all that differs."""
    for stop in outcome.stops:
        print(f"{stop.case}:\n{stop.traceback}")
    failed = report.failures(outcome)
    assert not failed, "\n".join(
        [
            f"{len(outcome.stops)} cases stopped, "
            f"{len(failed) - len(outcome.stops)} checks differ:",
            *failed,
        ]
    )


def require_complete(golden_dir: pathlib.Path, checks: list[Check]) -> None:
    """Fails where a folder holds what no check has read, or nothing at all."""
    assert golden_dir.is_dir(), f"no folder {golden_dir}"
    found = list(coverage.entries(golden_dir))
    assert found, f"nothing to compare in {golden_dir}"
    assert checks, f"no case found in {golden_dir}"
    consumed = set().union(*(check.consumed for check in checks))
    why = reasons()
    left, explained = coverage.not_consumed(found, consumed, why)
    if golden_dir == GOLDEN:
        report.RESULTS.not_compared = {
            pattern: (why[pattern], count)
            for pattern, count in explained.items()
        }
    assert not left, "\n".join([f"{len(left)} not compared:", *left])


def has_cases(module: str) -> bool:
    """Whether the golden folder holds something that a module compares."""
    cases = importlib.import_module(f"tests.parity.{module}").cases(GOLDEN)
    return next(iter(cases), None) is not None


# Of what no module takes, test_everything_is_compared says so.
@pytest.mark.parametrize("module", filter(has_cases, MODULES))
def test_equals_original(module):
    outcome = outcome_of(module)
    assert outcome.checks or outcome.stops
    require_equal(outcome)


def test_everything_is_compared():
    assert MODULES
    checks = [
        check for module in MODULES for check in outcome_of(module).checks
    ]
    require_complete(GOLDEN, checks)


# --- The harness itself: it must notice one wrong number of any kind. ---


def _change_array(path: pathlib.Path, name: str) -> None:
    arrays = comparison.read_npz(path)
    array = arrays[name] = np.array(arrays[name])
    largest = np.argmax(np.where(np.isfinite(array), np.abs(array), 0))
    array.flat[largest] = array.flat[largest] * 1.01 + 1
    np.savez(path, **arrays)


def _change_figure(path: pathlib.Path, *keys: str) -> None:
    content = json.loads(path.read_text(encoding="utf-8"))
    holder = content
    for key in keys[:-1]:
        holder = holder[key]
    holder[keys[-1]] = holder[keys[-1]] * 1.01 + 1
    path.write_text(json.dumps(content), encoding="utf-8")


def _change_figure_of_unknown_name(path: pathlib.Path) -> None:
    content = json.loads(path.read_text(encoding="utf-8"))
    content["MODEL_FLOPS"]["unknown"] = 1.0
    path.write_text(json.dumps(content), encoding="utf-8")


def _change_variable(prefix: pathlib.Path, name: str) -> None:
    tensors = dict(original.open_by_name(str(prefix)))
    tensors[name] = tensors[name] + 0.01
    models.write_tf1(prefix, tensors)


def _change_first_id(path: pathlib.Path) -> None:
    lines = path.read_text(encoding="utf-8").split("\n")
    rows = [json.loads(line) for line in lines if line]
    index = next(index for index, row in enumerate(rows) if row["ids"])
    rows[index]["ids"][0] += 1
    lines[index] = json.dumps(rows[index])
    path.write_text("\n".join(lines), encoding="utf-8")


def _failures(golden_dir: pathlib.Path, module: str) -> str:
    return "\n".join(report.failures(run(module, golden_dir)))


def _copy(golden_dir: pathlib.Path, *names: str) -> None:
    for name in names:
        source, target = SMALL_GOLDEN / name, golden_dir / name
        if source.is_dir():
            shutil.copytree(source, target)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)


def _smallest_case(group: str) -> str:
    def size(folder):
        return sum(path.stat().st_size for path in folder.iterdir())

    cases = (SMALL_GOLDEN / group).glob("*/config.json")
    folder = min((path.parent for path in cases), key=size)
    return folder.relative_to(SMALL_GOLDEN).as_posix()


@pytest.mark.parametrize(
    ("group", "module", "outputs", "figures"),
    [
        (
            "pretrain",
            "pretraining_parity",
            "outputs.npz",
            ("eval_metrics.json", "masked_lm_loss"),
        ),
        pytest.param(
            "finetune",
            "finetuning_parity",
            "outputs_eval_mode.npz",
            ("config.json", "final_max_abs_diff_onehot_vs_gather"),
            marks=pytest.mark.dear,
        ),
    ],
)
def test_notices_wrong_numbers_of_a_case(
    tmp_path, group, module, outputs, figures
):
    case = _smallest_case(group)
    _copy(tmp_path, case)
    folder = tmp_path / case
    table = "electra/embeddings/word_embeddings"
    _change_array(folder / outputs, "total_loss")
    _change_array(folder / "gradients_batch0.npz", table)
    _change_array(folder / "training_onehot.npz", "global_norm_dense")
    _change_figure(folder / figures[0], *figures[1:])
    (last,) = (
        path.with_suffix("")
        for path in folder.glob("model.ckpt-*.index")
        if path.stem != "model.ckpt-0"
    )
    _change_variable(last, table)
    failed = _failures(tmp_path, module)
    stem = outputs.removesuffix(".npz")
    assert f"{case}: {stem}: total_loss: " in failed
    assert f"{case}: gradients: {table}: " in failed
    assert f"{case}: training_onehot: global_norm_dense: " in failed
    assert f"{case}: final weights, as recorded: {table}: " in failed
    named = "metrics: masked_lm_loss: "
    if group == "finetune":
        named = "training: how far the two ways part: "
    assert f"{case}: {named}" in failed
    # Nothing else is wrong, or only what follows from these.
    assert len(failed.splitlines()) <= 7, failed


@pytest.mark.parametrize(
    ("file", "keys", "named"),
    [
        ("flops.json", ("MODEL_FLOPS", "gpt"), "whole training: gpt: "),
        (
            "pretrain/masking/number_of_predictions.json",
            ("max_seq_length=128,mask_prob=0.15", "max_predictions_per_seq"),
            "largest number: max_seq_length=128,mask_prob=0.15: ",
        ),
    ],
)
def test_notices_a_wrong_figure(tmp_path, file, keys, named):
    _copy(tmp_path, file)
    assert not _failures(tmp_path, "figures_parity")
    _change_figure(tmp_path / file, *keys)
    (failed,) = _failures(tmp_path, "figures_parity").splitlines()
    assert failed.startswith(f"{file}: {named}")


def test_notices_a_wrong_token(tmp_path):
    _copy(tmp_path, "tokenization")
    sets = json.loads(
        (tmp_path / "tokenization/sets.json").read_text(encoding="utf-8")
    )
    name = max(sets, key=lambda name: sets[name]["lines"])
    path = tmp_path / f"tokenization/{name}.jsonl"
    (tmp_path / "tokenization/sets.json").write_text(
        json.dumps({name: sets[name]}), encoding="utf-8"
    )
    _change_first_id(path)
    checks = run("tokenization_parity", tmp_path).checks
    (failed,) = (check for check in checks if not check.passed)
    assert failed.case == f"tokenization/{name}"
    assert failed.compared == "lines with other ids"
    assert failed.error == 1


def test_names_what_no_check_has_read(tmp_path):
    _copy(tmp_path, "flops.json", "learning_rate_schedules.json")
    require_complete(tmp_path, run("figures_parity", tmp_path).checks)
    _change_figure_of_unknown_name(tmp_path / "flops.json")
    np.savez(tmp_path / "unknown.npz", array=np.zeros(1))
    (tmp_path / "unknown.jsonl").write_text("{}\n", encoding="utf-8")
    models.write_tf1(tmp_path / "unknown.ckpt-1", {"variable": np.zeros(1)})
    checks = run("figures_parity", tmp_path).checks
    with pytest.raises(AssertionError) as error:
        require_complete(tmp_path, checks)
    for entry in (
        "flops.json:MODEL_FLOPS/unknown",
        "unknown.npz:array",
        "unknown.jsonl",
        "unknown.ckpt-1:variable",
    ):
        assert entry in str(error.value).split()


def test_empty_folder_does_not_pass(tmp_path):
    with pytest.raises(AssertionError, match="nothing to compare"):
        require_complete(tmp_path, [])
    with pytest.raises(AssertionError, match="no folder"):
        require_complete(tmp_path / "missing", [])
    _copy(tmp_path, "flops.json")
    with pytest.raises(AssertionError, match="no case found"):
        require_complete(tmp_path, [])


def test_nan_does_not_pass():
    check = Check("case", "array", float("nan"), 1.0)
    assert report.failures(Outcome(checks=[check]))


def _stop_with(message: str):
    raise ValueError(message)


def test_a_damaged_checkpoint_stops_its_own_case_only(tmp_path):
    damaged, whole = "finetune/qa_v1_simple", "finetune/tagging_chunk"
    _copy(tmp_path, damaged, whole)
    expected = run("conversion_parity", tmp_path)
    assert not report.failures(expected)
    data = tmp_path / damaged / "model.ckpt-0.data-00000-of-00001"
    data.write_bytes(data.read_bytes()[:100])
    outcome = run("conversion_parity", tmp_path)
    assert [(stop.module, stop.case) for stop in outcome.stops] == [
        ("conversion_parity", f"{damaged}/model.ckpt-0 to_electra_tf"),
        ("conversion_parity", f"{damaged}/model.ckpt-0 to_huggingface"),
    ]
    assert all("checkpoints" in stop.where for stop in outcome.stops)
    assert outcome.checks == expected.checks[2:]


def test_notices_a_head_that_is_left_behind(tmp_path, monkeypatch):
    _copy(tmp_path, "finetune/tagging_chunk")
    write = huggingface.write
    monkeypatch.setattr(
        huggingface,
        "write",
        lambda checkpoint, path: write(checkpoint.encoder_only(), path),
    )
    failed = _failures(tmp_path, "conversion_parity").splitlines()
    assert failed == [
        f"finetune/tagging_chunk: conversion: model.ckpt-{step} to huggingface "
        "and back task_specific/chunk (2): error 2, tolerance 0"
        for step in (0, 20)
    ]


def test_a_stopped_case_keeps_its_checks_and_what_comes_after():
    before, after = Check("a", "ids", 0.0, 0.0), Check("b", "ids", 0.0, 0.0)

    def first():
        yield before
        _stop_with("no such\nfile")

    def both():
        yield Case("a", first)
        yield Case("b", lambda: [after])
        _stop_with("a list cut short")

    outcome = run_case("some_parity", Case("a list", both))
    assert outcome.checks == [before, after]
    first_stop, second_stop = outcome.stops
    assert first_stop.module == "some_parity"
    assert first_stop.case == "a"
    assert first_stop.error == "ValueError: no such file"
    assert re.fullmatch(
        r"tests/parity/parity_test.py:\d+ in _stop_with", first_stop.where
    )
    assert second_stop.case == "a list"


def test_one_message_names_all_that_stopped_and_differs(capsys):
    def compare():
        yield Check("a", "ids", 2.0, 0.0)
        yield Case("b", lambda: _stop_with("first"))
        yield Case("c", lambda: _stop_with("second"))
        yield Check("d", "loss", 1.0, 0.5)

    outcome = run_case("some_parity", Case("all", compare))
    with pytest.raises(AssertionError) as error:
        require_equal(outcome)
    where = outcome.stops[0].where
    lines = map(str.strip, str(error.value).splitlines())
    assert list(lines)[:5] == [
        "2 cases stopped, 2 checks differ:",
        f"some_parity: b stopped: ValueError: first ({where})",
        f"some_parity: c stopped: ValueError: second ({where})",
        "a: ids: error 2, tolerance 0",
        "d: loss: error 1, tolerance 0.5",
    ]
    assert "Traceback" in capsys.readouterr().out
    *_, last = report.lines(report.Results("golden", {"all": outcome}))
    assert last == "2 checks, 2 differ; 2 cases stopped"
