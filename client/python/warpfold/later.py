# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""Modules that only annotations name. They are imported when typing.get_type_hints evaluates these, so that
`import warpfold` stays quick."""

from __future__ import annotations

import importlib
from typing import Any


class Later:
    """Stands for a module in another module's names."""

    def __init__(self, name: str):
        self._name = name

    def __getattr__(self, name: str) -> Any:
        # Tools that look through a module's names ask each object for names such as __wrapped__, and copy for
        # _name before there is one.
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(importlib.import_module(self._name), name)
