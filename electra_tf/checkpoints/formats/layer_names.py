"""Names of an encoder's variables: the original's -> another library's."""

import re
import typing
from collections.abc import Mapping


class LayerNames(typing.NamedTuple):
    """Where a library's encoder has what the original's has in its scope.

    Attributes:
      tables: Name of an embedding table -> its name there.
      layers: The same for layers, whose weights have one name in both: kernel,
        bias, gamma or beta.
      transformer_layer: Of a transformer layer there; "{}" is its number.
      transformer_layers: As `layers`, within encoder/layer_<i> and
        `transformer_layer`.
    """

    tables: Mapping[str, str]
    layers: Mapping[str, str]
    transformer_layer: str
    transformer_layers: Mapping[str, str]

    def of(self, name: str) -> str:
        """The name there of a variable of the original.

        Args:
          name: Such as "electra/encoder/layer_3/output/dense/bias".

        Returns:
          For KerasHub "transformer_layer_3/feedforward_output_dense/bias".
        """
        _, _, name = name.partition("/")  # Without the scope.
        if name in self.tables:
            return self.tables[name]
        layer, weight = name.rsplit("/", 1)
        match = re.fullmatch(r"encoder/layer_(\d+)/(.+)", layer)
        if match is None:
            return f"{self.layers[layer]}/{weight}"
        index, layer = match.groups()
        there = self.transformer_layer.format(index)
        return f"{there}/{self.transformer_layers[layer]}/{weight}"
