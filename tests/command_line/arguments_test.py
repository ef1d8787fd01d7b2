"""Tests of arguments.py: types of flags."""

import argparse

import pytest

from electra_tf.command_line import arguments


@pytest.mark.parametrize("text", ["1_0", " 1", "+1", "-1", "1.0", "", "٣"])
def test_digits_are_digits_alone(text):
    with pytest.raises(ValueError, match="Expected digits"):
        arguments.digits(text)
    parse = arguments.number(arguments.digits, lambda n: n < 99, "a number")
    with pytest.raises(argparse.ArgumentTypeError, match="expected a number"):
        parse(text)


def test_a_number_must_fit():
    parse = arguments.number(arguments.digits, lambda n: n < 99, "a number")
    assert parse("098") == 98
    with pytest.raises(argparse.ArgumentTypeError, match="received '99'"):
        parse("99")
