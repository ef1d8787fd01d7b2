"""Cuts the checked-in golden set out of the whole one.

    python tests/parity/make_small_golden.py --golden-dir=/path/to/golden

The cut has the format of the whole. It holds numbers, and only texts that were
written for the purpose: no line of a corpus or of a data set. What is left out
is left out for its size or for its text.
"""

import argparse
import json
import pathlib
import re
import shutil
import sys
from collections.abc import Sequence

import numpy as np

from electra_tf.command_line import arguments

DEFAULT_OUTPUT_DIR = (
    pathlib.Path(__file__).parents[1] / "tests" / "parity" / "golden"
)
FIGURES = (
    "flops.json",
    "learning_rate_schedules.json",
    "initial_weight_statistics.json",
    "pretrain/masking/number_of_predictions.json",
    "pretrain/masking/statistics.json",
)
# Case -> arrays of its outputs that other cases hold as well, left out.
CASES: dict[str, str] = {
    "pretrain/c_untied_generator_embeddings": (
        "(batch0_)?generator_(embedding_output|layer.*|sequence_output)"
    ),
    "pretrain/e_mlm": "",
    "pretrain/g_electric": (
        "batch0_cloze_logits|disc_(embedding|sequence)_output"
        "|batch0_disc_(layer|attention).*"
    ),
    "finetune/qa_v1_simple": "(embedding|sequence)_output",
    "finetune/tagging_chunk": "(embedding|sequence)_output",
}
FEATURES = "chunk"
TOKENIZATION_VOCAB = "bert_uncased_vocab.txt"
# The sets begin with so many lines that were written by hand.
HAND_WRITTEN_LINES = 113
# After them, lines with a word, a number or a heading's "= =" in them are from
# corpora. The others are random characters.
WORD = re.compile(r"[A-Za-z]{2}|[\uac00-\ud7a3]{2}|[0-9]{2}|= =")
# Stands for every token that is not special.
ANY_TOKEN_ID = 1000
# One in so many lines of random characters is kept.
RANDOM_LINES_STRIDE = 2


def make_parser() -> arguments.ArgumentParser:
    """The flags."""
    parser = arguments.ArgumentParser(
        prog="make_small_golden", description=__doc__
    )
    parser.add_argument(
        "--golden-dir",
        type=pathlib.Path,
        required=True,
        help="the whole golden folder",
    )
    parser.add_argument(
        "--output-dir",
        type=pathlib.Path,
        default=DEFAULT_OUTPUT_DIR,
        help="where the cut goes; its README.md stays (default: %(default)s)",
    )
    return parser


def make_small_golden(args: argparse.Namespace) -> None:
    """Replaces the output folder by a new cut."""
    source, target = args.golden_dir, args.output_dir
    if not (source / "flops.json").exists():
        raise ValueError(
            f"--golden-dir must hold flops.json. Received: {source}"
        )
    for path in target.glob("*"):
        if path.is_dir():
            shutil.rmtree(path)
        elif path.suffix == ".json":
            path.unlink()
    for name in FIGURES:
        _copy(source / name, target / name)
    for case, left_out in CASES.items():
        _cut_case(source / case, target / case, left_out)
        _drop_slots(target / case)
    _cut_masking_sources(source, target)
    _cut_tokenization(source / "tokenization", target / "tokenization")
    _cut_features(source / "features", target / "features")
    size = sum(p.stat().st_size for p in target.rglob("*") if p.is_file())
    print(f"{target}: {size / 1e6:.2f} MB")


def _copy(source: pathlib.Path, target: pathlib.Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)


def _read_json(path: pathlib.Path) -> dict:
    return json.loads(path.read_text(encoding="utf-8"))


def _write_json(path: pathlib.Path, content: dict) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(content, indent=1, sort_keys=True)
    path.write_text(text + "\n", encoding="utf-8")


def _cut_case(
    source: pathlib.Path, target: pathlib.Path, left_out: str
) -> None:
    for path in source.iterdir():
        if left_out and re.fullmatch(r"outputs(_eval_mode)?\.npz", path.name):
            with np.load(path) as arrays:
                kept = {
                    name: arrays[name]
                    for name in arrays.files
                    if not re.fullmatch(left_out, name)
                }
            target.mkdir(parents=True, exist_ok=True)
            np.savez_compressed(target / path.name, **kept)
        else:
            _copy(path, target / path.name)


def _drop_slots(case: pathlib.Path) -> None:
    """Writes the last checkpoint anew without adam_m and adam_v.

    They are two thirds of it, and follow from the same updates as the weights.
    """
    config = _read_json(case / "config.json")
    if not config["final_checkpoint_has_optimizer_slots"]:
        return
    import tensorflow as tf

    prefix = str(case / f"model.ckpt-{config['steps']}")
    reader = tf.train.load_checkpoint(prefix)
    tensors = {
        name: reader.get_tensor(name)
        for name in reader.get_variable_to_shape_map()
        if not re.search("/adam_[mv]$", name)
    }
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        variables = {
            name: tf.compat.v1.get_variable(
                name, initializer=value, use_resource=False
            )
            for name, value in tensors.items()
        }
        session.run(tf.compat.v1.global_variables_initializer())
        tf.compat.v1.train.Saver(variables).save(
            session, prefix, write_meta_graph=False, write_state=False
        )
    config["final_checkpoint_has_optimizer_slots"] = False
    _write_json(case / "config.json", config)


def _cut_masking_sources(source: pathlib.Path, target: pathlib.Path) -> None:
    """The rows that were masked, without their text.

    Masking looks at lengths and at special tokens only.
    """
    statistics = _read_json(source / "pretrain/masking/statistics.json")
    for name in {case["source"] for case in statistics.values()}:
        with np.load(source / "examples" / name) as arrays:
            input_ids, input_mask = arrays["input_ids"], arrays["input_mask"]
        special = [input_ids[0, 0], input_ids[0, input_mask[0].sum() - 1]]
        keep = np.isin(input_ids, special) | (input_mask == 0)
        path = target / "examples" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        np.savez_compressed(
            path,
            input_ids=np.where(keep, input_ids, ANY_TOKEN_ID).astype(np.int32),
            input_mask=input_mask,
        )


def _cut_tokenization(source: pathlib.Path, target: pathlib.Path) -> None:
    """The lines of the English vocabulary that come from no corpus."""
    target.mkdir(parents=True, exist_ok=True)
    vocab = source / TOKENIZATION_VOCAB
    _copy(vocab, target / vocab.name)
    tokens = vocab.read_text(encoding="utf-8").split("\n")
    unknown_id = tokens.index("[UNK]")
    sets = {}
    for name, settings in _read_json(source / "sets.json").items():
        if settings["vocab"] != TOKENIZATION_VOCAB:
            continue
        text = (source / f"{name}.jsonl").read_text(encoding="utf-8")
        lines = [line for line in text.split("\n") if line]
        rows = [json.loads(line) for line in lines]
        by_hand = HAND_WRITTEN_LINES if rows[0]["text"] == "" else 0
        random_lines = [
            index
            for index, row in enumerate(rows)
            if index >= by_hand and not WORD.search(row["text"])
        ]
        kept = [*range(by_hand), *random_lines[::RANDOM_LINES_STRIDE]]
        (target / f"{name}.jsonl").write_text(
            "".join(lines[index] + "\n" for index in kept), encoding="utf-8"
        )
        num_unknown = sum(rows[i]["ids"].count(unknown_id) for i in kept)
        sets[name] = settings | {"lines": len(kept), "unk_ids": num_unknown}
    _write_json(target / "sets.json", sets)


def _cut_features(source: pathlib.Path, target: pathlib.Path) -> None:
    """The tagging files, which are made up."""
    shutil.copytree(
        source / FEATURES, target / FEATURES, copy_function=shutil.copyfile
    )
    figures = {
        name: figure
        for name, figure in _read_json(source / "features.json").items()
        if name.startswith(f"{FEATURES}_")
    }
    _write_json(target / "features.json", figures)


def main(argv: Sequence[str] | None = None) -> int:
    """Cuts the set; returns the exit code."""
    return arguments.run(make_small_golden, make_parser(), argv)


if __name__ == "__main__":
    sys.exit(main())
