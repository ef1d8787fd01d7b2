import pytest

from electra_tf.keras_models import columns


@pytest.mark.parametrize(
    "y", [(("wd", 3), ("we", 0), ("", 0), ("wf", 1)), (["a"], [], ["b"], ["c"])]
)
def test_a_tuple_of_labels_is_one_of_rows(y):
    x = (["wa", "wb", "wc", "wd"], ["we", "wf", "wg", "wh"])
    weights = (0.0, 1.0, 2.0, 3.0)
    first, last = columns.split(x, y, weights, 0.25)
    assert first == (
        (["wa", "wb", "wc"], ["we", "wf", "wg"]),
        list(y[:3]),
        [0.0, 1.0, 2.0],
    )
    assert last == ((["wd"], ["wh"]), [y[3]], [3.0])
