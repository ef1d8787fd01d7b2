"""What an answer costs on this machine: time of one text, texts a second.

To be compared with what a service asks for the same. Measured once in a run, on
some of dev's rows in an order drawn at random, from text to answer; kept in the
model directory, so that a run that is started again says the same.
"""

import os
import platform
import statistics
import time
import typing
from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from electra_tf import errors, model_directory
from electra_tf.command_line import fastest
from electra_tf.files import read_json, write_json
from electra_tf.finetuning import batches, fitting
from electra_tf.finetuning.plan import RunPlan
from electra_tf.finetuning.task_data import TaskData
from electra_tf.finetuning.tasks.text_tasks import TextTask
from electra_tf.model.finetuning_model import FinetuningModel

# In the model directory.
COST_FILE = "cost.json"

# For one text at a time, and as much for several; first calls included.
_SECONDS = 1.5
_MOST_CALLS = 20
_SPLIT = "dev"


def of_run(plan: RunPlan, best: dict) -> dict:
    """What an answer of a run's best model costs; measured once.

    Args:
      plan: Of the run.
      best: The record of its trial.

    Returns:
      See `measure`, with "processor", its name, and "threads"; nothing on a
      TPU, to which texts do not go, and where the model is no longer there.
    """
    path = os.path.join(plan.run.model_dir, COST_FILE)
    if os.path.exists(path):
        return read_json(path)
    if plan.run.distribution_strategy == "tpu":
        return {}
    tasks = plan.folds[best.get("fold", 1) - 1]
    directory = model_directory.trial_dir(plan.run.model_dir, best["trial"])
    try:
        model = fitting.trained_model(
            directory, plan.start.encoder_config, tasks
        )
    except errors.CheckpointError:
        return {}
    found = measure(model, tasks, plan.data.eval_batch_size) | {
        "processor": processor(),
        "threads": plan.run.num_intra_op_threads or fastest.num_cores(),
    }
    write_json(path, found)
    return found


def measure(
    model: FinetuningModel, tasks: Sequence[TaskData], batch_size: int
) -> dict:
    """How long a model takes for texts of dev; some three seconds.

    Args:
      model: The fine-tuned model.
      tasks: Of its heads; the first one's rows are asked about.
      batch_size: Of texts that are asked about at once, or fewer where these
        take too long.

    Returns:
      "task"; "ms_per_text", the median of single texts; "texts_per_second", of
      "batch_size" at once; "unit", what a text is here: of question answering a
      window; "from_text", whether that includes tokenization.
    """
    data = tasks[0]
    from_text = isinstance(data.task, TextTask) and len(tasks) == 1
    prepare, ask = (_from_texts if from_text else _from_tokens)(model, data)
    num_rows = len(data.features[_SPLIT]["input_ids"])
    rows = np.random.default_rng(0).permutation(num_rows)
    alone = statistics.median(
        _seconds(ask, prepare, np.split(rows, len(rows))[:_MOST_CALLS])
    )
    # A call twice.
    size = int(max(1, min(len(rows), batch_size, _SECONDS / 2 / alone)))
    groups = [
        rows[first : first + size]
        for first in range(0, len(rows) - size + 1, size)
    ]
    together = _seconds(ask, prepare, groups[:_MOST_CALLS])
    return {
        "task": data.task.name,
        "ms_per_text": 1e3 * alone,
        "texts_per_second": size / statistics.fmean(together),
        "batch_size": size,
        "unit": "text" if num_rows == data.num_rows[_SPLIT] else "window",
        "from_text": from_text,
    }


def _seconds(
    ask: Callable[[typing.Any], typing.Any],
    prepare: Callable[[np.ndarray], typing.Any],
    groups: Sequence[np.ndarray],
) -> list[float]:
    """Seconds of each call, until the time is up; at least of one."""
    end = time.perf_counter() + _SECONDS
    found: list[float] = []
    for rows in groups:
        given = prepare(rows)
        ask(given)  # Compiles what this length needs.
        begin = time.perf_counter()
        ask(given)
        found.append(time.perf_counter() - begin)
        if time.perf_counter() > end:
            break
    return found


def _from_texts(model: FinetuningModel, data: TaskData):
    """Row numbers -> texts, and texts -> answers."""
    examples, name = data.examples[_SPLIT], data.task.name
    tokenizer = data.tokenizer
    assert tokenizer is not None
    most = data.max_seq_length
    if data.windows is not None:
        most = data.windows.most_tokens
    num_columns = 1 + data.has_pairs
    texts = [
        [example.text_a, example.text_b or ""][:num_columns]
        for example in examples
    ]
    spec = tf.TensorSpec([None], tf.string)

    @tf.function(input_signature=[spec] * num_columns)
    def answer(*columns):
        tokens = [tokenizer.tokenize(column) for column in columns]
        features = tokenizer.pack_inputs(tokens, most)
        return model(features)["task_outputs"][name]

    def prepare(rows):
        columns = zip(*(texts[row] for row in rows), strict=True)
        return [tf.constant(column, tf.string) for column in columns]

    return prepare, lambda columns: _to_host(answer(*columns))


def _from_tokens(model: FinetuningModel, data: TaskData):
    """Row numbers -> features, and features -> answers."""
    features, name = data.features[_SPLIT], data.task.name
    _, spec = batches.eval_dataset(features, 1).element_spec

    @tf.function(input_signature=[spec])
    def answer(batch):
        return model(batch, only=name)["task_outputs"][name]

    def prepare(rows):
        selected = {key: values[rows] for key, values in features.items()}
        ((_, batch),) = batches.eval_dataset(selected, len(rows))
        return batch

    return prepare, lambda batch: _to_host(answer(batch))


def _to_host(outputs: dict[str, tf.Tensor]) -> list[np.ndarray]:
    """Waits for the answer."""
    return [values.numpy() for values in outputs.values()]


def in_words(cost: dict) -> str:
    """A line for the table.

    Args:
      cost: Of `of_run`.
    """
    threads, unit = cost["threads"], cost["unit"]
    return (
        f"cost of an answer: {_number(cost['ms_per_text'])} ms for a {unit} "
        f"alone, {_number(cost['texts_per_second'])} {unit}s a second "
        f"{cost['batch_size']} at a time"
        + ("" if cost["from_text"] else ", without tokenization")
        + f" ({cost['processor']}, {threads} thread"
        + ("s)" if threads > 1 else ")")
    )


def _number(value: float) -> str:
    """With three digits or more."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def processor() -> str:
    """The name of what TensorFlow computes on."""
    for gpu in tf.config.get_visible_devices("GPU"):
        details = tf.config.experimental.get_device_details(gpu)
        if "device_name" in details:
            return details["device_name"]
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as f:
            for line in f:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
