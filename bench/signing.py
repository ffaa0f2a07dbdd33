"""What signatures cost: a message from broadcast at one node to delivery at another, with keys and without.

Both ends are `vector` nodes in this process; payloads have 100 bytes. Without keys: broadcast, encode, decode,
receive. With keys, packets are sealed and verified on the way, message by message or in batches that share a
signature (`antecast.live.groups.signatures`). A copy is a message that has come before over another link.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from antecast.core import Deliver, Frame, Send
from antecast.live.groups import GroupSecurity, new_group
from antecast.protocols import specification
from bench.table import report

MESSAGES = 4096
ROUNDS = 3
PAYLOAD = bytes(range(100))


class Pair:
    """Two linked nodes; the second delivers what the first broadcasts."""

    def __init__(self, keys: tuple[GroupSecurity, GroupSecurity] | None) -> None:
        spec = specification("vector")
        settings = spec.configure({"retain": 1000})
        self.origin, self.receiver = (spec.make(number, settings) for number in (0, 1))
        self.origin.link_up(1, 0)
        self.receiver.link_up(0, 0)
        self.keys = keys
        self.bytes = self.delivered = 0

    def broadcast(self, count: int) -> list[Frame]:
        payload = PAYLOAD if self.keys is None else self.keys[0].seal_payload(PAYLOAD)
        frames = []
        for _ in range(count):
            if self.keys is not None:
                payload = self.keys[0].seal_payload(PAYLOAD)
            frames += [each.frame for each in self.origin.broadcast(payload, 0) if isinstance(each, Send)]
        return frames

    def wire(self, frames: list[Frame]) -> list[bytes]:
        """What leaves the origin: packets, or frames as they are."""
        encode = self.origin.codec.encode
        if self.keys is None:
            packets = [encode(frame) for frame in frames]
        else:
            self.keys[0].prepare(frames)
            packets = [self.keys[0].seal(frame, encode(frame)) for frame in frames]
            self.keys[0].settle(self.origin)
        self.bytes += sum(map(len, packets))
        return packets

    def receive(self, packets: list[bytes]) -> None:
        receiver, keys = self.receiver, self.keys
        for packet in packets:
            if keys is None:
                frame = receiver.codec.decode(packet)
            else:
                frame = receiver.codec.decode(keys[1].split(packet))
                keys[1].verify(frame, packet, 0)
            for effect in receiver.receive(frame, 0, 0):
                if isinstance(effect, Deliver):
                    self.delivered += 1
                    if keys is not None:
                        keys[1].open_payload(0, effect.message.seq, effect.message.payload)
        if keys is not None:
            keys[1].settle(receiver)


def secured(folder: Path, *, encrypt: bool) -> Callable[[], tuple[GroupSecurity, GroupSecurity]]:
    group = new_group(folder, folder.stem, encrypt=encrypt)
    ada, bob = (group.invite(name, folder / f"{name}.node") for name in ("ada", "bob"))
    return lambda: (GroupSecurity(ada, "vector"), GroupSecurity(bob, "vector"))


def measure(keys: Any, batch: int) -> dict[str, float]:
    """CPU microseconds per message at the origin, at the receiver, and for a copy there."""
    pair, spent = Pair(keys() if keys else None), [0.0, 0.0, 0.0]
    clock = time.process_time
    for _ in range(MESSAGES // batch):
        begin = clock()
        packets = pair.wire(pair.broadcast(batch))
        sent = clock()
        pair.receive(packets)
        received = clock()
        pair.receive(packets)
        again = clock()
        spent = [spent[0] + sent - begin, spent[1] + received - sent, spent[2] + again - received]
    assert pair.delivered == MESSAGES
    origin, receiver, copy = (each / MESSAGES * 1e6 for each in spent)
    return {"origin": origin, "receiver": receiver, "copy": copy, "bytes": pair.bytes / MESSAGES}


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        signed, secret = secured(folder / "signed.group", encrypt=False), secured(folder / "s.group", encrypt=True)
        cases: dict[str, tuple[Any, int]] = {
            "no keys": (None, 64),
            "signed one by one": (signed, 1),
            "signed, 8 at once": (signed, 8),
            "signed, 64 at once": (signed, 64),
            "signed, 512 at once": (signed, 512),
            "signed and encrypted, 64 at once": (secret, 64),
        }
        best: dict[str, dict[str, float]] = {}
        for _ in range(ROUNDS):
            for case, (keys, batch) in cases.items():
                found = measure(keys, batch)
                known = best.setdefault(case, found)
                best[case] = {key: min(known[key], value) for key, value in found.items()}
    bare = best["no keys"]
    rows = [
        {
            "messages": case,
            "origin, µs": each["origin"],
            "receiver, µs": each["receiver"],
            "copy, µs": each["copy"],
            "bytes": each["bytes"],
            "origin against no keys": each["origin"] / bare["origin"],
            "receiver against no keys": each["receiver"] / bare["receiver"],
            "copy against no keys": each["copy"] / bare["copy"],
        }
        for case, each in best.items()
    ]
    report("signing", "Signatures, CPU per message of 100 bytes", rows, note="`vector`, two nodes, no sockets.")


if __name__ == "__main__":
    main()
