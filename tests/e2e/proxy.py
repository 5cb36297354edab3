# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""A peer between a client and the server, which sees and may change what the client sends."""

import contextlib
import socket
import threading


@contextlib.contextmanager
def proxy(address, on_data):
    """The address of a proxy. on_data(bytes, before) returns what to send on of these bytes, after `before`
    others."""
    host, port = address.rsplit(":", 1)
    counted, lock, threads, sockets = [0], threading.Lock(), [], []

    def seen(data):
        with lock:
            before = counted[0]
            counted[0] += len(data)
            return on_data(data, before)

    def relay(source, sink, change):
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                sink.sendall(change(data))
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_WR)

    def accept(listener):
        with contextlib.suppress(OSError):
            while True:
                near, _ = listener.accept()
                far = socket.create_connection((host, int(port)))
                sockets.extend((near, far))
                for arguments in ((near, far, seen), (far, near, bytes)):
                    threads.append(threading.Thread(target=relay, args=arguments))
                    threads[-1].start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        acceptor = threading.Thread(target=accept, args=(listener,))
        acceptor.start()
        try:
            yield f"127.0.0.1:{listener.getsockname()[1]}"
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            acceptor.join()
            for each in sockets:
                with contextlib.suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)
            for thread in threads:
                thread.join()
            for each in sockets:
                each.close()
