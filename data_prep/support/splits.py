"""Assigns documents to splits by a hash of their text, independently of other documents."""

import hashlib
from dataclasses import dataclass

from linformer_fairseq.files.errors import UserError

TRAIN, VALID, TEST = NAMES = ("train", "valid", "test")


def hash_fraction(digest: bytes, purpose: str) -> float:
    """A pseudorandom number in [0, 1), determined by the digest and the purpose."""
    mixed = hashlib.blake2b(digest, digest_size=8, person=purpose.encode()).digest()
    return int.from_bytes(mixed, "big") / 2**64


@dataclass(frozen=True)
class Shares:
    """Shares of the documents that are held out."""

    valid: float
    test: float = 0.0

    def __post_init__(self) -> None:
        """Raises:
        UserError: a share is out of range, or nothing is left for training.
        """
        for name, value in (("valid", self.valid), ("test", self.test)):
            if not 0 <= value < 1:
                raise UserError(f"--{name}-share {value}: a number from 0 to below 1 was expected")
        if self.valid + self.test >= 1:
            raise UserError(f"--valid-share {self.valid} and --test-share {self.test} leave nothing to train on")

    def split(self, digest: bytes) -> str:
        """The name of the document's split."""
        drawn = hash_fraction(digest, "split")
        if drawn < self.test:
            return TEST
        return VALID if drawn < self.test + self.valid else TRAIN

    def needed(self, digest: bytes) -> float:
        """The lowest valid share with which this document of train would be held out."""
        return hash_fraction(digest, "split") - self.test + 1e-12
