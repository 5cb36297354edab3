# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""Connections that break at first."""

import pathlib
import socket

_TIMEOUT_S = 60


class Doorman:
    """A Unix socket that turns the first connections away, for a with statement."""

    def __init__(self, path: pathlib.Path):
        self._path = path
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(_TIMEOUT_S)
        self._socket.bind(str(path))
        self._socket.listen()
        self.address = f"unix:{path}"

    def turn_away(self, connections: int, server: pathlib.Path) -> None:
        """Breaks this many connections; later ones reach the server that listens on that socket."""
        for _ in range(connections):
            self._socket.accept()[0].close()
        link = self._path.with_suffix(".link")
        link.symlink_to(server)
        link.rename(self._path)
        self._socket.close()

    def __enter__(self) -> "Doorman":
        return self

    def __exit__(self, *unused) -> None:
        self._socket.close()
        self._path.unlink()
