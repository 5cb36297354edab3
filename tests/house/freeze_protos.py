# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""Makes the API's current protos those with which later ones are compared. To be run at a release:

    python3 tests/house/freeze_protos.py
"""

import protos

if __name__ == "__main__":
    current = protos.compile_tree()
    protos.RELEASED.write_bytes(current.SerializeToString(deterministic=True))
    print(f"{protos.RELEASED.name}: {len(current.file)} files")
