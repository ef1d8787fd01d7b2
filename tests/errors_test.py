"""What is left of TensorFlow's messages."""

import linecache

import keras
import pytest

from electra_tf import errors


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "INVALID_ARGUMENT: DataError: received [1, 5] in record 3 of f\n"
            "Traceback (most recent call last):",
            "received [1, 5] in record 3 of f",
        ),
        (
            "assertion failed: [DataError: a label of 2] [[{{node Assert}}]]",
            "a label of 2",
        ),
        ("{{node Read}} no such file [Op:Read]\nmore", "no such file"),
    ],
)
def test_the_line_of_data_that_do_not_fit(text, expected):
    assert errors.data_error_message(ValueError(text)) == expected


@pytest.mark.parametrize(
    "text",
    [
        "Graph execution error:\n\nDetected at node Assert defined at (most "
        "recent call last):\n<stack traces unavailable>\nExpected ids.\n\t "
        "[[{{function_node __inference_9}}{{node Assert}}]] [Op:__inference_8]",
        "Graph execution error:\n\nDetected at node Assert defined at (most "
        'recent call last):\n  File "run.py", line 9, in <module>\n\n  File '
        '"model.py", line 3, in call\n    return check(ids)\n\nExpected ids.\n'
        "\t [[{{node Assert}}]] [Op:__inference_8]",
        "Graph execution error:\n\nDetected at node Assert defined at (most "
        "recent call last):\n<stack traces unavailable>\n2 root error(s) found."
        "\n  (0) INVALID_ARGUMENT:  Expected ids.\n\t [[{{node Assert}}]]\n"
        "\t [[Sum/_4]]\n  (1) INVALID_ARGUMENT:  Expected ids.\n",
        "Expected ids.\n\t [[{{node Assert}}]]",
        "{{function_node __wrapped__Read_device_CPU}} Expected ids. [Op:Read]",
        "Expected ids.",
    ],
)
def test_what_an_operation_says(text):
    assert errors.first_line(ValueError(text)) == "Expected ids."


def test_what_is_no_error_of_a_graph_stays_as_it_is():
    text = 'Expected ids.\n\n  (0) of two: File "a", {1} [2]'
    assert errors.first_line(ValueError(text)) == "Expected ids."
    assert not errors.first_line(MemoryError())


def test_a_warning_names_the_line_that_called_the_package():
    class Layer(keras.layers.Layer):
        def call(self, inputs):
            errors.warn("in a layer")  # In a layer.
            return inputs

    with pytest.warns(errors.Notice) as caught:
        errors.warn("by itself")  # By itself.
        Layer()(keras.ops.zeros(1))
    lines = [linecache.getline(w.filename, w.lineno) for w in caught]
    ends = [line.partition("# ")[2] for line in lines]
    assert ends == ["By itself.\n", "In a layer.\n"]
    assert [str(w.message) for w in caught] == ["by itself", "in a layer"]
