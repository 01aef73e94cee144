"""A kernel's facts lie in its row: nothing else keeps lists of kernels."""

from __future__ import annotations

from kernel_constants import count_kernel_constants, kernel_constants


def test_fewer_than_twenty_module_constants_name_kernels():
    assert count_kernel_constants() < 20, kernel_constants()


def test_a_constant_that_names_a_kernel_is_counted(tmp_path):
    (tmp_path / "passes.py").write_text(
        'MOVES = ("ttnn.permute",)\n'
        'LATER: dict[str, int] = {"ttnn.add": 1}\n'
        'SPELT = [f"ttnn.{name}" for name in ("slice", "concat")]\n'
        'TEXT = "ttnn.no_such_kernel"\n'
        'def f(): return "ttnn.permute"\n'
    )
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels" / "family.py").write_text(
        'KERNELS = [Kernel("ttnn.add", add)]\nNAMES = {"ttnn.add": "Add"}\n'
    )
    assert kernel_constants(tmp_path) == [
        "kernels/family.py: NAMES", "passes.py: MOVES", "passes.py: LATER", "passes.py: SPELT",
    ]  # fmt: skip
