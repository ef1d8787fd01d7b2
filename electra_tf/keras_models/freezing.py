"""Which layers of a model do not learn, and in its config."""

from collections.abc import Collection

import keras


def config_of(network: keras.Layer) -> dict[str, list[str]]:
    """The entry of a config that names the layers that are frozen.

    Args:
      network: Whose layers they are.

    Returns:
      Nothing where all of them learn.
    """
    frozen = [
        layer.path
        for layer in network._flatten_layers(include_self=False)
        if not layer.trainable
    ]
    return {"frozen": frozen} if frozen else {}


def freeze(network: keras.Layer, frozen: Collection[str]) -> None:
    """Freezes the layers that `config_of` has named, and no others.

    Args:
      network: Whose layers they are.
      frozen: Their paths; without any, all stay as they are.
    """
    if not frozen:
        return
    # Those of a layer behind the layer, which freezes them as well.
    for layer in network._flatten_layers(include_self=False):
        layer.trainable = layer.path not in frozen


def freeze_like(network: keras.Layer, other: keras.Layer) -> None:
    """Freezes what is frozen in a network of the same layers."""
    for layer, of_other in zip(
        network._flatten_layers(), other._flatten_layers(), strict=True
    ):
        layer.trainable = of_other.trainable
