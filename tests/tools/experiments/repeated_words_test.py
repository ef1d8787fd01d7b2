"""Tests of tools/experiments/repeated_words.py."""

import pytest
import repeated_words


def test_rarer_words_that_stand_in_their_window_again():
    # "t" is the most frequent; "c" is twice in the first window of five, "d"
    # once in each.
    words = list("tctcdttdts")
    assert repeated_words.share(words, 5, 1) == 2 / 5
    assert repeated_words.share(words, 10, 1) == 4 / 5


def test_what_is_left_of_the_last_window_is_not_looked_at():
    assert repeated_words.share(["a", "a", "b", "c", "b"], 2, 0) == 2 / 4


@pytest.mark.parametrize(("window", "num_frequent"), [(4, 0), (2, 2)])
def test_nothing_to_count_is_an_error(window, num_frequent):
    with pytest.raises(ValueError, match="Received: 3 words, 2 different"):
        repeated_words.share(["a", "b", "a"], window, num_frequent)


def test_files_and_folders(tmp_path, capsys):
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "1.txt").write_text("A b, A\n")
    (tmp_path / "a.txt").write_text("a\nb")
    flags = ["--window=3", "--num-frequent=1"]
    assert repeated_words.main([str(tmp_path / "b"), *flags]) == 0
    assert capsys.readouterr().out == (
        f"{tmp_path}/b: 0.0 % of the rarer words are repeated\n"
    )
    assert repeated_words.main([str(tmp_path / "a.txt"), *flags]) == 1
    assert "Received: 2 words" in capsys.readouterr().err


def test_a_folder_without_texts_is_an_error(tmp_path, capsys):
    assert repeated_words.main([str(tmp_path)]) == 1
    assert "Expected .txt files. Received: none in" in capsys.readouterr().err
