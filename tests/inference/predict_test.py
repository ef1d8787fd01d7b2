"""Tests of predict.py and of what is below it."""

import gzip
import io
import json
import math
import shutil
import sys
import types

import pytest
import tensorflow as tf

from electra_tf import predict
from electra_tf.command_line import text_lines
from electra_tf.command_line.text_lines import Line
from electra_tf.inference import exchange, predictor


class Model(tf.Module):
    """Answers with what it was asked, in the shapes of exported models."""

    @tf.function(
        input_signature=[
            tf.TensorSpec([None], tf.string, "text"),
            tf.TensorSpec([None], tf.string, "text_pair"),
        ]
    )
    def pairs(self, text, text_pair):
        length = tf.cast(tf.strings.length(text), tf.float32)
        pair_length = tf.cast(tf.strings.length(text_pair), tf.float32)
        scores = tf.stack([length, pair_length], axis=1)
        tf.debugging.assert_less(length, 100.0, "Expected a shorter text.")
        return {
            "label": tf.where(length > pair_length, "longer", "shorter"),
            "scores": scores / tf.reduce_sum(scores, axis=1, keepdims=True),
        }

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "text")])
    def one(self, text):
        return {"value": tf.cast(tf.strings.length(text), tf.float32) / 3.0}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "text")])
    def words(self, text):
        words = tf.strings.split(text)
        ones = tf.ones_like(words, tf.int32)
        starts = ones.with_flat_values(tf.cumsum(ones.flat_values) - 1)
        return {
            "words": words.to_tensor(""),
            "labels": words.to_tensor(""),
            "scores": tf.ones_like(words, tf.float32).to_tensor(0.0),
            "starts": starts.to_tensor(-1),
            "pooled_output": tf.ones([tf.size(text), 2]),
        }

    @tf.function(
        input_signature=[tf.TensorSpec([None, None], tf.int32, "input_ids")]
    )
    def ids(self, input_ids):
        return {"value": input_ids}


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """Two versions for pairs of texts, the second with its metadata."""
    folder = tmp_path_factory.mktemp("exported")
    model = Model()
    for version, call in (("2", model.one), ("10", model.pairs)):
        tf.saved_model.save(
            model, str(folder / version), {"serving_default": call}
        )
    (folder / "tmp-3").mkdir()
    extra = folder / "10" / "assets.extra"
    extra.mkdir()
    metadata = {"kind": "classification", "labels": ["longer", "shorter"]}
    (extra / "metadata.json").write_text(json.dumps(metadata))
    return folder


def answers(capsys):
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_pairs_with_their_labels(exported, capsys):
    flags = [f"--saved_model={exported}", "--batch-size=2"]
    assert predict.main([*flags, "aaa\tb", "\tbb", "\u00e9\t\u00e9\u00e9"]) == 0
    found = answers(capsys)
    scores = {"longer": 0.75, "shorter": 0.25}
    expected = {"text": "aaa", "text_pair": "b", "label": "longer"}
    assert found[0] == expected | {"scores": scores}
    assert [row["label"] for row in found[1:]] == ["shorter", "shorter"]
    assert found[1]["scores"] == {"longer": 0.0, "shorter": 1.0}
    assert found[2]["scores"] == {"longer": 0.3333333, "shorter": 0.6666667}


@pytest.fixture
def type_in(monkeypatch):
    """A function that puts bytes on standard input."""

    def put(content):
        stdin = types.SimpleNamespace(
            buffer=io.BytesIO(content), isatty=lambda: False
        )
        monkeypatch.setattr(sys, "stdin", stdin)

    return put


def test_lines_of_stdin_as_they_are(exported, capsys, type_in):
    type_in(b"\xef\xbb\xbfab\r\n\n\xff\x01a\nno end")
    assert predict.main([f"--saved_model={exported / '2'}"]) == 0
    assert answers(capsys) == [
        {"text": "ab", "value": 0.6666667},
        {"text": "", "value": 0.0},
        {"text": "\ufffd\x01a", "value": 1.0},
        {"text": "no end", "value": 2.0},
    ]


def test_a_file_that_is_not_utf_8_is_said_so(exported, capsys, tmp_path):
    path = tmp_path / "texts.txt"
    path.write_bytes(b"ab\n\xe9b\n\xe9\n")
    flags = [f"--saved-model={exported / '2'}", f"--file={path}"]
    assert predict.main(flags) == 0
    said = capsys.readouterr()
    assert said.out.count("\n") == 3
    (line,) = said.err.splitlines()
    assert line.startswith(
        f"electra-tf predict: note: {path}, line 2: not UTF-8"
    )


def test_objects_are_not_taken_for_texts(exported, capsys):
    line = '{"text": "ab", "id": 7}'
    assert predict.main([f"--saved-model={exported / '2'}", line]) == 1
    said = capsys.readouterr()
    assert not said.out and "--input-format=jsonl reads" in said.err
    flags = [f"--saved-model={exported / '2'}", "--input-format=text", line]
    assert predict.main(flags) == 0


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (b"x\ty", "texts.txt, line 4: expected 1 text(s), text, separated"),
        (b"x\0y", "texts.txt, line 4, with NUL bytes"),
    ],
)
@pytest.mark.parametrize("batch_size", [1, 2, 32])
def test_what_stands_before_a_bad_line_is_answered(
    exported, capsys, tmp_path, batch_size, bad, message
):
    path = tmp_path / "texts.txt"
    path.write_bytes(b"a\nb\nc\n" + bad + b"\nd\n")
    flags = [f"--saved-model={exported / '2'}", f"--file={path}"]
    assert predict.main([*flags, f"--batch-size={batch_size}"]) == 1
    said = capsys.readouterr()
    texts = [json.loads(line)["text"] for line in said.out.splitlines()]
    assert texts == ["a", "b", "c"]
    assert message in said.err and said.err.count("\n") == 1


def test_a_file_of_objects_to_read(exported, capsys, tmp_path):
    path = tmp_path / "texts.JSONL"
    path.write_text('{"text_pair": "b", "text": "a\\tb\\u001b["}\n')
    flags = [f"--saved-model={exported}", f"--file={path}", "--format=text"]
    assert predict.main(flags) == 0
    assert capsys.readouterr().out.splitlines() == [
        "a b\ufffd[ | b",
        "  label   longer",
        "  scores  longer 0.8333, shorter 0.1667",
    ]


def test_what_there_is_for_each_word_has_no_padding(tmp_path, capsys):
    model = Model()
    tf.saved_model.save(model, str(tmp_path), model.words)
    flags = [f"--saved_model={tmp_path}", "a", "\u4e2d bcd", ""]
    assert predict.main(flags) == 0
    first, second, empty = answers(capsys)
    expected = {"words": ["a"], "labels": ["a"], "scores": [1.0], "starts": [0]}
    assert first == {"text": "a", "pooled_output": [1.0, 1.0]} | expected
    assert second["words"] == ["\u4e2d", "bcd"] and second["starts"] == [1, 2]
    assert empty["words"] == empty["scores"] == []
    assert predict.main([*flags, "--format=text"]) == 0
    assert capsys.readouterr().out.splitlines()[:4] == [
        "a",
        "  labels         a",
        "  pooled_output  1, 1",
        "  scores         1",
    ]
    (tmp_path / "assets.extra").mkdir()
    metadata = tmp_path / "assets.extra" / "metadata.json"
    metadata.write_text('{"notes": ["assumed: 1 head"]}')
    assert predict.main([*flags, "--outputs=words"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out.splitlines()[0]) == {"text": "a", "words": ["a"]}
    assert err == "electra-tf predict: note: assumed: 1 head\n"
    assert predict.main([*flags, "--outputs=words,colour"]) == 1
    assert "Received: colour" in capsys.readouterr().err


@pytest.mark.parametrize(
    "texts, message",
    [
        (
            ["a\tb", "c"],
            "text 2: expected 2 text(s), text, text_pair, ",
        ),
        (["a\tb\tc"], "Received: 3, 'a\\tb\\tc'"),
        (["a" * 100 + "\tb"], "refused the texts: "),
    ],
)
def test_texts_that_do_not_fit(exported, capsys, texts, message):
    assert predict.main([f"--saved_model={exported}", *texts]) == 1
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        *(
            (content, "expected a JSON ob")
            for content in ("[]", "{", '{"text": 1}', '{"a": "b"}', "[" * 9999)
        ),
        ('{"text": "a", "text": "b"}', "expected a JSON ob"),
        ('{"text": "a", "text_pair": "b", "id": 7}', "each once and no other"),
        ('{"text": "\\ud800 x"}', "expected a JSON ob"),
    ],
)
def test_objects_that_do_not_fit(content, message):
    line = Line("t.jsonl, line 3", content.encode())
    with pytest.raises(ValueError, match=f"^t.jsonl, line 3: .*{message}"):
        exchange.parse_line(line, ["text"], is_json=True)


def test_objects_may_have_other_fields():
    line = Line("1", b'{"id": 7, "text": "\\ud83d\\ude00", "context": null}')
    rows = exchange.parse_line(line, ["text"], is_json=True)
    assert rows == ["\U0001f600".encode()]


def test_no_such_model(exported, tmp_path, capsys):
    def error(path):
        assert predict.main([f"--saved_model={path}", "a\tb"]) == 1
        said = capsys.readouterr().err
        assert said.count("\n") == 1
        return said

    for path in (tmp_path, tmp_path / "none"):
        assert f"electra-tf export writes them. Received: {path}" in error(path)
    version = shutil.copytree(exported / "10", tmp_path / "1")
    (data,) = (version / "variables").glob("*.data-*")
    data.write_bytes(data.read_bytes()[:10])
    assert "Cannot load the SavedModel" in error(tmp_path)
    (version / "saved_model.pb").write_bytes(b"\xff")
    assert "Cannot load the SavedModel" in error(tmp_path)


def test_the_newest_version(tmp_path):
    assert predictor.newest_version(str(tmp_path)) is None
    # Beside an export that was cut short, 11, and numbers of other digits.
    for name in ("2", "010", "11", "tmp-12", "\u00b2", "\u0661\u0663"):
        (tmp_path / name).mkdir()
        if name != "11":
            (tmp_path / name / "saved_model.pb").touch()
    assert predictor.newest_version(str(tmp_path)) == 10
    assert predictor.find_version(str(tmp_path)) == str(tmp_path / "010")
    one = str(tmp_path / "2")
    assert predictor.find_version(one) == one


def test_a_model_of_something_else(tmp_path):
    model = Model()
    tf.saved_model.save(model, str(tmp_path / "1"), {"tokens": model.ids})
    with pytest.raises(ValueError, match="signature serving_default.*tokens"):
        predictor.ExportedModel(str(tmp_path))
    tf.saved_model.save(model, str(tmp_path / "2"), model.ids)
    with pytest.raises(ValueError, match="takes input_ids <int32>"):
        predictor.ExportedModel(str(tmp_path))


def test_where_texts_come_from(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match="not both. Received: 1 text"):
        text_lines.read_batches(["a"], "b", 2)
    for path in (tmp_path, tmp_path / "none"):
        with pytest.raises(OSError, match=str(path)):
            text_lines.read_batches([], str(path), 2)
    batches = text_lines.read_batches(["a", "b", "c"], None, 2)
    assert [len(batch) for batch in batches] == [2, 1]
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(ValueError, match="a closed standard input"):
        text_lines.read_batches([], "-", 2)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", b"text,label\nwa,1\n", "whose name is that of another kind"),
        ("a.json", b"{}\n", "one text a line. Received: .*another kind"),
        ("a.ndjson", b"{}\n", "one text a line. Received: .*another kind"),
        ("a.txt", gzip.compress(b"wa\n", mtime=0), "a.txt, line 1, with NUL"),
        ("a.txt", "wa\n".encode("utf-16"), "a.txt, line 1, with NUL"),
        ("a.txt", b"wa\nw\0a\n", "a.txt, line 2, with NUL bytes$"),
    ],
)
def test_a_file_of_another_kind_has_no_texts(tmp_path, name, content, message):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message):
        list(text_lines.read_batches([], str(path), 2))


def test_numbers_that_are_none_are_no_answer(exported, capsys, monkeypatch):
    def broken(self, rows):
        self.signature = lambda **_: {"value": tf.constant([math.nan])}
        return ask(self, rows)

    ask = predictor.ExportedModel.predict
    monkeypatch.setattr(predictor.ExportedModel, "predict", broken)
    assert predict.main([f"--saved_model={exported / '2'}", "a"]) == 1
    said = capsys.readouterr()
    assert not said.out
    assert "Received: NaN in value" in said.err


def test_texts_that_are_cut_are_counted(tmp_path, capsys):
    call = tf.function(
        lambda text: {"value": text, "truncated": tf.strings.length(text) > 1},
        input_signature=[tf.TensorSpec([None], tf.string, "text")],
    )
    tf.saved_model.save(tf.Module(), str(tmp_path), call)
    flags = [f"--saved-model={tmp_path}", "--batch-size=2", "a", "ab", "c"]
    for outputs, times in (("--outputs=", 3), ("--outputs=value", 0)):
        assert predict.main([*flags, outputs]) == 0
        said = capsys.readouterr()
        assert said.out.count("truncated") == times
        assert "note: 1 of 3 texts were not read to their end" in said.err
