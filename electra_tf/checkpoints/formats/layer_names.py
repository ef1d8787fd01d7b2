"""Names of an encoder's variables: the original's -> another library's."""

import re
import typing
from collections.abc import Mapping


class LayerNames(typing.NamedTuple):
    """Where a library's encoder has what the original's has in its scope.

    The weights of a layer have one name in both: kernel, bias, gamma or beta.
    "{}" is the number of a transformer layer.
    """

    tables: Mapping[str, str]
    layers: Mapping[str, str]
    transformer_layer: str
    transformer_layers: Mapping[str, str]

    def of(self, name: str) -> str:
        """The name there of the original's "electra/encoder/layer_3/..."."""
        _, _, name = name.partition("/")  # Without the scope.
        if name in self.tables:
            return self.tables[name]
        layer, weight = name.rsplit("/", 1)
        match = re.fullmatch(r"encoder/layer_(\d+)/(.+)", layer)
        if match is None:
            return f"{self.layers[layer]}/{weight}"
        there = self.transformer_layer.format(match[1])
        return f"{there}/{self.transformer_layers[match[2]]}/{weight}"
