"""The contestant that trains with transformers and PyTorch: see worker.py.

In an environment of its own, with torch, transformers and numpy
(requirements-interop.lock): nothing of electra_tf.

A step is what a user of these libraries writes: the forward pass of the
library's own classes, fused AdamW, batches padded to their longest row. With
the setting `masked_alone` the generator's vocabulary head takes the masked
positions alone, for which its classes have no argument.

Shapes: N rows, B batch, L length, M masked tokens, V vocabulary.
"""

import csv
import json
import subprocess
import sys
import types
from collections.abc import Callable, Iterator, Mapping

import numpy as np
import torch
import transformers

Batch = dict[str, torch.Tensor]
# What the library calls the rows of a file.
_NAMES = {
    "input_ids": "input_ids",
    "input_mask": "attention_mask",
    "segment_ids": "token_type_ids",
    "label_ids": "labels",
}

# As in the original's code.
_MASK_PROB, _MASKED_TOKEN_PROB, _DISC_WEIGHT = 0.15, 0.85, 50.0


class Electra(torch.nn.Module):
    """The pre-training model: generator and discriminator, embeddings shared.

    Args:
      discriminator: Settings of a transformers.ElectraConfig.
      generator: The same.
      special_ids: Of tokens that are never masked; the last is [MASK].
      masked_alone: Whether logits are of the masked positions alone.
    """

    def __init__(self, discriminator, generator, special_ids, masked_alone):
        super().__init__()
        self.masked_alone = masked_alone
        self.generator = transformers.ElectraForMaskedLM(
            transformers.ElectraConfig(**generator)
        )
        self.discriminator = transformers.ElectraForPreTraining(
            transformers.ElectraConfig(**discriminator)
        )
        self.discriminator.electra.embeddings = (
            self.generator.electra.embeddings
        )
        self.register_buffer("special_ids", torch.tensor(special_ids))

    def forward(self, input_ids, **more) -> torch.Tensor:
        """<int64>[B, L] each -> the loss <float32>[]."""
        is_token = more["attention_mask"].bool()
        may_be_masked = is_token & ~torch.isin(input_ids, self.special_ids)
        noise = torch.rand(2, *input_ids.shape)
        is_masked = may_be_masked & (noise[0] < _MASK_PROB)
        masked_ids = input_ids.masked_fill(
            is_masked & (noise[1] < _MASKED_TOKEN_PROB), self.special_ids[-1]
        )
        # [M, V].
        logits = self._logits(is_masked, masked_ids, more).float()
        true_ids = input_ids[is_masked]
        generator_loss = torch.nn.functional.cross_entropy(logits, true_ids)
        with torch.no_grad():
            gumbel = -torch.log(torch.empty_like(logits).exponential_())
            drawn_ids = (logits + gumbel).argmax(dim=-1)
        corrupted_ids = input_ids.masked_scatter(is_masked, drawn_ids)
        scores = self.discriminator(input_ids=corrupted_ids, **more).logits
        discriminator_loss = (
            torch.nn.functional.binary_cross_entropy_with_logits(
                scores.float()[is_token],
                (corrupted_ids != input_ids)[is_token].float(),
            )
        )
        return generator_loss + _DISC_WEIGHT * discriminator_loss

    def _logits(self, is_masked, masked_ids, more) -> torch.Tensor:
        """The generator's at masked positions [M, V]."""
        if not self.masked_alone:
            return self.generator(input_ids=masked_ids, **more).logits[
                is_masked
            ]
        hidden = self.generator.electra(input_ids=masked_ids, **more)[0]
        hidden = self.generator.generator_predictions(hidden[is_masked])
        return self.generator.generator_lm_head(hidden)


def batches(rows: Mapping[str, np.ndarray], batch_size: int) -> Iterator[Batch]:
    """Rows [N, ...] in a new order every epoch, cut to a batch's longest."""
    random = np.random.default_rng(0)
    lengths = rows["input_mask"].sum(axis=-1)
    while True:
        order = random.permutation(len(lengths))
        for start in range(0, len(order) - batch_size + 1, batch_size):
            chosen = order[start : start + batch_size]
            longest = lengths[chosen].max()
            yield {
                _NAMES[name]: torch.from_numpy(
                    values[chosen, :longest]
                    if values.ndim > 1
                    else values[chosen]
                )
                for name, values in rows.items()
            }


def train(args) -> Callable[[int], dict[str, float]]:
    """The contestant, a classifier where there are `num_labels`.

    `discriminator` are settings of a transformers.ElectraConfig; rows.npz of
    the `folder` has input_ids, input_mask and segment_ids <int>[N, L], and
    label_ids <int>[N] for a classifier.
    """
    torch.manual_seed(0)
    if hasattr(args, "num_labels"):
        model = transformers.ElectraForSequenceClassification(
            transformers.ElectraConfig(
                **args.discriminator, num_labels=args.num_labels
            )
        )
    else:
        model = Electra(
            args.discriminator,
            args.generator,
            args.special_ids,
            getattr(args, "masked_alone", False),
        )

    model.train()
    optimizer = torch.optim.AdamW(
        model.parameters(),
        args.learning_rate,
        eps=1e-6,
        weight_decay=0.01,
        fused=True,
    )
    with np.load(f"{args.folder}/rows.npz") as file:
        rows = {name: file[name].astype(np.int64) for name in file.files}
    data = batches(rows, args.batch_size)

    def run(num_steps: int) -> dict[str, float]:
        for _ in range(num_steps):
            with torch.autocast(
                "cpu", torch.bfloat16, enabled=args.is_bfloat16
            ):
                loss = model(**next(data))
                loss = getattr(loss, "loss", loss)
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        return {"loss": loss.item()}

    return run


def whole(args) -> Callable[[int], dict[str, float]]:
    """The contestant that runs `fine_tune` in a process of its own."""
    code = "import sys, transformers_training as t; t.fine_tune(sys.argv[1])"
    argv = [sys.executable, "-c", code, json.dumps(vars(args))]
    folder = __file__.rpartition("/")[0]

    def run(num_steps: int) -> dict[str, float]:
        for _ in range(num_steps):
            subprocess.run(argv, check=True, cwd=folder, stdout=sys.stderr)
        return {}

    return run


def fine_tune(settings: str) -> None:
    """Loads, tokenizes batch by batch, trains, scores and saves a classifier.

    Args:
      settings: Flags and settings of whole.py, as JSON.
    """
    args = types.SimpleNamespace(**json.loads(settings))
    torch.manual_seed(0)
    columns = (args.text_columns or "text").split(",")
    train, dev = (_read(path) for path in (args.train_file, args.dev_file))
    names = sorted({row["label"] for row in train})
    tokenizer = transformers.AutoTokenizer.from_pretrained(args.checkpoint)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(
        args.checkpoint, num_labels=len(names)
    )
    optimizer = torch.optim.AdamW(model.parameters(), 3e-4, fused=True)
    num_steps = args.num_epochs * -(-len(train) // args.batch_size)
    schedule = transformers.get_linear_schedule_with_warmup(
        optimizer, num_steps // 10, num_steps
    )
    rng = np.random.default_rng(0)

    def forward(rows):
        tokens = tokenizer(
            *([row[column] for row in rows] for column in columns),
            padding=True,
            truncation=True,
            max_length=32 if args.tiny else 128,
            return_tensors="pt",
        )
        labels = torch.tensor([names.index(row["label"]) for row in rows])
        with torch.autocast("cpu", torch.bfloat16, enabled=args.is_bfloat16):
            return labels, model(**tokens, labels=labels)

    model.train()
    for _ in range(args.num_epochs):
        order = rng.permutation(len(train))
        for start in range(0, len(order), args.batch_size):
            chosen = order[start : start + args.batch_size]
            forward([train[i] for i in chosen])[1].loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
    model.eval()
    right = 0
    with torch.no_grad():
        for start in range(0, len(dev), args.batch_size):
            labels, outputs = forward(dev[start : start + args.batch_size])
            right += int((outputs.logits.argmax(-1) == labels).sum())
    print(f"accuracy {right / len(dev):.4f}")
    model.save_pretrained(f"{args.folder}/transformers")
    tokenizer.save_pretrained(f"{args.folder}/transformers")


def _read(path: str) -> list[dict[str, str]]:
    with open(path, encoding="utf-8", newline="") as file:
        if path.endswith(".csv"):
            return [*csv.DictReader(file)]
        # As in .tsv, where quotes are characters.
        return [*csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)]
