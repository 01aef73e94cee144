"""Target profiles: which device dtype stands for which of eager's, and why some have none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from proveout.ops.table import INT32, WIDE, Range, Refused
from proveout.program import Name
from proveout.reasons import NOT_A_DTYPE, TOO_LARGE, UNPROVEN
from proveout.types import Precision

INTEGER_RANGE: dict[str, Range] = {
    "int8": (-(2**7), 2**7 - 1),
    "int16": (-(2**15), 2**15 - 1),
    "int64": (-(2**63), 2**63 - 1),
    "uint8": (0, 2**8 - 1),
    "bool": (0, 1),
}


@dataclass(frozen=True)
class Profile:
    """`ttnn`: tiles, transfers, six dtypes. `torch`: every dtype is native and everything is in one place."""

    target: Literal["ttnn", "torch"]
    precision: Precision = "model"

    @property
    def keeps_float32(self) -> bool:
        return self.precision in ("model", "tf32")

    def device_dtype(self, dtype: str, range: Range | None = None) -> str:
        """The device dtype for eager's, given what is proven about the values; Refused says why there is none."""
        if dtype == WIDE:
            return "float32"
        if dtype == "float32" and not self.keeps_float32:
            return self.precision
        if self.target == "torch" or dtype in ("float32", "bfloat16", "int32", "uint32"):
            return dtype
        if dtype == "bool":
            return "int32"
        if dtype in INTEGER_RANGE:
            if range is None:
                raise Refused(UNPROVEN(dtype=dtype))
            low, high = max(INT32[0], INTEGER_RANGE[dtype][0]), min(INT32[1], INTEGER_RANGE[dtype][1])
            if not (low <= range[0] and range[1] <= high):
                raise Refused(TOO_LARGE(dtype=dtype, low=range[0], high=range[1]))
            return "int32"
        raise Refused(NOT_A_DTYPE(dtype=dtype))

    def dtype_name(self, device_dtype: str) -> Name:
        return Name(f"{self.target}.{device_dtype}")
