"""Element types, reductions and algorithms, numbered as in horing.h."""

from __future__ import annotations

import enum


class DType(enum.IntEnum):
    """Element types, numbered as in ho_dtype. INT16, UINT16, BOOL and complex ones are moved, not reduced."""

    INT8 = 0
    UINT8 = 1
    INT32 = 2
    UINT32 = 3
    INT64 = 4
    UINT64 = 5
    FLOAT16 = 6
    FLOAT32 = 7
    FLOAT64 = 8
    BFLOAT16 = 9
    FLOAT8_E4M3 = 10
    FLOAT8_E5M2 = 11
    # Only where bytes move: no reductions.
    INT16 = 12
    UINT16 = 13
    BOOL = 14
    COMPLEX64 = 15
    COMPLEX128 = 16

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return _BYTES[self]


_BYTES = {
    DType.INT8: 1,
    DType.UINT8: 1,
    DType.INT32: 4,
    DType.UINT32: 4,
    DType.INT64: 8,
    DType.UINT64: 8,
    DType.FLOAT16: 2,
    DType.FLOAT32: 4,
    DType.FLOAT64: 8,
    DType.BFLOAT16: 2,
    DType.FLOAT8_E4M3: 1,
    DType.FLOAT8_E5M2: 1,
    DType.INT16: 2,
    DType.UINT16: 2,
    DType.BOOL: 1,
    DType.COMPLEX64: 8,
    DType.COMPLEX128: 16,
}


class ReduceOp(enum.IntEnum):
    """Reductions, numbered as in ho_op."""

    SUM = 0
    PROD = 1
    MAX = 2
    MIN = 3
    AVG = 4  # divides by the world size once, after the sum is complete
    BAND = 5
    BOR = 6
    BXOR = 7
    PREMUL_SUM = 8  # each rank's input times its own `scale`, then the sum


class Algorithm(enum.IntEnum):
    """Ways to carry out a collective, numbered as in ho_algorithm."""

    RING = 0
    MULTI_RING = 1
    HIERARCHICAL = 2
    HO_RING = 3
    DIRECT = 4
    AUTO = 255  # by size; HORING_ALGORITHM overrides
