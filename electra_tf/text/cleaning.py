"""The cleaning that some checkpoints' training text went through.

In graph ops, so that it is part of an exported model. KoELECTRA was trained on
text as it is. KcELECTRA's authors publish a function `clean` (README of
Beomi/KcELECTRA) and ask to apply it:

1. Runs of characters other than ASCII, ％ · ∼, Hangul syllables and letters,
   and emoji become a space.
2. Web addresses vanish.
3. A letter or digit that occurs four times or more in a row occurs twice.
4. White space becomes one space, and none at the ends.

Their list of emoji comes from a package whose releases since 1.0 leave it
empty, so that the function deletes emoji; their later README does so on
purpose. "kcelectra" follows it, "kcelectra_fixed" keeps emoji, as the list was
meant to and as the vocabulary expects.

Shapes: B lines.
"""

import re

import tensorflow as tf

CLEANINGS = ("none", "kcelectra", "kcelectra_fixed")

_KEPT = "00-7F B7 223C 3131-3163 AC00-D7A3 FF05"

# Every code point beyond ASCII of the sequences of Unicode's Emoji 12.0, which
# emoji 0.6.0, the release that KcELECTRA's authors name, has.
_EMOJI = """
A9 AE 200D 203C 2049 20E3 2122 2139 2194-2199 21A9-21AA 231A-231B 2328 23CF
23E9-23F3 23F8-23FA 24C2 25AA-25AB 25B6 25C0 25FB-25FE 2600-2604 260E 2611
2614-2615 2618 261D 2620 2622-2623 2626 262A 262E-262F 2638-263A 2640 2642
2648-2653 265F-2660 2663 2665-2666 2668 267B 267E-267F 2692-2697 2699 269B-269C
26A0-26A1 26AA-26AB 26B0-26B1 26BD-26BE 26C4-26C5 26C8 26CE-26CF 26D1 26D3-26D4
26E9-26EA 26F0-26F5 26F7-26FA 26FD 2702 2705 2708-270D 270F 2712 2714 2716 271D
2721 2728 2733-2734 2744 2747 274C 274E 2753-2755 2757 2763-2764 2795-2797 27A1
27B0 27BF 2934-2935 2B05-2B07 2B1B-2B1C 2B50 2B55 3030 303D 3297 3299 FE0F 1F004
1F0CF 1F170-1F171 1F17E-1F17F 1F18E 1F191-1F19A 1F1E6-1F1FF 1F201-1F202 1F21A
1F22F 1F232-1F23A 1F250-1F251 1F300-1F321 1F324-1F393 1F396-1F397 1F399-1F39B
1F39E-1F3F0 1F3F3-1F3F5 1F3F7-1F4FD 1F4FF-1F53D 1F549-1F54E 1F550-1F567
1F56F-1F570 1F573-1F57A 1F587 1F58A-1F58D 1F590 1F595-1F596 1F5A4-1F5A5 1F5A8
1F5B1-1F5B2 1F5BC 1F5C2-1F5C4 1F5D1-1F5D3 1F5DC-1F5DE 1F5E1 1F5E3 1F5E8 1F5EF
1F5F3 1F5FA-1F64F 1F680-1F6C5 1F6CB-1F6D2 1F6D5 1F6E0-1F6E5 1F6E9 1F6EB-1F6EC
1F6F0 1F6F3-1F6FA 1F7E0-1F7EB 1F90D-1F93A 1F93C-1F945 1F947-1F971 1F973-1F976
1F97A-1F9A2 1F9A5-1F9AA 1F9AE-1F9CA 1F9CD-1F9FF 1FA70-1FA73 1FA78-1FA7A
1FA80-1FA82 1FA90-1FA95 E0062-E0063 E0065 E0067 E006C E006E E0073-E0074 E0077
E007F
"""

# What is left beyond ASCII and counts as a letter in Python's \w and \b: Hangul
# and the emoji of information, U+2139.
_LETTERS = ((0x3131, 0x3163), (0xAC00, 0xD7A3), (0x2139, 0x2139))
_WORD_RANGES = (
    *((ord(first), ord(last)) for first, last in ("09", "AZ", "__", "az")),
    *_LETTERS,
)


def ranges(table: str) -> str:
    """Hex ranges as an RE2 class has them, e.g. `\\x{41}-\\x{5A}`."""
    return "".join(re.sub("([0-9A-F]+)", r"\\x{\1}", table).split())


def _url_pattern() -> str:
    """KcELECTRA's pattern of web addresses, for RE2.

    Theirs is https?://(www.)?D{1,256}.T{1,6}\\bR*, of classes of ASCII
    characters with D and T within R. So an address ends where the run of R
    ends; what must be somewhere in it is a dot, a top-level domain T and a word
    boundary. RE2's boundary knows ASCII letters only: inside the run that is
    enough, at its end the next character decides, which is captured to be put
    back.
    """
    letters = "".join(f"\\x{{{a:X}}}-\\x{{{b:X}}}" for a, b in _LETTERS)
    domain = r"https?://(?:www\.)?[-a-zA-Z0-9@:%._+~#=]{1,256}\."
    top = r"[a-zA-Z0-9()]{0,5}"
    rest = r"[-a-zA-Z0-9()@:%_+.~#?&/=]"
    inside = rf"(?:[a-zA-Z0-9][-()@:%+.~#?&/=]|[()][a-zA-Z0-9_]){rest}*"
    at_end = (
        rf"(?:[a-zA-Z0-9](?:\z|([^-a-zA-Z0-9()@:%_+.~#?&/={letters}]))"
        rf"|[()]([{letters}]))"
    )
    return f"{domain}{top}(?:{inside}|{at_end})"


_URL = _url_pattern()


def check(cleaning: str) -> None:
    """Refuses a name that is not in `CLEANINGS`.

    Raises:
      ValueError: If it is not.
    """
    if cleaning not in CLEANINGS:
        raise ValueError(
            f"Expected one of the text cleanings {', '.join(CLEANINGS)}. "
            f"Received: {cleaning!r}."
        )


def clean(text: tf.Tensor, cleaning: str) -> tf.Tensor:
    """Cleans lines of text.

    Args:
      text: <string>[B], UTF-8; invalid bytes are skipped unless the cleaning is
        "none".
      cleaning: One of `CLEANINGS`.

    Returns:
      <string>[B].
    """
    check(cleaning)
    if cleaning == "none":
        return text
    kept = ranges(_KEPT + (_EMOJI if cleaning == "kcelectra_fixed" else ""))
    text = tf.strings.unicode_transcode(
        text, input_encoding="UTF-8", output_encoding="UTF-8", errors="ignore"
    )
    text = tf.strings.regex_replace(text, f"[^{kept}]+", " ")
    text = tf.strings.regex_replace(text, _URL, r"\1\2")
    text = _shorten_runs(text)
    text = tf.strings.regex_replace(text, r"[\x09-\x0D\x1C-\x20]+", " ")
    return tf.strings.strip(text)


def _shorten_runs(text: tf.Tensor) -> tf.Tensor:
    """Leaves two of a letter or digit that occurs four times in a row.

    RE2 has no references to groups, so runs are found by comparing neighbours.
    """
    chars = tf.strings.unicode_decode(text, "UTF-8", errors="ignore")
    codes, lines = chars.flat_values, chars.value_rowids()
    num_chars = tf.size(codes)
    index = tf.range(num_chars)
    before = tf.maximum(index - 1, 0)
    goes_on = (
        (index > 0)
        & (codes == tf.gather(codes, before))
        & (lines == tf.gather(lines, before))
    )
    run = tf.cumsum(tf.cast(~goes_on, tf.int32)) - 1
    length = tf.math.unsorted_segment_sum(tf.ones_like(run), run, num_chars)
    first = tf.math.unsorted_segment_min(index, run, num_chars)
    is_word = tf.zeros_like(goes_on)
    for low, high in _WORD_RANGES:
        is_word |= (codes >= low) & (codes <= high)
    is_too_much = (
        is_word
        & (tf.gather(length, run) > 3)
        & (index - tf.gather(first, run) >= 2)
    )
    return tf.strings.unicode_encode(
        tf.ragged.boolean_mask(chars, chars.with_flat_values(~is_too_much)),
        "UTF-8",
    )
