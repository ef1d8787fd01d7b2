"""What the README and the guides tell you to type works as it stands there.

Every block of bash and Python is run, in its order, or says above it what it
needs that a test has not: <!-- needs a network -->.
"""

import dataclasses
import pathlib
import re
import shlex
import shutil

import pytest

from tests import helpers, warm

PAGES = {
    path.relative_to(helpers.ROOT).as_posix(): path.read_text("utf-8")
    for path in (
        helpers.ROOT / "README.md",
        helpers.ROOT / "docs/install.md",
        helpers.ROOT / "docs/quickstart.md",
        *sorted((helpers.ROOT / "docs/guides").glob("*.md")),
    )
}
_BLOCK = re.compile(r"^(<!-- .+ -->\n)?^```(.*)\n((?:.*\n)*?)^```$", re.M)
_LANGUAGES = {"bash", "python", "text", "gin", "bibtex"}
_RUN = ("bash", "python", "gin")
# A handle that the guides name; a very small model stands in its cache.
_HUB = "hub/models--google--electra-small-discriminator"
_SUBJECTS = {
    "cooking": "chef soup bread oven cake pie baked tasted fried spicy sweet",
    "sailing": "sailor ship sail anchor wave crew rowed towed sank salty deep",
    "garden": "tree rose lawn hedge bee tulip planted mowed picked leafy wild",
    "music": "singer violin drum choir piano song played tuned sang loud slow",
}
_SIZES = {
    "EncoderConfig.num_hidden_layers": 1,
    "EncoderConfig.hidden_size": 16,
    "EncoderConfig.intermediate_size": 32,
    "EncoderConfig.num_attention_heads": 2,
    "EncoderConfig.embedding_size": 16,
    "ElectraConfig.generator_hidden_size": 0.5,
    "PretrainingDataConfig.train_batch_size": 4,
    "OptimizerConfig.num_warmup_steps": 1,
    "RunConfig.num_train_steps": 4,
}
# As long as a test can wait, of a gin file and of what overrides it, and as
# large as its vocabulary.
_SHORTER = {"= 20000": "= 8", "= 2000": "= 2", "=20000": "=4", "=18000": "=6"}
_SHORTER |= {
    "corpus --model_dir=models/mine\n": "corpus --model_dir=models/mine "
    "--num_train_steps=20\n",
    "vocab_size=30522": "vocab_size=300",
    '{"debug": true}': '{"debug": true, "vocab_size": 300}',
}


@dataclasses.dataclass(frozen=True)
class Block:
    """A fenced block: its language, its text, and what it needs."""

    language: str
    text: str
    need: str


def blocks(page: str) -> list[Block]:
    return [
        Block(language, text, (need or "").strip())
        for need, language, text in _BLOCK.findall(PAGES[page])
    ]


def runnable(page: str) -> list[Block]:
    found = [b for b in blocks(page) if b.language in _RUN]
    return [block for block in found if not block.need]


def commands(text: str) -> list[list[str]]:
    """The words of each command of a block."""
    return [
        shlex.split(line, comments=True)
        for line in text.replace("\\\n", " ").splitlines()
        if line.strip()
    ]


def sentence(subject: str, number: int) -> str:
    words = _SUBJECTS[subject].split()
    a, b, c = (words[(number * k + k) % len(words)] for k in (1, 3, 7))
    return f"The {a} {b} the {c}."


def rows(count: int) -> list[tuple[str, str]]:
    names = list(_SUBJECTS)
    return [
        (sentence(names[i % 4], i // 4), names[i % 4]) for i in range(count)
    ]


def write_vocabulary(path: pathlib.Path) -> None:
    """300 entries."""
    words = " ".join(_SUBJECTS.values()).split()
    letters = "abcdefghijklmnopqrstuvwxyz"
    entries = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ".", "the", *words]
    entries += [*letters, *(f"##{letter}" for letter in letters)]
    entries = list(dict.fromkeys(entries))
    entries += [f"[unused{i}]" for i in range(300 - len(entries))]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(entries) + "\n")


def write_texts(folder: pathlib.Path) -> None:
    (folder / "corpus").mkdir()
    documents = [
        "\n".join(sentence(subject, start + step * k) for k in range(6))
        for start in range(11)
        for step in range(1, 6)
        for subject in _SUBJECTS
    ]
    (folder / "corpus/a.txt").write_text("\n\n".join(documents))
    for name, count in (("train", 32), ("dev", 16), ("test", 16)):
        helpers.write_tsv(folder / f"{name}.tsv", rows(count))
    lines = [f'"{text}",{label}' for text, label in rows(240)]
    (folder / "reviews.csv").write_text("\n".join(["text,label", *lines]))
    for name in ("texts", "sentences"):
        text = "\n".join(text for text, _ in rows(4))
        (folder / f"{name}.txt").write_text(text + "\n")
    (folder / "data/rhymes").mkdir(parents=True)
    for split in ("train", "dev"):
        path = folder / f"data/rhymes/{split}.txt"
        path.write_text("yes / chef / pie\nno / ship / sail\n" * 4)


def write_gin_files(folder: pathlib.Path) -> None:
    """Those of the guides' names, for very small models."""
    (folder / "gin").mkdir()
    for name, vocab_size in (("small", 300), ("base", 300)):
        sizes = _SIZES | {"EncoderConfig.vocab_size": vocab_size}
        lines = [f"include '{helpers.ROOT}/gin/{name}.gin'"]
        lines += [f"{key} = {value}" for key, value in sizes.items()]
        (folder / f"gin/{name}.gin").write_text("\n".join(lines) + "\n")


def write_checkpoints(folder: pathlib.Path, hub: pathlib.Path) -> None:
    import electra_tf
    from electra_tf.checkpoints import reading

    vocab = str(folder / "data/vocab.txt")
    preprocessor = electra_tf.Preprocessor(vocab, max_seq_length=128)
    sizes = {"num_hidden_layers": 1, "hidden_size": 16}
    sizes |= {"num_attention_heads": 2, "intermediate_size": 32}
    model = electra_tf.PretrainingModel(
        preprocessor, seed=1, generator_hidden_size=1.0, **sizes
    )
    for name in ("mine", "electra_small"):
        model.save_checkpoint(folder / "models" / name)
    checkpoint = model.to_checkpoint()
    reading.format_module("original").write(
        checkpoint, str(folder / "electra_small")
    )
    # No tensor tells the number of heads.
    (folder / "electra_small/hparams.json").write_text(
        '{"num_attention_heads": 2}'
    )
    both = hub / "both"
    reading.format_module("huggingface").write(checkpoint, str(both))
    repository = hub / _HUB
    (repository / "refs").mkdir(parents=True)
    (repository / "refs/main").write_text("0" * 40)
    shutil.copytree(
        both / "discriminator", repository / "snapshots" / ("0" * 40)
    )


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """A folder with what the guides take for granted, and who runs commands."""
    folder = tmp_path_factory.mktemp("guide")
    hub = tmp_path_factory.mktemp("huggingface")
    write_texts(folder)
    write_gin_files(folder)
    write_vocabulary(folder / "data/vocab.txt")
    write_checkpoints(folder, hub)
    (folder / "tools").symlink_to(helpers.ROOT / "tools")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_HOME", str(hub))
        patch.setenv("HF_HUB_OFFLINE", "1")
        stove = warm.Stove()
        stove.start("-m", "electra_tf", "--version").communicate()
        yield folder, stove
        stove.close()


def run(block: Block, folder: pathlib.Path, stove: warm.Stove) -> None:
    if block.language == "python":
        (folder / "block.py").write_text(block.text)
        execute(stove, folder, ["block.py"])
        return
    text = block.text
    for long, short in _SHORTER.items():
        text = text.replace(long, short)
    if block.language == "gin":
        entries = (folder / "data/vocab.txt").read_text().splitlines()
        size = f"vocab_size = {len(entries)}"
        (folder / "mine.gin").write_text(
            re.sub(r"vocab_size = \d+", size, text)
        )
        return
    for words in commands(text):
        if words[0] == "export":
            continue
        if words[0] == "electra-tf":
            words[:1] = ["python", "-m", "electra_tf"]
        assert words[0] == "python", words
        execute(stove, folder, words[1:])


def execute(stove, folder, args) -> None:
    process = stove.start(*args, cwd=folder, env=helpers.environment())
    output, errors = process.communicate(600)
    assert process.returncode == 0, f"{args}\n{output}\n{errors}"


def set_up(page: str, folder: pathlib.Path, stove) -> None:
    """What a page has done before its first block."""
    stem = pathlib.Path(page).stem
    if stem in ("adapt", "own-corpus"):
        # They make it themselves.
        shutil.rmtree(folder / "models/mine")
    if stem == "own-corpus":
        shutil.rmtree(folder / "data")
    if stem in ("from-electra", "troubleshooting", "gpus-tpus", "keras"):
        build = "build-data --corpus-dir=corpus --vocab-file=data/vocab.txt"
        where = "--output-dir=data/pretrain_tfrecords --no-preflight"
        args = shlex.split(f"-m electra_tf {build} {where}")
        execute(stove, folder, args)
    elif stem in ("serve", "checkpoints"):
        (fine_tune,) = [
            b for b in runnable("README.md") if "electra-tf finetune" in b.text
        ]
        first = Block("bash", fine_tune.text.split("electra-tf export")[0], "")
        run(first, folder, stove)
    elif stem == "add-a-task":
        task = blocks(page)[0].text
        assert sum(bool(line) for line in task.splitlines()) <= 22
        (folder / "rhymes.py").write_text(task)


@pytest.mark.dear
@pytest.mark.parametrize("page", [p for p in PAGES if runnable(p)])
def test_a_page_as_typed(page, prepared, tmp_path):
    template, stove = prepared
    folder = tmp_path / "work"
    shutil.copytree(template, folder, symlinks=True)
    set_up(page, folder, stove)
    for block in runnable(page):
        run(block, folder, stove)


@pytest.mark.parametrize("page", PAGES)
def test_blocks_are_fenced_and_say_what_they_are(page):
    found = blocks(page)
    assert {block.language for block in found} <= _LANGUAGES
    assert PAGES[page].count("```") == 2 * len(found)
    rest = _BLOCK.sub("", PAGES[page])
    assert not re.search(r"\n\n {4}\S", rest)


def test_readme_is_short():
    assert len(PAGES["README.md"].split()) <= 1000
