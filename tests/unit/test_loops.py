"""The loops that call a model: every input once and in order, whatever raises."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proveout.clock import loops
from proveout.clock.loops import Caller
from proveout.clock.stamps import StampWriter, read_calls

FAR = 1 << 62


def run(tmp_path, count, *, model_fails=(), source_fails=(), on_error="fail", postprocess=None, limit=None, keep=None):
    """Call a model on the numbers below `count`; it, or what hands them out, raises the first time it meets some."""
    seen, failing, broken = [], set(model_fails), set(source_fails)

    class Source:
        """It goes on after it raised, as a loader of files does."""

        def __init__(self):
            self.number = 0

        def __iter__(self):
            return self

        def __next__(self):
            if self.number >= count:
                raise StopIteration
            if self.number in broken:
                broken.discard(self.number)
                raise OSError(f"no input {self.number}")
            self.number += 1
            return (self.number - 1,), {}

    def model(number):
        if number in failing:
            failing.discard(number)
            raise ValueError(f"not {number}")
        seen.append(number)
        return number

    caller = Caller(model, None, Source(), postprocess=postprocess)
    writer = StampWriter(tmp_path / "stamps", caller.columns)
    ran = loops.measure(caller, writer, start_ns=0, deadline_ns=FAR, limit=limit, on_error=on_error, keep=keep)
    writer.close()
    assert len(read_calls(tmp_path / "stamps", caller.columns).ends_ns) == len(seen) == ran.calls
    return seen, ran


@pytest.mark.parametrize("postprocess", [None, lambda output: output], ids=["start and end only", "parts too"])
class TestInputsOneByOne:
    def test_all_are_called_once_and_in_order(self, tmp_path, postprocess):
        seen, ran = run(tmp_path, 100, postprocess=postprocess)
        assert seen == list(range(100))
        assert not ran.reason

    def test_a_limit_takes_no_input_more(self, tmp_path, postprocess):
        seen, _ = run(tmp_path, 100, postprocess=postprocess, limit=37)
        assert seen == list(range(37))

    def test_an_output_that_is_kept_is_that_of_its_input(self, tmp_path, postprocess):
        seen, ran = run(tmp_path, 100, model_fails={3}, on_error="retry", postprocess=postprocess, keep=lambda x: x)
        assert seen == list(range(100))
        assert ran.outputs
        assert all(arguments == ((output,), {}) for arguments, output in ran.outputs)

    def test_a_call_that_raised_is_tried_again_with_its_own_input(self, tmp_path, postprocess):
        seen, ran = run(tmp_path, 20, model_fails={0, 7, 19}, on_error="retry", postprocess=postprocess)
        assert seen == list(range(20))
        assert ran.errors == 3

    def test_a_call_that_raised_is_passed_by(self, tmp_path, postprocess):
        seen, ran = run(tmp_path, 20, model_fails={0, 7}, on_error="continue", postprocess=postprocess)
        assert seen == [n for n in range(20) if n not in (0, 7)]
        assert ran.errors == 2

    def test_an_input_that_could_not_be_had_repeats_no_call(self, tmp_path, postprocess):
        seen, ran = run(tmp_path, 20, source_fails={0, 5, 6}, on_error="retry", postprocess=postprocess)
        assert seen == list(range(20))
        assert ran.errors == 3


@given(
    count=st.integers(0, 300),
    fails=st.sets(st.integers(0, 299), max_size=20),
    broken=st.sets(st.integers(0, 299), max_size=20),
)
def test_nothing_is_lost_or_doubled(tmp_path_factory, count, fails, broken):
    folder = tmp_path_factory.mktemp("loops")
    seen, ran = run(folder, count, model_fails=fails, source_fails=broken, on_error="retry")
    assert seen == list(range(count))
    assert ran.errors == sum(n < count for n in fails) + sum(n < count for n in broken)
