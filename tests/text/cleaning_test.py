import itertools
import random
import re

import pytest
import tensorflow as tf

from electra_tf.text import cleaning as cleaning_lib

# The emoji of the tests, as their vocabulary of other characters.
EMOJI = "😀❤\ufe0fℹ\u200d👨🇰🇷⃣☎"
URL = re.compile(
    r"https?:\/\/(www\.)?[-a-zA-Z0-9@:%._\+~#=]{1,256}"
    r"\.[a-zA-Z0-9()]{1,6}\b[-a-zA-Z0-9()@:%_\+.~#?&//=]*"
)


def _reference(text: str, keeps_emoji: bool) -> str:
    """What KcELECTRA's README says, in plain Python."""

    def is_kept(char):
        return (
            char.isascii()
            or char in "％·∼"
            or "ㄱ" <= char <= "ㅣ"
            or "가" <= char <= "힣"
            or (keeps_emoji and char in EMOJI)
        )

    text = "".join(char if is_kept(char) else "\0\0" for char in text)
    text = re.sub("(\0\0)+", " ", text)
    text = URL.sub("", text)
    shortened = []
    for char, run in itertools.groupby(text):
        length = len(list(run))
        is_word = char.isalnum() or char == "_"
        shortened.append(char * (2 if is_word and length > 3 else length))
    return " ".join("".join(shortened).split())


def _clean(texts, cleaning):
    cleaned = cleaning_lib.clean(
        tf.constant(texts, tf.string), cleaning
    ).numpy()
    return [text.decode("utf-8") for text in cleaned]


NASTY = [
    "",
    " \t\n",
    "ㅋㅋㅋㅋㅋ 안녕!!!! ㅠㅠㅠ",
    "漢字가나　다라…마바",
    "좋아요😀😀 ❤️ ℹℹℹℹℹ",
    "1000000원 ____ aaaa aaab",
    "여기 http://a.co/b?c=d 그리고 https://www.naver.com/뉴스",
    "http://naver.com보세요",
    "http://naver.com(보세요",
    "http://naver.com(가)나",
    "http://naver.com)가",
    "http://naver.com😀",
    "http://naver.comℹ",
    "http://x.y.zhttp://b.c",
    "http://.com http://a. http://a https://a.b",
    "http://a.b! http://a.b, http://a.b",
    "http://a.com_b http://a.(b http://a.()( 가",
    "HTTP://A.COM http:/a.b",
    "http://" + "a" * 300 + ".com http://" + "a" * 250 + ".com",
    "줄\n바꿈\x1c\x85끝\xa0",
    "％·∼ ‥ “인용” ᄀ ㆍ",
]


@pytest.mark.parametrize("cleaning", ["kcelectra", "kcelectra_fixed"])
def test_equals_plain_python(cleaning):
    rng = random.Random(0)
    pieces = [*"가나ㅋㅠa1_( ).!?/,:@😀ℹ漢…％·"]
    pieces += ["http://", "www.", "com", "kkkk"]
    texts = NASTY + [
        "".join(rng.choices(pieces, k=rng.randrange(25))) for _ in range(2000)
    ]
    keeps_emoji = cleaning == "kcelectra_fixed"
    for text, found in zip(texts, _clean(texts, cleaning), strict=True):
        assert found == _reference(text, keeps_emoji), text


def test_in_a_graph():
    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def clean(text):
        return cleaning_lib.clean(text, "kcelectra_fixed")

    expected = [_reference(text, keeps_emoji=True) for text in NASTY]
    found = [text.decode("utf-8") for text in clean(NASTY).numpy()]
    assert found == expected
    graph = clean.get_concrete_function().graph.as_graph_def()
    assert not {"PyFunc", "EagerPyFunc"} & {node.op for node in graph.node}
