"""Chance that does not depend on order: a number drawn from the text itself."""

import hashlib


def hash_fraction(digest: bytes, purpose: str) -> float:
    """A number in [0, 1), as if drawn at random for this digest and purpose."""
    mixed = hashlib.blake2b(digest, digest_size=8, person=purpose.encode()).digest()
    return int.from_bytes(mixed, "big") / 2**64
