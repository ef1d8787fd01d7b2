"""Sums of what the commands compute, to compare before and after a change.

  python -m tests.end_to_end.sums --output=before.json
  python -m tests.end_to_end.sums --compare=before.json

A sum is over names, dtypes, shapes and bytes of the values that are read back,
whatever files hold them. Sums differ between processors and versions of
TensorFlow, so that those of another machine are not compared. The file imports
nothing of the package: a copy of it sums up any checkout on Python's path.
"""

import argparse
import atexit
import csv
import hashlib
import importlib.util
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import time

import numpy as np

_SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
_WORDS = re.findall(
    r"\w+",
    "the a cook chef waiter guest ate served liked burned fresh cold meal soup "
    "bread fish in at kitchen table garden and but was were then slowly again",
)
# Words of several tokens, capitals, accents, an unknown character.
_OTHER_WORDS = ("Cafés", "meals", "Overcooked", "soup-bowl", "x²", "☃")
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_VOCAB = [*_SPECIAL, *_LETTERS, *(f"##{a}" for a in _LETTERS), *".,-", *_WORDS]
_VOCAB = list(dict.fromkeys(_VOCAB))  # "a" is a letter and a word.

_IS_VALUE = "/.ATTRIBUTES/VARIABLE_VALUE"  # In TensorFlow's checkpoints.
_KILL_AT, _SAVE_EVERY = 77, 70
_PRETRAINING = f"""
PretrainingConfig.model = @ElectraConfig()
PretrainingConfig.data = @PretrainingDataConfig()
PretrainingConfig.optimizer = @OptimizerConfig()
PretrainingConfig.run = @RunConfig()
ElectraConfig.encoder = @EncoderConfig()
ElectraConfig.max_seq_length = 32
ElectraConfig.mask_prob = 0.15
ElectraConfig.generator_hidden_size = 0.5
EncoderConfig.vocab_size = {len(_VOCAB)}
EncoderConfig.hidden_size = 16
EncoderConfig.num_hidden_layers = 1
EncoderConfig.num_attention_heads = 2
EncoderConfig.intermediate_size = 32
EncoderConfig.embedding_size = 8
EncoderConfig.max_position_embeddings = 32
EncoderConfig.hidden_dropout_prob = 0.1
EncoderConfig.attention_probs_dropout_prob = 0.1
OptimizerConfig.learning_rate = 2e-3
OptimizerConfig.num_warmup_steps = 20
PretrainingDataConfig.train_files = 'records_1/*tfrecord*'
PretrainingDataConfig.vocab_file = 'vocab.txt'
PretrainingDataConfig.train_batch_size = 8
RunConfig.num_train_steps = 200
RunConfig.steps_per_loop = 11
RunConfig.save_checkpoints_steps = {_SAVE_EVERY}
RunConfig.seed = 7
RunConfig.dtype_policy = 'float32'
RunConfig.num_parallel_parts = 1
RunConfig.num_intra_op_threads = 1
"""
_FINETUNING = (
    *("--init_checkpoint=straight", "--train_file=train.tsv"),
    *("--dev_file=dev.tsv", "--vocab_file=vocab.txt", "--has_header=True"),
    *("--text_columns=text", "--label_column=label"),
    *("--task_type=classification", "--max_seq_length=32", "--num_trials=2"),
    *("--num_train_epochs=3", "--learning_rate=1e-3"),
    "--gin_param=FinetuningDataConfig.train_batch_size = 8",
    "--gin_param=FinetuningDataConfig.eval_batch_size = 8",
    "--gin_param=FinetuningConfig.dropout = 0.1",
    "--gin_param=OptimizerConfig.layerwise_lr_decay = 0.8",
    "--gin_param=OptimizerConfig.warmup_proportion = 0.1",
    "--gin_param=RunConfig.seed = 7",
    "--gin_param=RunConfig.dtype_policy = 'float32'",
    "--gin_param=RunConfig.num_parallel_parts = 1",
    "--gin_param=RunConfig.num_intra_op_threads = 1",
)


class Entries(dict):
    """Name -> array; the sums over them."""

    def sums(self) -> dict[str, str | int]:
        parts = {name.encode(): _part(self[name]) for name in sorted(self)}
        return {
            "sum": _digest(n + b" " + p for n, p in parts.items()),
            "sum_without_names": _digest(sorted(map(_hash, parts.values()))),
            "num_values": len(parts),
        }


def _part(array: np.ndarray) -> bytes:
    """A dtype, a shape and the bytes of the values."""
    head = json.dumps([str(array.dtype), array.shape]).encode()
    if array.dtype == object:  # Strings.
        return head + json.dumps(array.tolist()).encode()
    return head + np.ascontiguousarray(array).tobytes()


def _hash(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


def _digest(parts) -> str:
    return _hash(b"".join(map(_hash, parts))).hex()


# --- Inputs -------------------------------------------------------------------


def _write_inputs(folder: pathlib.Path) -> None:
    draws = random.Random(1)

    def sentence() -> str:
        words = draws.choices(_WORDS, k=draws.randint(4, 14))
        if draws.random() < 0.3:
            words[draws.randrange(len(words))] = draws.choice(_OTHER_WORDS)
        return " ".join(words).capitalize() + draws.choice((".", " -", ","))

    (folder / "corpus").mkdir()
    for number in range(5):
        documents = (
            "\n".join(sentence() for _ in range(draws.randint(1, 9)))
            for _ in range(12)
        )
        path = folder / "corpus" / f"{number}.txt"
        path.write_text("\n\n".join(documents) + "\n", "utf-8")
    (folder / "vocab.txt").write_text("\n".join(_VOCAB) + "\n")
    (folder / "run.gin").write_text(_PRETRAINING)
    for name, num_rows in (("train", 60), ("dev", 21)):
        rows = [sentence() for _ in range(num_rows)]
        lines = (f"{r}\t{'fish' if 'fish' in r else 'none'}" for r in rows)
        path = folder / f"{name}.tsv"
        path.write_text("\n".join(["text\tlabel", *lines]) + "\n", "utf-8")


# --- Commands -----------------------------------------------------------------


def _root() -> pathlib.Path:
    """The checkout whose package would be imported."""
    package = importlib.util.find_spec("electra_tf")
    return pathlib.Path(package.origin).resolve().parents[1]


def _start(folder: pathlib.Path, *args: str) -> subprocess.Popen:
    environment = {
        "PYTHONPATH": str(_root()),
        "CUDA_VISIBLE_DEVICES": "-1",
        "TF_CPP_MIN_LOG_LEVEL": "3",
    }
    process = subprocess.Popen(
        [sys.executable, *args],
        cwd=folder,
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    atexit.register(process.kill)  # Where another one fails.
    return process


def _end(*processes: subprocess.Popen) -> None:
    for process in processes:
        outputs = process.communicate(timeout=1800)
        if process.returncode:
            said = "\n".join(filter(None, outputs))
            sys.exit(f"{process.args}: {process.returncode}\n{said}")


def _build(folder: pathlib.Path, num_processes: int) -> subprocess.Popen:
    return _start(
        *(folder, f"{_root()}/tools/build_pretraining_dataset.py"),
        *("--corpus-dir=corpus", "--vocab-file=vocab.txt", "--seed=5"),
        *(f"--output-dir=records_{num_processes}", "--num-out-files=3"),
        *(f"--num-processes={num_processes}", "--max-seq-length=32"),
        *("--lower-case", "--strip-accents"),
    )


def _pretrain(folder: pathlib.Path, name: str) -> subprocess.Popen:
    command = ("-m", "electra_tf.run_pretraining", "--gin_file=run.gin")
    return _start(folder, *command, f"--model_dir={name}")


def _last_step(model_dir: pathlib.Path) -> int:
    log = model_dir / "metrics.jsonl"
    lines = log.read_text().splitlines(keepends=True) if log.exists() else []
    whole = [json.loads(line)["step"] for line in lines if line.endswith("\n")]
    return max(whole, default=0)


def _last_saved(model_dir: pathlib.Path) -> int:
    names = [path.stem for path in model_dir.glob("model.ckpt-*.index")]
    return max((int(name.rpartition("-")[2]) for name in names), default=0)


def _pretrain_killed(folder: pathlib.Path, name: str) -> None:
    """Killed after step 77, with steps that no checkpoint has, then ended."""
    process, model_dir = _pretrain(folder, name), folder / name
    while _last_step(model_dir) < _KILL_AT or not _last_saved(model_dir):
        if process.poll() is not None:
            _end(process)
            sys.exit("pre-training ended before it was killed")
        time.sleep(0.005)
    process.kill()
    process.communicate()
    step, saved = _last_step(model_dir), _last_saved(model_dir)
    print(f"killed after step {step}, saved at {saved}", flush=True)
    if saved != _SAVE_EVERY:
        sys.exit(f"Expected a kill before step {2 * _SAVE_EVERY}: run it again")
    _end(_pretrain(folder, name))


def _convert(folder: pathlib.Path, source: str, target: str, format: str):
    return _start(
        *(folder, f"{_root()}/tools/convert_checkpoint.py"),
        *(f"--input={source}", f"--output={target}"),
        *(f"--output-format={format}", "--no-verify"),
    )


# --- What they wrote ----------------------------------------------------------


def _records(folder: pathlib.Path) -> Entries:
    import tensorflow as tf

    entries = Entries()
    for path in sorted(folder.glob("*tfrecord*")):
        for number, record in enumerate(tf.data.TFRecordDataset(str(path))):
            example = tf.train.Example.FromString(record.numpy())
            for name, feature in example.features.feature.items():
                entries[f"{path.name} {number:06} {name}"] = np.array(
                    feature.int64_list.value, np.int64
                )
    return entries


def _variables(folder: pathlib.Path) -> Entries:
    """Of the last checkpoint in each folder of a model directory."""
    import tensorflow as tf

    entries = Entries()
    for place in sorted({path.parent for path in folder.rglob("*.index")}):
        reader = tf.train.load_checkpoint(tf.train.latest_checkpoint(place))
        for name in reader.get_variable_to_dtype_map():
            # The object graph and the number of saves are not learned.
            if name.endswith(_IS_VALUE) and "save_counter" not in name:
                key = f"{place.relative_to(folder).as_posix()} {name}"
                entries[key] = np.asarray(reader.get_tensor(name))
    return entries


def _predictions(folder: pathlib.Path) -> Entries:
    """Labels and probabilities of the dev rows, of each trial."""
    entries = Entries()
    for path in sorted(folder.rglob("dev_predictions.tsv")):
        with open(path, encoding="utf-8", newline="") as table:
            rows = csv.reader(table, delimiter="\t", quoting=csv.QUOTE_NONE)
            columns = list(zip(*rows, strict=True))
        for name, *column in columns:
            if name in ("prediction", "fish", "none"):
                at = path.parent.relative_to(folder).as_posix()
                entries[f"{at} {name}"] = np.array(column, object)
    return entries


def _run(folder: pathlib.Path) -> dict[str, Entries]:
    """Runs the commands; what they wrote."""
    _write_inputs(folder)
    _end(_build(folder, 1), _build(folder, 2))
    straight = _pretrain(folder, "straight")
    _pretrain_killed(folder, "killed")
    _end(straight)
    finetuning = ("-m", "electra_tf.run_finetuning", *_FINETUNING)
    trials = _start(folder, *finetuning, "--model_dir=finetuned")
    for name in ("original", "huggingface"):
        _end(_convert(folder, "straight", name, name))
        _end(_convert(folder, name, f"from_{name}", "electra_tf"))
    _end(trials)
    return {
        "records, 1 process": _records(folder / "records_1"),
        "records, 2 processes": _records(folder / "records_2"),
        "pre-training": _variables(folder / "straight"),
        "pre-training, killed": _variables(folder / "killed"),
        "from original": _variables(folder / "from_original"),
        "from huggingface": _variables(folder / "from_huggingface"),
        "fine-tuning": _variables(folder / "finetuned"),
        "predictions": _predictions(folder / "finetuned"),
    }


# Both must hold the same values, in all names of the first that match.
_EQUAL = (
    ("records, 1 process", "records, 2 processes", ""),
    ("pre-training", "pre-training, killed", ""),
    ("pre-training", "from original", " (model|optimizer)/"),
    ("pre-training", "from huggingface", " model/"),  # It has no slots.
)


def _difference(first: Entries, second: Entries, pattern: str) -> str:
    """The first name whose values differ or are missing; "" for none."""
    names = [name for name in sorted(first) if re.search(pattern, name)]
    for name in names:
        if name not in second or _part(first[name]) != _part(second[name]):
            return name
    return "" if names else "no values"


def _verdict(sums: dict, before: dict | None) -> str:
    if before is None:
        return "new"
    if sums == before:
        return "equal"
    key = "sum_without_names"
    return "equal but for names" if sums[key] == before[key] else "differs"


def _machine() -> dict[str, str]:
    from importlib import metadata

    info = pathlib.Path("/proc/cpuinfo").read_text().split("\n\n")[0]
    lines = (line.partition(":") for line in info.splitlines())
    fields = {name.strip(): value.strip() for name, _, value in lines}
    flags = sorted(fields.get("flags", "").split())
    vectors = [flag for flag in flags if re.match("avx|amx|fma", flag)]
    name = fields.get("model name", os.uname().machine)
    return {
        "processor": " ".join([name, *vectors]),
        "tensorflow": metadata.version("tensorflow"),
    }


def main(argv=None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--output", help="a JSON file to write")
    parser.add_argument("--compare", help="a JSON file of an earlier run")
    args = parser.parse_args(argv)
    machine, before = _machine(), {}
    print(f"TensorFlow {machine['tensorflow']} on {machine['processor']}")
    if args.compare:
        earlier = json.loads(pathlib.Path(args.compare).read_text())
        if earlier["machine"] != machine:
            print(f"error: {args.compare} is of {earlier['machine']}")
            return 1
        before = earlier["sums"]
    with tempfile.TemporaryDirectory(prefix="sums_") as folder:
        outputs = _run(pathlib.Path(folder))
    sums = {name: entries.sums() for name, entries in outputs.items()}
    if args.output:
        text = json.dumps({"machine": machine, "sums": sums}, indent=1)
        pathlib.Path(args.output).write_text(text + "\n")
    is_good = True
    for name, of_name in sums.items():
        verdict = _verdict(of_name, before.get(name))
        is_good &= verdict == "equal" or not before
        print(
            f"{of_name['sum'][:16]} {name}, {of_name['num_values']} values: "
            f"{verdict}"
        )
    for first, second, pattern in _EQUAL:
        difference = _difference(outputs[first], outputs[second], pattern)
        is_good &= not difference
        print(f"{first} = {second}: {difference or 'equal'}")
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
