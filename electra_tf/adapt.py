"""Goes on pre-training a released ELECTRA on the text of your own field.

electra-tf adapt --checkpoint=hf://google/electra-small-discriminator \\
    --corpus_dir=texts --model_dir=models/mine

Takes the vocabulary and the sizes of the checkpoint, finds the generator that
belongs to it, builds training examples in <model_dir>_data, holds out a share
of the documents, trains both networks jointly, and ends with how well they
predict held-out text before and after. Run it again after an interruption and
it goes on. The result is fine-tuned like any other checkpoint.

By default it takes a fifth of the paper's learning rate, 10 passes over the
text, at most 100,000 steps, and batches of 128 examples of 128 tokens; of
models wider than Small 256 examples of 512.
"""

import math
import os
import subprocess
import sys

from electra_tf import configs, errors, model_directory, packaged
from electra_tf.command_line import (
    arguments,
    fastest,
    launch,
    original_hparams,
)

# A fifth of the rate of Table 6 of arXiv:2003.10555, its length and its batch:
# of ELECTRA-Small, and of what is wider.
_SMALL_WIDTH = 256
_SMALL = (1e-4, 128, 128)
_WIDER = (4e-5, 512, 256)
# How often the text is read, where it is not said, and how long that may take.
_EPOCHS = 10
_STEPS = (100, 100_000)
_EVALUATIONS = 10
_TABLE = ("masked_lm_accuracy", "masked_lm_loss", "disc_auc", "disc_loss")
# Beyond these a vocabulary does not fit; the released one needs 1.02 pieces a
# word of WikiText-2, 1.06 of IMDB's reviews, and no [UNK].
_MANY_PIECES = 1.5
_MANY_UNKNOWN = 0.01

# Flag -> the parameter that it overrides.
BINDINGS = {
    "learning_rate": "OptimizerConfig.learning_rate",
    "num_train_steps": "RunConfig.num_train_steps",
    "batch_size": "PretrainingDataConfig.train_batch_size",
    "max_seq_length": "ElectraConfig.max_seq_length",
    "micro_batch_size": "RunConfig.micro_batch_size",
}


def _prepare(values) -> launch.Base | None:
    """Builds the records; the gin file, and what the checkpoint decides."""
    if not (values.checkpoint and values.corpus_dir and values.model_dir):
        return None
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    # They import TensorFlow: late, so that --help is quick.
    from electra_tf.checkpoints import reading, sizes
    from electra_tf.pretraining_data import manifest
    from electra_tf.text import vocabulary

    path = values.checkpoint
    folder = values.model_dir.rstrip(os.sep) + "_data"
    checkpoint = reading.read_checkpoint(
        path, values.vocab_file, values.do_lower_case
    )
    encoder = checkpoint.discriminator
    if encoder is None or checkpoint.head is not None:
        held = "a generator alone"
        if checkpoint.head is not None:
            held = f"one that is fine-tuned for {checkpoint.head.kind}"
        raise errors.CheckpointError(
            "Expected a pre-trained ELECTRA with its discriminator as "
            f"--checkpoint. Received: {path}, {held}"
        )
    vocab = checkpoint.required_vocabulary(path)
    rate, length, batch_size = (
        _SMALL if encoder.hidden_size <= _SMALL_WIDTH else _WIDER
    )
    length = values.max_seq_length or length
    length = min(length, encoder.max_position_embeddings)
    batch_size = values.batch_size or batch_size
    params = [
        f"PretrainingConfig.init_checkpoint = {path!r}",
        f"ElectraConfig.max_seq_length = {length}",
        f"OptimizerConfig.learning_rate = {rate}",
        *(
            f"EncoderConfig.{name} = {value!r}"
            for name, value in sizes.as_dict(encoder).items()
        ),
        f"EncoderConfig.hidden_act = {encoder.hidden_act!r}",
        *_generator(checkpoint, path, values.generator),
    ]
    os.makedirs(folder, exist_ok=True)
    vocabulary.write(vocab, folder)
    vocab_file = os.path.join(folder, vocabulary.VOCAB_FILE)
    records = os.path.join(folder, "records")
    held_out = manifest.folder_of(records, manifest.HELDOUT)
    train, heldout = _build(values, records, vocab_file, length)
    least, most = _STEPS
    steps = math.ceil(_EPOCHS * train["examples"] / batch_size)
    steps = values.num_train_steps or min(max(steps, least), most)
    params += [
        f"PretrainingDataConfig.vocab_file = {vocab_file!r}",
        f"PretrainingDataConfig.train_files = {records + '/*tfrecord*'!r}",
        f"PretrainingDataConfig.heldout_files = {held_out + '/*tfrecord*'!r}",
        f"PretrainingDataConfig.train_batch_size = {batch_size}",
        "PretrainingDataConfig.eval_batch_size = "
        f"{min(128, heldout['examples'])}",
        f"RunConfig.num_train_steps = {steps}",
        f"RunConfig.eval_steps = {math.ceil(steps / _EVALUATIONS)}",
    ]
    return ["gin/adapt.gin"], params


def _generator(checkpoint, path: str, named: str | None) -> list[str]:
    """Finds the generator that belongs to a discriminator; its bindings."""
    from electra_tf.checkpoints import reading, sizes

    source, generator = named or "", checkpoint.generator
    if generator is None or named:
        source = named or _partner(path)
        generator = None
        if source:
            other = reading.read_checkpoint(source)
            scope = sizes.masked_lm_encoder(other.tensors)
            generator = other.encoders.get(scope or "")
            if generator is None:
                raise errors.CheckpointError(
                    "Expected a generator, a masked language model. Received: "
                    f"{source}"
                )
    encoder = checkpoint.discriminator
    if generator is None:
        share = 1 / 3 if encoder.hidden_size == 768 else 1 / 4
        width = configs.share_of(encoder.hidden_size, share)
        print(
            f"generator: none belongs to {path}, so that a new one, {width} "
            "wide, begins with the embeddings of the discriminator "
            "(--generator names one)"
        )
        sizes_of_it = {"generator_hidden_size": share}
    else:
        print(f"generator: {source or 'that of the checkpoint'}")
        sizes_of_it = {
            name: sizes.share(getattr(generator, size), getattr(encoder, size))
            for size, name in sizes.SHARES.items()
        }
    return [
        f"PretrainingConfig.init_generator_checkpoint = {source!r}",
        *(f"ElectraConfig.{name} = {v!r}" for name, v in sizes_of_it.items()),
    ]


def _partner(path: str) -> str:
    """The generator of a pair, by its name; "" where there is none."""
    from electra_tf.checkpoints import hub

    folder, name = os.path.split(path.rstrip(os.sep))
    other = os.path.join(folder, name.replace("discriminator", "generator"))
    if other == path.rstrip(os.sep):
        return ""
    if not hub.is_handle(path):
        return other if os.path.exists(other) else ""
    try:
        hub.local_path(other)
    except errors.CheckpointError as error:
        errors.warn(str(error))
        return ""
    return other


def _build(
    values, records: str, vocab_file: str, length: int
) -> tuple[dict, dict]:
    """Builds the records; totals of what is trained on, and held out."""
    from electra_tf.pretraining_data import manifest

    command = [
        *(sys.executable, str(packaged.door("electra_tf.__main__"))),
        "build-data",
        f"--corpus-dir={values.corpus_dir}",
        f"--vocab-file={vocab_file}",
        f"--output-dir={records}",
        f"--max-seq-length={length}",
        f"--heldout-fraction={values.heldout_fraction}",
        f"--num-processes={fastest.num_cores()}",
    ]
    if subprocess.run(command, check=False).returncode:
        raise errors.ConfigError(
            f"Expected training examples in {records}. Received: the end of "
            "electra-tf build-data, see above"
        )
    totals = [
        (manifest.read(folder) or {"totals": {"examples": 0}})["totals"]
        for folder in (records, manifest.folder_of(records, manifest.HELDOUT))
    ]
    if not all(total["examples"] for total in totals):
        raise errors.ConfigError(
            "Expected enough documents to hold some out. Received: "
            f"{totals[0]['examples']} examples to train on and "
            f"{totals[1]['examples']} held out of {values.corpus_dir}: raise "
            f"--heldout_fraction, {values.heldout_fraction:g} now, and mark "
            "the ends of documents by blank lines"
        )
    return totals[0], totals[1]


def _run(config, before_training, args) -> None:
    from electra_tf import pretraining
    from electra_tf.training import metrics_log

    def begin():
        before_training()
        print(_fit(config))

    metrics = pretraining.pretrain(config, begin)
    if metrics is None:  # Another worker speaks for the run.
        return
    model_dir = config.run.model_dir
    log = metrics_log.read(
        os.path.join(model_dir, model_directory.METRICS_FILE)
    )
    first = next(r for r in log if r["split"] == "heldout" and r["step"] == 0)
    print(f"{'held-out text':20} {'before':>8} {'after':>8}")
    for name in _TABLE:
        print(f"{name:20} {first[name]:8.4f} {metrics[name]:8.4f}")
    print(
        f"adapted model: {model_dir}\nnext: electra-tf finetune "
        f"--init_checkpoint={model_dir} --train_file=train.tsv"
    )


def _fit(config: configs.PretrainingConfig) -> str:
    """How well the vocabulary fits the text, in a line."""
    import numpy as np

    from electra_tf.pretraining_data import batches
    from electra_tf.text import vocabulary

    data = config.data
    tokens = vocabulary.load(data.vocab_file).tokens
    shares = batches.PretrainingData(
        data.train_files, config.model, config.run.seed
    ).token_frequencies()
    ends = [tokens.index(t) for t in ("[CLS]", "[SEP]") if t in tokens]
    shares[ends] = 0.0
    shares /= shares.sum()
    goes_on = np.array([token.startswith("##") for token in tokens])
    pieces = 1.0 / max(1e-9, 1.0 - shares[goes_on].sum())
    unknown = shares[tokens.index("[UNK]")]
    line = f"vocabulary: {pieces:.2f} pieces a word, {unknown:.2%} [UNK]"
    if pieces > _MANY_PIECES or unknown > _MANY_UNKNOWN:
        line += (
            "; it was made for other text (the released one has 1.02 pieces a "
            "word on WikiText-2 and no [UNK]): a model with a vocabulary of "
            "its own may learn more, electra-tf build-vocab"
        )
    return line


def main(argv=None) -> int:
    """Parses the flags and adapts; returns the exit code."""
    parser = launch.make_parser("electra-tf adapt", __doc__)
    arguments.add_vocabulary(parser)
    parser.add_values(
        str,
        checkpoint="The pre-trained discriminator: a folder or a checkpoint of "
        "any format that electra-tf convert reads, or hf://owner/name.",
        generator="Its generator, where it is neither in the checkpoint nor "
        "called as --checkpoint with 'generator' in place of 'discriminator'.",
        corpus_dir="Folder of text; see build-data.",
    )
    line = "Share of documents to score, not to learn."
    parser.add_argument(
        "--heldout-fraction", type=float, default=0.05, help=line
    )
    launch.add_fields(
        *(parser, BINDINGS, configs.OptimizerConfig, configs.ElectraConfig),
        *(configs.PretrainingDataConfig, configs.RunConfig),
    )
    return launch.Command(
        parser,
        configs.PretrainingConfig,
        _run,
        original_hparams.pretraining,
        BINDINGS,
        ("checkpoint", "corpus_dir", "model_dir"),
        _prepare,
    ).main(argv)


if __name__ == "__main__":
    sys.exit(main())
