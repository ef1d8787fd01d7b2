"""A whole fine-tuning: one command, from its start to its scores on disk.

Beside it a plain loop of transformers and PyTorch, which loads, tokenizes batch
by batch, trains, scores and saves (transformers_training.fine_tune). Rows are
made up, or those of --train_file and --dev_file, tables with a header and the
columns text and label, or those of --text_columns.
"""

import itertools
import os
import shutil

import contest
import latency
import numpy as np

_LABELS = ("no", "yes")


def _prepare(args) -> dict[str, str]:
    """Writes a checkpoint that both can read, and made-up rows."""
    if bool(args.train_file) != bool(args.dev_file):
        raise ValueError(
            "Expected --train_file and --dev_file. Received: one of them"
        )
    # The contestants have working directories of their own.
    settings = {
        name: os.path.abspath(path)
        for name in ("checkpoint", "train_file", "dev_file")
        if (path := getattr(args, name))
    }
    if args.train_file:
        with open(args.train_file, encoding="utf-8") as file:
            args.num_rows = sum(1 for _ in file) - 1
    if not args.checkpoint:
        latency.write_model(f"{args.folder}/trained", args.tiny)
        settings["checkpoint"] = f"{args.folder}/checkpoint"
        contest.electra_tf(
            "convert",
            f"--input={args.folder}/trained",
            f"--output={settings['checkpoint']}",
            "--output-format=huggingface",
            "--encoder-only",
        )
    if not args.train_file:
        rng = np.random.default_rng(0)
        for split, number in (("train", args.num_rows), ("dev", 200)):
            path = settings[f"{split}_file"] = f"{args.folder}/{split}.tsv"
            with open(path, "w", encoding="utf-8") as file:
                file.write("text\tlabel\n")
                for _ in range(number):
                    # Half of SST-2's phrases have at most 9 tokens.
                    length = int(min(50, 1 + rng.exponential(11)))
                    words = rng.integers(0, 200, length)
                    text = " ".join(f"w{word}" for word in words)
                    file.write(f"{text}\t{_LABELS[rng.integers(2)]}\n")
    return settings


def electra_tf(args) -> contest.Run:
    """The command, in a new model directory each time."""
    numbers = itertools.count()

    def run(num_steps: int) -> dict[str, float]:
        for _ in range(num_steps):
            folder = f"{args.folder}/{args.dtype_policy}_{next(numbers)}"
            flags = {
                "init_checkpoint": args.checkpoint,
                "train_file": args.train_file,
                "dev_file": args.dev_file,
                "text_columns": args.text_columns,
                "num_train_epochs": args.num_epochs,
                "batch_size": args.batch_size,
                "max_seq_length": 32 if args.tiny else 128,
                "model_dir": folder,
                "gin_param": f"RunConfig.dtype_policy='{args.dtype_policy}'",
            }
            given = [f"--{k}={v}" for k, v in flags.items() if v]
            contest.electra_tf("finetune", *given)
            shutil.rmtree(folder)
        return {}

    return run


def _contestants(suffix: str, is_bfloat16: bool) -> dict:
    policy = "mixed_bfloat16" if is_bfloat16 else "float32"
    return {
        f"transformers{suffix}": contest.Contestant(
            "transformers_training.whole",
            {"is_bfloat16": is_bfloat16},
            ("torch", "transformers"),
        ),
        f"electra_tf{suffix}": contest.Contestant(
            "whole.electra_tf", {"dtype_policy": policy}
        ),
    }


WHOLE = contest.Benchmark(
    summary="a whole fine-tuning, by the clock: transformers, electra_tf",
    unit="rows",
    contestants=_contestants("", False) | _contestants("_bfloat16", True),
    chosen=("transformers", "electra_tf"),
    against=("transformers", "transformers_bfloat16"),
    prepare=_prepare,
    flags={
        "checkpoint": ("", "of transformers; random weights by default"),
        "train_file": ("", "rows to train on; made up by default"),
        "dev_file": ("", "rows to score"),
        "text_columns": ("", "of the files, such as sentence1,sentence2"),
        "num_rows": (512, "made-up rows"),
        "num_epochs": (3, "times that each row is seen"),
        "batch_size": (32, "rows of a step"),
        "num_rounds": (3, "rounds"),
    },
    per_step="num_rows",
)
