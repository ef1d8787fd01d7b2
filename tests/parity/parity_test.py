"""Compares everything in a folder of golden numbers with what we compute.

    ELECTRA_TF_GOLDEN=/path/to/golden python -m pytest tests/parity

runs every module `*_parity.py` of this folder over the golden folder, which is
tests/parity/golden by default, and prints a table. The cases, their sizes,
seeds and options are those that the folder holds. What it holds and no check
reads fails the run.
"""

import functools
import importlib
import json
import os
import pathlib
import shutil
import types

import numpy as np
import pytest
import tensorflow as tf

from electra_tf import pretraining_examples
from electra_tf.checkpoint_conversion import original
from tests.parity import coverage, report
from tests.parity.check import Check

HERE = pathlib.Path(__file__).parent
SMALL_GOLDEN = HERE / "golden"
GOLDEN = pathlib.Path(os.environ.get("ELECTRA_TF_GOLDEN") or SMALL_GOLDEN)
MODULES = sorted(path.stem for path in HERE.glob("*_parity.py"))


def load(module: str) -> types.ModuleType:
    return importlib.import_module(f"tests.parity.{module}")


@functools.cache
def run(module: str) -> list[Check]:
    """All checks of a module on the golden folder, made once."""
    report.RESULTS.golden_dir = str(GOLDEN)
    checks = report.RESULTS.checks[module] = []
    try:
        checks.extend(load(module).checks(GOLDEN))
    except Exception as error:  # Reported by test_equals_original.
        report.RESULTS.errors[module] = error
    return checks


def reasons() -> dict[str, str]:
    """Pattern -> why what it matches is not compared, of all modules."""
    patterns: dict[str, str] = {}
    for module in MODULES:
        patterns |= getattr(load(module), "NOT_COMPARED", {})
    return patterns


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


@pytest.mark.parametrize("module", MODULES)
def test_equals_original(module):
    checks = run(module)
    if module in report.RESULTS.errors:
        raise report.RESULTS.errors[module]
    failed = report.failures(checks)
    assert not failed, "\n".join([f"{len(failed)} differ:", *failed])
    if not checks:
        # Were there something, test_everything_is_compared would name it.
        pytest.skip(f"{GOLDEN} holds nothing for {module}")


def test_everything_is_compared():
    assert MODULES
    checks = [check for module in MODULES for check in run(module)]
    require_complete(GOLDEN, checks)


# --- The harness itself: it must notice one wrong number of any kind. ---


def _change_array(path: pathlib.Path, name: str) -> None:
    with np.load(path) as npz:
        arrays = {key: npz[key] for key in npz.files}
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
    tensors = original.read_original_checkpoint(str(prefix))
    tensors[name] = tensors[name] + 0.01
    _write_checkpoint(prefix, tensors)


def _write_checkpoint(prefix: pathlib.Path, tensors: dict) -> None:
    """Writes as the original does: variables by name."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        variables = {
            key: tf.compat.v1.get_variable(
                key, initializer=value, use_resource=False
            )
            for key, value in tensors.items()
        }
        session.run(tf.compat.v1.global_variables_initializer())
        tf.compat.v1.train.Saver(variables).save(
            session, str(prefix), write_meta_graph=False, write_state=False
        )


def _change_first_id(path: pathlib.Path) -> None:
    lines = path.read_text(encoding="utf-8").split("\n")
    rows = [json.loads(line) for line in lines if line]
    index = next(index for index, row in enumerate(rows) if row["ids"])
    rows[index]["ids"][0] += 1
    lines[index] = json.dumps(rows[index])
    path.write_text("\n".join(lines), encoding="utf-8")


def _change_record(path: pathlib.Path) -> None:
    records = [record.numpy() for record in tf.data.TFRecordDataset(str(path))]
    example = tf.train.Example.FromString(records[0])
    example.features.feature["input_ids"].int64_list.value[1] += 1
    records[0] = example.SerializeToString()
    with tf.io.TFRecordWriter(str(path)) as writer:
        for record in records:
            writer.write(record)


def _failures(golden_dir: pathlib.Path, module: str) -> str:
    return "\n".join(report.failures(load(module).checks(golden_dir)))


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
        (
            "finetune",
            "finetuning_parity",
            "outputs_eval_mode.npz",
            ("config.json", "final_max_abs_diff_onehot_vs_gather"),
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
    checks = list(load("tokenization_parity").checks(tmp_path))
    (failed,) = (check for check in checks if not check.passed)
    assert failed.case == f"tokenization/{name}"
    assert failed.compared == "lines with other ids"
    assert failed.error == 1


def test_notices_a_wrong_record(tmp_path):
    length, num_files = 8, 2
    rows = np.arange(6 * length, dtype=np.int32).reshape(6, length)
    arrays = dict.fromkeys(pretraining_examples.FEATURE_NAMES, rows)
    folder = tmp_path / "examples/files"
    folder.mkdir(parents=True)
    np.savez(tmp_path / "examples/source.npz", **arrays)
    variant = {
        "files": num_files,
        "max_seq_length": length,
        "records": [len(rows) // num_files] * num_files,
        "same_as": "source",
        "seed": 1,
    }
    (tmp_path / "examples/variants.json").write_text(
        json.dumps({"files": variant}), encoding="utf-8"
    )
    paths = [
        folder / pretraining_examples.shard_name(i, num_files)
        for i in range(num_files)
    ]
    for index, path in enumerate(paths):
        with tf.io.TFRecordWriter(str(path)) as writer:
            for row in rows[index::num_files].tolist():
                example = pretraining_examples.Example(row, row, row)
                writer.write(pretraining_examples.serialize_example(example))
    assert not _failures(tmp_path, "examples_parity")
    _change_record(paths[1])
    (failed,) = _failures(tmp_path, "examples_parity").splitlines()
    assert failed.startswith("examples/files: input_ids: error 1,")


def test_names_what_no_check_has_read(tmp_path):
    _copy(tmp_path, "flops.json", "learning_rate_schedules.json")
    checks = list(load("figures_parity").checks(tmp_path))
    require_complete(tmp_path, checks)
    _change_figure_of_unknown_name(tmp_path / "flops.json")
    np.savez(tmp_path / "unknown.npz", array=np.zeros(1))
    (tmp_path / "unknown.jsonl").write_text("{}\n", encoding="utf-8")
    _write_checkpoint(tmp_path / "unknown.ckpt-1", {"variable": np.zeros(1)})
    checks = list(load("figures_parity").checks(tmp_path))
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
    assert report.failures([Check("case", "array", float("nan"), 1.0)])
