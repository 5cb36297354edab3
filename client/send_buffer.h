// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// How much of what is sent a Unix socket holds for its reader. Internal.
#pragma once

namespace warpfold {

// The kernel counts twice as much as it is asked for, since it counts its own overhead, too: a message of
// kChunkBytes, which is twice this, just fits.
inline constexpr int kUnixSendBufferBytes = 512 << 10;

// Asks for as much where the socket is a Unix socket; others stay as they are. The kernel gives no more than
// net.core.wmem_max, 208 KiB by default. Without it a message of 1 MiB goes through in five pieces, and for
// each of them the two processes wait for one another (docs/adr/0125). TCP sockets get larger by themselves,
// and no longer do once they are told a size.
void WidenSendBuffer(int descriptor);

}  // namespace warpfold
