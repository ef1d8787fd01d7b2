"""Compares examples, features and answers with the golden ones.

features/ holds a folder with the files of each data set, the features made of
them, the order of the original's training files, and made-up model outputs
with the answers and scores that the original made of them.
"""

import functools
import json
import pathlib
import random
import re
from collections.abc import Iterator

import numpy as np

from electra_tf.finetuning import batches
from electra_tf.finetuning import configs as finetuning_configs
from electra_tf.tasks import by_name, question_answering, tagging
from electra_tf.tasks import features as features_lib
from electra_tf.tasks.task import Task
from tests import helpers
from tests.parity import comparison, finetuning_parity
from tests.parity.cases import Case
from tests.parity.check import Check

NOT_COMPARED = {
    "features/qa_postprocessing/*.npz:loss": ("made up, and read by no score"),
}

# How scores and odds are compared, relative to their size.
SCORE_TOLERANCE = 1e-6

# Which rows there are depends on the length for question answering only, whose
# order is not recorded.
_ORDER_LENGTH = 128

SPLITS = ("train", "dev", "test")
_EXAMPLE_FIELDS = (
    "eid",
    "qas_id",
    "qid",
    "question_text",
    "doc_tokens",
    "orig_answer_text",
    "start_position",
    "end_position",
    "is_impossible",
)


def cases(golden_dir: pathlib.Path) -> Iterator[Case]:
    """Everything under features/."""
    golden_dir = pathlib.Path(golden_dir)
    if not (golden_dir / "features" / "features.json").exists():
        return
    comparer = _Comparer(golden_dir)
    for folder in sorted(p for p in comparer.root.iterdir() if p.is_dir()):
        if any(folder.glob("features_*_seq*.npz")):
            yield Case(
                f"features/{folder.name}",
                functools.partial(comparer.check_text_or_tagging, folder),
            )
        elif any(folder.glob("features_*.npz")):
            yield from comparer.question_answering_cases(folder)
    for file, compare in (
        ("preprocessor_order.json", comparer.order_cases),
        ("qa_postprocessing/cases.json", comparer.answers_cases),
    ):
        path = comparer.root / file
        if path.exists():
            yield Case(f"features/{file}", functools.partial(compare, path))


def _read_jsonl(path: pathlib.Path) -> list[dict]:
    lines = path.read_text(encoding="utf-8").split("\n")
    return [json.loads(line) for line in lines if line]


def _num_different_rows(ours: list, golden: list) -> float:
    if len(ours) != len(golden):
        return float("inf")
    return float(sum(own != row for own, row in zip(ours, golden, strict=True)))


class _Comparer:
    """Holds the golden folder, and the tokenizers already made."""

    def __init__(self, golden_dir: pathlib.Path):
        self.golden_dir = golden_dir
        self.root = golden_dir / "features"
        self.figures = comparison.read_json(self.root / "features.json")
        self.tokenizer = functools.cache(self._tokenizer)

    def _check(self, case, compared, error, tolerance, *consumed) -> Check:
        return Check.of(
            f"features/{case}", compared, error, tolerance, consumed, "features"
        )

    def _tokenizer(self, vocab: str, do_lower_case: bool):
        # The original's fine-tuning knows no strip_accents.
        return helpers.make_tokenizer(
            str(self.golden_dir / "tokenization" / vocab), do_lower_case
        )

    def _candidates(self) -> list[tuple[str, bool]]:
        """Vocabularies in use; the files do not say which is whose."""
        found = [
            (entry["vocab"], entry["do_lower_case"])
            for entry in self.figures.values()
            if "vocab" in entry
        ]
        sets_path = self.golden_dir / "tokenization" / "sets.json"
        if sets_path.exists():
            found += [
                (entry["vocab"], entry["do_lower_case"])
                for entry in comparison.read_json(sets_path).values()
            ]
        return list(dict.fromkeys(found))

    def _fitting_tokenizer(self, task: Task, folder: pathlib.Path):
        """The tokenizer that gives most rows of a golden file."""
        path = sorted(folder.glob("features_*_seq*.npz"))[0]
        split, length = _parse_stem(path)
        examples = task.read_examples(split)
        with np.load(path) as golden:
            input_ids = golden["input_ids"]
            eids = golden[f"{task.name}_eid"].tolist()

        def num_equal(candidate) -> int:
            ours = task.features(examples, self.tokenizer(*candidate), length)
            rows = dict(
                zip(
                    ours[f"{task.name}_eid"].tolist(),
                    ours["input_ids"],
                    strict=True,
                )
            )
            return sum(
                eid in rows and np.array_equal(rows[eid], row)
                for eid, row in zip(eids, input_ids, strict=True)
            )

        return self.tokenizer(*max(self._candidates(), key=num_equal))

    # Classification, regression and tagging.

    def check_text_or_tagging(self, folder: pathlib.Path) -> Iterator[Check]:
        task = by_name.get_task(folder.name, folder)
        tokenizer = self._fitting_tokenizer(task, folder)
        if isinstance(task, tagging.TaggingTask):
            name = f"{folder.name}/label_mapping.json"
            golden = comparison.read_json(self.root / name)
            ours = {label: i for i, label in enumerate(task.labels)}
            yield self._check(folder.name, "labels", ours != golden, 0, name)
        for path in sorted(folder.glob("features_*_seq*.npz")):
            split, length = _parse_stem(path)
            yield from self._check_split(task, tokenizer, path, split, length)

    def _check_split(self, task, tokenizer, path, split, length):
        case = f"{path.parent.name}/{path.stem}"
        data = [p.name for p in path.parent.glob(f"{split}*.t[sx][vt]")]
        examples = task.read_examples(split)
        ours = task.features(examples, tokenizer, length, split == "train")
        ours = features_lib.combine([ours])
        is_tagging = isinstance(task, tagging.TaggingTask)
        failing: list[int] = []
        if is_tagging:
            failing = self._too_long(task, examples, tokenizer, length)
            kept = ~np.isin(ours[f"{task.name}_eid"], failing)
            ours = {name: values[kept] for name, values in ours.items()}
        with np.load(path) as goldens:
            for name in goldens.files:
                golden = goldens[name]
                own = ours.get(name)
                error = float("inf")
                if own is not None and own.dtype == golden.dtype:
                    error = comparison.num_different(own, golden)
                yield self._check(
                    case,
                    name,
                    error,
                    0,
                    f"{case}.npz:{name}",
                    *(f"{path.parent.name}/{name}" for name in data),
                )
            names = set(goldens.files)
        yield self._check(case, "names", len(names ^ set(ours)), 0)
        for key in (f"{task.name}_{split}", f"{task.name}_{split}_seq{length}"):
            if key in self.figures:
                figures = {
                    "rows": len(ours["input_ids"]),
                    "sentences": len(examples),
                    "eids_on_which_the_original_raises_AssertionError": failing,
                    "labels": getattr(task, "labels", None),
                }
                entry = self.figures[key]
                for name in figures.keys() & entry.keys():
                    yield self._check(
                        case,
                        name,
                        figures[name] != entry[name],
                        0,
                        f"features.json:{key}/{name}",
                    )
                yield from self._check_shapes(case, key, ours)

    def _check_shapes(self, case, key, ours) -> Iterator[Check]:
        shapes = self.figures[key].get("arrays")
        # Recorded for one of several lengths.
        if shapes and shapes["input_ids"] == list(ours["input_ids"].shape):
            own = {name: list(values.shape) for name, values in ours.items()}
            yield self._check(
                case,
                "shapes",
                own != shapes,
                0,
                f"features.json:{key}/arrays",
            )

    def _too_long(self, task, examples, tokenizer, length) -> list[int]:
        """Sentences that the original's own assertion stops."""
        too_long = []
        for example in examples:
            tokens = task.word_tokens(example.words, tokenizer)
            row, _ = task.pack(tokens, tokenizer, length)
            if len(row) > length:
                too_long.append(example.eid)
        return too_long

    # Question answering.

    def question_answering_cases(self, folder) -> Iterator[Case]:
        for key in sorted(self.figures):
            if key.rpartition("_")[0] == folder.name:
                yield Case(
                    f"features/{key}",
                    functools.partial(
                        self._check_question_answering, folder, key
                    ),
                )

    def _check_question_answering(self, folder, key: str) -> Iterator[Check]:
        entry = self.figures[key]
        task = by_name.get_task(
            entry["task"], folder, qa_config=finetuning_parity.qa_config(entry)
        )
        tokenizer = self.tokenizer(entry["vocab"], entry["do_lower_case"])
        settings = [
            f"features.json:{key}/{name}"
            for name in entry
            if name not in SPLITS
        ]
        for split in SPLITS:
            if split in entry:
                yield from self._check_questions(
                    task, tokenizer, folder, key, split, settings
                )

    def _check_questions(self, task, tokenizer, folder, key, split, settings):
        variant = key.rpartition("_")[2]
        length = self.figures[key]["max_seq_length"]
        examples = task.read_examples(split)
        case = f"{folder.name}/features_{split}_{variant}"
        path = self.root / f"{folder.name}/examples_{split}.jsonl"
        if path.exists():
            ours = [
                {name: getattr(e, name) for name in _EXAMPLE_FIELDS}
                for e in examples
            ]
            yield self._check(
                case,
                "examples",
                _num_different_rows(ours, _read_jsonl(path)),
                0,
                f"{folder.name}/{path.name}",
                *(
                    f"{folder.name}/{data.name}"
                    for data in folder.glob(f"{split}.json*")
                ),
            )
        is_training = split == "train"
        ours = features_lib.combine(
            [task.features(examples, tokenizer, length, is_training)]
        )
        with np.load(self.root / f"{case}.npz") as goldens:
            for name in goldens.files:
                error = float("inf")
                if name in ours:
                    error = comparison.num_different(ours[name], goldens[name])
                yield self._check(
                    case, name, error, 0, f"{case}.npz:{name}", *settings
                )
            names = set(goldens.files)
        yield self._check(case, "names", len(names ^ set(ours)), 0)
        figures = {
            "examples": len(examples),
            "features": len(ours["input_ids"]),
        }
        yield self._check(
            case,
            "counts",
            figures != self.figures[key][split],
            0,
            f"features.json:{key}/{split}",
            *(f"features.json:{key}/{split}/{name}" for name in figures),
        )
        path = self.root / f"{case}.jsonl"
        if path.exists():
            ours = [
                {
                    "eid": window.eid,
                    "doc_span_index": window.doc_span_index,
                    "n_tokens": len(window.input_ids),
                    "first_doc_token": window.first_doc_token,
                    "token_to_orig": window.token_to_orig,
                    "is_max_context": [int(x) for x in window.is_max_context],
                }
                for window in task.windows(examples, tokenizer, length)
            ]
            yield self._check(
                case,
                "windows",
                _num_different_rows(ours, _read_jsonl(path)),
                0,
                f"{case}.jsonl",
            )

    # The order of the original's files for training and prediction.

    def order_cases(self, path: pathlib.Path) -> Iterator[Case]:
        for key, entry in comparison.read_json(path).items():
            names = (
                [key]
                if (self.root / key).is_dir()
                else re.split(r"[^a-z0-9]+", key)
            )
            yield Case(
                f"features/preprocessor_order/{key}",
                functools.partial(self._check_order, key, entry, names),
            )

    def _check_order(self, key, entry, names) -> Iterator[Check]:
        of_order = [by_name.get_task(n, self.root / n) for n in names]
        tokenizers = [
            self._fitting_tokenizer(task, self.root / task.name)
            for task in of_order
        ]
        file = "preprocessor_order.json"
        for split, prefix, steps in (
            ("train", "train", "train_steps"),
            ("dev", "eval", "predict_steps"),
        ):
            examples = [
                (number, example)
                for number, task in enumerate(of_order)
                for example in task.read_examples(split)
            ]
            if split == "train":
                random.Random(entry["seed"]).shuffle(examples)
            rows: list[dict[int, list[int]]] = []
            of_tasks = []
            for number, (task, tokenizer) in enumerate(
                zip(of_order, tokenizers, strict=True)
            ):
                features = task.features(
                    [e for n, e in examples if n == number],
                    tokenizer,
                    _ORDER_LENGTH,
                    split == "train",
                )
                of_tasks.append(features)
                rows.append(_rows_of_examples(task, features))
            pairs = [
                [number, eid]
                for number, example in examples
                for eid in rows[number][example.eid]
            ]
            batch_size = entry[f"{prefix}_batch_size"]
            num_epochs = entry["num_train_epochs"]
            data = finetuning_configs.FinetuningDataConfig(
                train_file="train",
                dev_file="dev",
                train_batch_size=batch_size,
                num_train_epochs=num_epochs if split == "train" else 1,
            )
            num_steps = data.num_train_steps(len(pairs))
            # The original fills the last batch up with rows of no task.
            ours = [
                pairs[row] if row != batches.PADDING else [len(of_order), 0]
                for row in batches.in_batches(
                    np.arange(len(pairs)), batch_size
                ).flat
            ]
            name = f"{split}_task_id_and_eid_in_file_order"
            yield self._check(
                f"preprocessor_order/{key}",
                name,
                _num_different_rows(ours, entry[name]),
                0,
                f"{file}:{key}/{name}",
                f"{file}:{key}/seed",
                f"{file}:{key}/{prefix}_batch_size",
            )
            yield self._check(
                f"preprocessor_order/{key}",
                steps,
                abs(num_steps - entry[steps]),
                0,
                f"{file}:{key}/{steps}",
                f"{file}:{key}/num_train_epochs",
            )
            if split == "train":
                yield from self._check_epoch(
                    key, entry, of_order, of_tasks, batch_size
                )

    def _check_epoch(
        self, key, entry, of_order, of_tasks, batch_size
    ) -> Iterator[Check]:
        """What an epoch is made of when it is trained on, in any order."""
        file = "preprocessor_order.json"
        name = "train_task_id_and_eid_in_file_order"
        dataset = batches.train_dataset(
            features_lib.combine(of_tasks), entry["seed"], batch_size
        )
        yield self._check(
            f"preprocessor_order/{key}",
            "feature_names",
            sorted(dataset.element_spec) != entry["feature_names"],
            0,
            f"{file}:{key}/feature_names",
        )
        num_batches = len(entry[name]) // batch_size
        eids = [f"{task.name}_eid" for task in of_order]
        ours = [
            [int(task), int(sum(batch[eid][row] for eid in eids))]
            for batch in dataset.take(num_batches).as_numpy_iterator()
            for row, task in enumerate(batch["task_id"])
        ]
        yield self._check(
            f"preprocessor_order/{key}",
            "rows of an epoch, with padding rows",
            _num_different_rows(sorted(ours), sorted(entry[name])),
            0,
            f"{file}:{key}/{name}",
        )

    # From model outputs to answers and scores.

    def answers_cases(self, path: pathlib.Path) -> Iterator[Case]:
        for name, case in sorted(comparison.read_json(path).items()):
            yield Case(
                f"features/qa_postprocessing/{name}",
                functools.partial(self._check_answers, name, case),
            )

    def _check_answers(self, name: str, case: dict) -> Iterator[Check]:
        data = pathlib.PurePosixPath(case["data"])
        task = by_name.get_task(
            case["task"],
            self.root / data.parent,
            qa_config=finetuning_parity.qa_config(case["config"]),
        )
        assert isinstance(task, question_answering.QuestionAnsweringTask)
        tokenizer = self.tokenizer(case["vocab"], case["do_lower_case"])
        length = case["config"]["max_seq_length"]
        examples = task.read_examples(data.stem)
        windows = task.windows(examples, tokenizer, length)
        prefix = f"qa_postprocessing/{name}"
        outputs = comparison.read_npz(self.root / f"{prefix}_model_outputs.npz")
        row_of = {eid: row for row, eid in enumerate(outputs["eid"].tolist())}
        rows = [row_of[window.eid] for window in windows]
        ours = {key: values[rows] for key, values in outputs.items()}
        # As the original's model says with joint prediction.
        ours.setdefault("end_logits", np.zeros_like(ours["start_logits"]))
        predictions = task.predict(ours, examples, tokenizer, length)
        golden = comparison.read_json(self.root / f"{prefix}_predictions.json")
        yield self._check(
            prefix,
            "predictions",
            len(_differing(predictions.texts, golden)),
            0,
            f"{prefix}_predictions.json",
            f"qa_postprocessing/cases.json:{name}/config",
            f"qa_postprocessing/cases.json:{name}/data",
            f"qa_postprocessing/cases.json:{name}/do_lower_case",
            f"qa_postprocessing/cases.json:{name}/task",
            f"qa_postprocessing/cases.json:{name}/vocab",
            *(
                f"{prefix}_model_outputs.npz:{key}"
                for key in outputs
                if key != "loss"
            ),
        )
        path = self.root / f"{prefix}_null_odds.json"
        golden = comparison.read_json(path) if path.exists() else {}
        names = sorted(golden)
        error = float("inf")
        if set(names) == set(predictions.null_odds):
            error = comparison.relative_error(
                [predictions.null_odds[n] for n in names],
                [golden[n] for n in names],
            )
        yield self._check(
            prefix,
            "odds of no answer",
            error,
            SCORE_TOLERANCE,
            *([f"{prefix}_null_odds.json"] if path.exists() else []),
        )
        scores = task.scores(ours, examples, tokenizer, length)
        # The keys of one evaluation, all of them and no others.
        yield self._check(
            prefix,
            "names of scores",
            len(set(scores) ^ set(case["results"])),
            0,
        )
        for metric, value in case["results"].items():
            if metric in scores:
                yield self._check(
                    prefix,
                    f"score: {metric}",
                    comparison.relative_error(scores[metric], value),
                    SCORE_TOLERANCE,
                    f"qa_postprocessing/cases.json:{name}/results",
                    f"qa_postprocessing/cases.json:{name}/results/{metric}",
                )


def _rows_of_examples(task, features) -> dict[int, list[int]]:
    """The eids of the rows that each example became."""
    rows: dict[int, list[int]] = {}
    has_windows = isinstance(task, question_answering.QuestionAnsweringTask)
    for eid in features[f"{task.name}_eid"].tolist():
        example_eid = eid // 1000 if has_windows else eid
        rows.setdefault(example_eid, []).append(eid)
    return rows


def _differing(ours: dict, golden: dict) -> list[str]:
    return [
        key
        for key in sorted(set(ours) | set(golden))
        if ours.get(key) != golden.get(key)
    ]


def _parse_stem(path: pathlib.Path) -> tuple[str, int]:
    """features_train_seq40 -> ("train", 40)."""
    match = re.fullmatch(r"features_(\w+)_seq(\d+)", path.stem)
    assert match, path
    return match.group(1), int(match.group(2))
