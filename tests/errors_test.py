"""What is left of TensorFlow's messages."""

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
        "Expected ids.\n\t [[{{node Assert}}]]",
        "{{function_node __wrapped__Read_device_CPU}} Expected ids. [Op:Read]",
        "Expected ids.",
    ],
)
def test_what_an_operation_says(text):
    assert errors.cause_in_graph(text) == "Expected ids."
