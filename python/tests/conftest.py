"""Tests of the Python package: python3 -m pytest python/tests, with the package installed or PYTHONPATH=build/python. The
device is that of PORTICO_BACKEND."""
import numpy as np
import pytest


@pytest.fixture
def random():
    return np.random.default_rng(20261123)
