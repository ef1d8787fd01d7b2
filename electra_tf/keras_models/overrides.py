"""What a subclass may not change, as the steps of `fit` do not ask for it."""

import keras

# `fit` computes the losses of the network's heads, whatever these give.
_NOT_OF_FIT = ("call", "compute_loss")
_HOMES = ("electra_tf", "keras")


def refuse(model: keras.Model) -> None:
    """Refuses methods of a subclass that training would pass over.

    Args:
      model: One whose training step may be the subclass's own; then all is.

    Raises:
      ValueError: If there is such a method.
    """
    if not _is_ours(model, "train_step"):
        return
    for name in _NOT_OF_FIT:
        if not _is_ours(model, name):
            raise ValueError(
                f"Expected {type(model).__name__} with a train_step beside "
                f"its {name}, which fit's own step would not call. Received: "
                f"{name} without one"
            )


def _is_ours(model: keras.Model, name: str) -> bool:
    owner = next(base for base in type(model).__mro__ if name in vars(base))
    return owner.__module__.partition(".")[0] in _HOMES
