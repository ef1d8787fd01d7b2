"""From tokens of an answer to the answer in the passage's own spelling."""

from collections.abc import Sequence

from electra_tf import tokenization


def join_word_pieces(tokens: Sequence[str]) -> str:
    """What word pieces spell, e.g. "steve smith" of steve, smi, ##th."""
    text = " ".join(tokens).replace(" ##", "").replace("##", "")
    return " ".join(text.split())


def original_spans(
    token_texts: Sequence[str],
    original_texts: Sequence[str],
    tokenizer: tokenization.FullTokenizer,
) -> list[str]:
    """What normalised answers are in the passage's own spelling.

    The normalised text of the words that hold the answer is aligned with those
    words, character by character, white space aside. Where the numbers of
    characters differ, or the answer is not found, the words as a whole are the
    answer.

    Args:
      token_texts: Answers put together from tokens, e.g. "steve smith".
      original_texts: The words that hold them, e.g. "Steve Smith's".
      tokenizer: Normalises.

    Returns:
      E.g. "Steve Smith".
    """
    words = tokenization.split_into_words(
        list(original_texts), tokenizer.do_lower_case, tokenizer.strip_accents
    ).to_list()
    spans = []
    for token_text, original, of_text in zip(
        token_texts, original_texts, words, strict=True
    ):
        normalised = " ".join(word.decode("utf-8") for word in of_text)
        spans.append(_original_span(token_text, original, normalised))
    return spans


def _original_span(token_text: str, original: str, normalised: str) -> str:
    start = normalised.find(token_text) if token_text else -1
    places = [i for i, char in enumerate(original) if char != " "]
    if start < 0 or len(places) != len(normalised.replace(" ", "")):
        return original
    num_before = len(normalised[:start].replace(" ", ""))
    num_inside = len(token_text.replace(" ", ""))
    return original[
        places[num_before] : places[num_before + num_inside - 1] + 1
    ]
