"""What all tests share."""

import gc
import os

import gin
import pytest

# What XLA compiles here runs a few times: compiling it is what takes long.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")


def pytest_collection_finish():
    """What the imports left stays: no collection need look at it again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def no_gin_bindings():
    """Bindings are global: those of one test must not reach the next."""
    gin.clear_config()
    yield
    gin.clear_config()


@pytest.fixture
def mixed_bfloat16():
    """Layers built in the test compute in bfloat16."""
    import keras

    keras.config.set_dtype_policy("mixed_bfloat16")
    yield
    keras.config.set_dtype_policy("float32")
