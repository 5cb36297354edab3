# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""The rows and columns of matrices in an array's last dimensions."""

from __future__ import annotations

from collections.abc import Callable

from warpfold.arrays import Elements


def same_of_all(shape_of: Callable[[Elements], tuple[int, int]], elements: Elements) -> tuple[int, int]:
    """Rows and columns, which all pieces must have; those of a staged array may be parts of a matrix."""
    if not elements.is_array:
        elements.matrix_of = shape_of
    return shape_of(elements)


def check_kept_as(matrix: tuple[int, int] | None, elements: Elements) -> None:
    """ValueError if a server keeps the array as something else."""
    kept = elements.kept_as
    if elements.way != "resident" or kept == matrix:
        return
    if kept is None:
        raise ValueError("the array was put as numbers: matrices are put by put(array, matrix=True), pairs "
                         "(a, b) by put(array.reshape(-1, 1, 2), matrix=True)")
    remedy = "which reduce(operators, matrix=True) takes entry by entry" if matrix is None \
        else f"not of {matrix[0]} x {matrix[1]}"
    raise ValueError(f"the array was put as matrices of {kept[0]} x {kept[1]}, {remedy}")


def pair_of(elements: Elements) -> tuple[int, int]:
    if elements.shape is None or len(elements.shape) < 2 or elements.shape[-1] != 2:
        raise ValueError(f"pairs (a, b) are in a last dimension of 2: the shape is {elements.shape}")
    return 1, 2


def matrix_of(elements: Elements) -> tuple[int, int]:
    if elements.shape is None or len(elements.shape) < 3:
        raise ValueError("matrices are the last two of three or more dimensions: the shape is "
                         f"{elements.shape}")
    return elements.shape[-2], elements.shape[-1]
