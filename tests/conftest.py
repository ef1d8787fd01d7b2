"""What all tests share."""

import gc
import os
import sys

import gin
import pytest
from absl import logging

# What XLA compiles here runs a few times: compiling it is what takes long.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")


# Whole files go to one worker each: the longest first, so that none is left
# over when the other worker has nothing to do.
_LONGEST = (
    "bench_test.py",
    "guides_test.py",
    "engine_test.py",
    "continuing_test.py",
    "resume_test.py",
    "kerashub_test.py",
    "electra_test.py",
    "finetune_test.py",
)


def pytest_collection_modifyitems(items):
    """Puts the tests of the longest files before all others."""
    items.sort(key=lambda item: not item.path.as_posix().endswith(_LONGEST))


def _keep_what_is_there() -> None:
    """No later collection looks at it again."""
    gc.collect()
    gc.freeze()


def pytest_collection_finish():
    """Makes the tests fast: see `graph_optimizer` for what is off."""
    _keep_what_is_there()
    if "tensorflow" in sys.modules:
        _optimize_graphs(False)


def _optimize_graphs(is_on: bool) -> None:
    import tensorflow as tf

    tf.config.optimizer.set_experimental_options(
        {"disable_meta_optimizer": not is_on}
    )


@pytest.fixture
def graph_optimizer():
    """TensorFlow optimizes graphs, as it does in a run.

    Elsewhere it takes them as they are written: graphs of tests run a few
    times, and to optimize one takes longer. Numbers of the original, and runs
    in processes of their own, are compared with it.
    """
    _optimize_graphs(True)
    yield
    _optimize_graphs(False)


@pytest.fixture(autouse=True)
def no_gin_bindings():
    """Bindings are global: those of one test must not reach the next."""
    gin.clear_config()
    yield
    gin.clear_config()


@pytest.fixture(autouse=True)
def same_verbosity():
    """Commands that speak less set it for the whole process."""
    verbosity = logging.get_verbosity()
    yield
    logging.set_verbosity(verbosity)


@pytest.fixture
def mixed_bfloat16():
    """Layers built in the test compute in bfloat16."""
    import keras

    keras.config.set_dtype_policy("mixed_bfloat16")
    yield
    keras.config.set_dtype_policy("float32")


@pytest.fixture(scope="module")
def quick_collections():
    """For tests of what collects garbage itself, more than once a test."""
    _keep_what_is_there()
