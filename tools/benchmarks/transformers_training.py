"""Trains with transformers and PyTorch, for the benchmarks to compare with.

    python tools/benchmarks/transformers_training.py --settings='{...}'

A script of an environment of its own, with torch, transformers and numpy
(requirements-interop.lock): nothing of electra_tf. `transformers_worker.py`
starts it, and says there what the settings are.

A step is what a user of these libraries writes: the forward pass of the
library's own classes, fused AdamW, batches padded to their longest row. With
the setting `masked_alone` the generator's vocabulary head takes the masked
positions alone, for which its classes have no argument.

Reads numbers of steps from stdin, a line each; answers with JSON.

Shapes: N rows, B batch, L length, M masked tokens, V vocabulary.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
import transformers

Batch = dict[str, torch.Tensor]

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

    def forward(self, input_ids, input_mask, segment_ids) -> torch.Tensor:
        """<int64>[B, L] each -> the loss <float32>[]."""
        may_be_masked = input_mask.bool() & ~torch.isin(
            input_ids, self.special_ids
        )
        noise = torch.rand(2, *input_ids.shape)
        is_masked = may_be_masked & (noise[0] < _MASK_PROB)
        masked_ids = input_ids.masked_fill(
            is_masked & (noise[1] < _MASKED_TOKEN_PROB), self.special_ids[-1]
        )
        more = {"attention_mask": input_mask, "token_type_ids": segment_ids}
        # [M, V].
        logits = self._logits(is_masked, masked_ids, more).float()
        true_ids = input_ids[is_masked]
        generator_loss = torch.nn.functional.cross_entropy(logits, true_ids)
        with torch.no_grad():
            gumbel = -torch.log(torch.empty_like(logits).exponential_())
            drawn_ids = (logits + gumbel).argmax(dim=-1)
        corrupted_ids = input_ids.masked_scatter(is_masked, drawn_ids)
        scores = self.discriminator(input_ids=corrupted_ids, **more).logits
        is_token = input_mask.bool()
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


class Classifier(torch.nn.Module):
    """A text classifier in fine-tuning.

    Args:
      discriminator: Settings of a transformers.ElectraConfig.
      num_labels: How many labels there are.
    """

    def __init__(self, discriminator, num_labels):
        super().__init__()
        self.model = transformers.ElectraForSequenceClassification(
            transformers.ElectraConfig(**discriminator, num_labels=num_labels)
        )

    def forward(
        self, input_ids, input_mask, segment_ids, label_ids
    ) -> torch.Tensor:
        """<int64>[B, L] three times, [B] -> the loss <float32>[]."""
        return self.model(
            input_ids=input_ids,
            attention_mask=input_mask,
            token_type_ids=segment_ids,
            labels=label_ids,
        ).loss


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
                name: torch.from_numpy(
                    values[chosen, :longest]
                    if values.ndim > 1
                    else values[chosen]
                )
                for name, values in rows.items()
            }


def make_step(settings: Mapping[str, Any]) -> Callable[[], torch.Tensor]:
    """What does a step and returns its loss <float32>[]."""
    torch.manual_seed(0)
    model = (
        Classifier(settings["discriminator"], settings["num_labels"])
        if "num_labels" in settings
        else Electra(
            settings["discriminator"],
            settings["generator"],
            settings["special_ids"],
            settings["masked_alone"],
        )
    )
    model.train()
    optimizer = torch.optim.AdamW(
        model.parameters(),
        settings["learning_rate"],
        eps=1e-6,
        weight_decay=0.01,
        fused=True,
    )
    with np.load(settings["rows"]) as file:
        rows = {name: file[name].astype(np.int64) for name in file.files}
    data = batches(rows, settings["batch_size"])

    def step() -> torch.Tensor:
        with torch.autocast(
            "cpu", torch.bfloat16, enabled=settings["is_bfloat16"]
        ):
            loss = model(**next(data))
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.detach()

    return step


def main() -> None:
    """Answers each number of steps with seconds, CPU seconds and a loss."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--settings", type=json.loads, required=True)
    step = make_step(parser.parse_args().settings)
    for line in sys.stdin:
        num_steps = int(line)
        start, cpu_start = time.perf_counter(), time.process_time()
        for _ in range(num_steps):
            loss = step()
        answer = {
            "num_steps": num_steps,
            "seconds": time.perf_counter() - start,
            "cpu_seconds": time.process_time() - cpu_start,
            "loss": loss.item(),
        }
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
