// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// How much of what is sent a Unix socket holds for its reader. Internal.
#pragma once

namespace warpfold {

// The kernel takes this for net.core.wmem_max at most, 208 KiB by default, and doubles it, since it counts
// its own overhead, too: in 1 MiB of its count a message of kChunkBytes just fits.
inline constexpr int kUnixSendBufferBytes = 512 << 10;

// Gives a Unix socket a send buffer of that size, unless it has a larger one. Through the usual one, which
// counts 208 KiB, a message of 1 MiB goes in about five parts, and for each of them the two processes wait
// for one another (docs/adr/0125). Other sockets stay as they are: those of TCP grow by themselves, but no
// longer once they are told a size.
void WidenSendBuffer(int descriptor);

}  // namespace warpfold
