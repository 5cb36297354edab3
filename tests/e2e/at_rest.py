# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""What a server holds for its clients, according to its metrics: nothing, when they have gone."""

import dataclasses

from http_pages import get, samples, wait_until

_NOTHING = ("warpfold_connections", "warpfold_slots_in_flight", "warpfold_slot_waiters",
            "warpfold_reductions_in_progress", "warpfold_registrations", "warpfold_registered_bytes",
            "warpfold_kept_array_bytes")


@dataclasses.dataclass(frozen=True)
class Held:
    descriptors: int
    resident_mib: int
    others: dict[str, float]  # values that differ from those of a server that nobody calls

    @classmethod
    def by(cls, admin: str) -> "Held":
        page = samples(get(admin, "/metrics")[1])
        calls = {name: value for name, value in page.items() if name.startswith("warpfold_calls_in_progress")}
        others = {name: value for name, value in {**{n: page[n] for n in _NOTHING}, **calls}.items() if value}
        if page["warpfold_slots_free"] != page["warpfold_slots"]:
            others["warpfold_slots_free"] = page["warpfold_slots_free"]
        return cls(int(page["process_open_fds"]), int(page["process_resident_memory_bytes"]) >> 20, others)


def await_rest(admin: str, descriptors: int | None = None) -> Held:
    """Waits until the server has no more descriptors than these, if any are given, and holds nothing."""
    def at_rest() -> Held | None:
        held = Held.by(admin)
        few = descriptors is None or held.descriptors <= descriptors
        return held if few and not held.others else None
    try:
        return wait_until(at_rest, f"{descriptors} descriptors and nothing held")
    except RuntimeError as error:
        raise RuntimeError(f"{error}: {Held.by(admin)}") from error
