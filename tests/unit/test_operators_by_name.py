"""Inductor is not asked to print the operands of an operator that it has no lowering for: of a deep model, PyTorch 2.11
never finished that text."""

import pytest
from torch._inductor.exc import LoweringException, OperatorIssue

from proveout.devices.host import operators_by_name


class Deep:
    def __str__(self) -> str:
        raise AssertionError("printed")

    __repr__ = __str__


def test_operands_are_not_printed_while_inductor_compiles_and_are_again_afterwards() -> None:
    whole = OperatorIssue.operator_str
    with operators_by_name():
        error = LoweringException(ValueError("no such layout"), "proveout.norm", [Deep()], {"eps": Deep()})
    assert "no such layout" in str(error)
    assert "proveout.norm" in str(error)
    assert OperatorIssue.operator_str is whole
    with pytest.raises(AssertionError, match="printed"):
        OperatorIssue.operator_str("proveout.norm", [Deep()], {})
