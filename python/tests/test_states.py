"""portico.State: written in place, and gone without a trace of trouble."""
import gc

import numpy as np

import portico
from portico import _functions, ops  # noqa: F401: _functions gives tensors their operators
from portico._tensor import State


def test_written_in_place_and_dropped():
    with portico.Context():
        state = State(np.zeros((1, 4, 2), np.float32), label="cache")
        ops.state_write(state, np.ones((1, 1, 2), np.float32), np.array([1], np.int32))
        np.testing.assert_array_equal(state.numpy().ravel(), [0, 0, 1, 1, 0, 0, 0, 0])
        assert (state * 2).sum().item() == 4
        state.assign(np.full((1, 4, 2), 3, np.float32))
        assert (state * 2).sum().item() == 48
        moved = state.to("cpu:reference")
        assert (moved * 2).sum().item() == 48
        del state, moved
        gc.collect()
        assert portico.devices()  # the next call gives back what is gone


def test_closing_a_context_with_states():
    with portico.Context():
        state = State(np.ones(3, np.float32))
        assert (state + 1).sum().item() == 6
        del state
    assert portico.devices()
