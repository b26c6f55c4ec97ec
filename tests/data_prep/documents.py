"""Made-up documents, and those of a file of a corpus."""

import random
from collections.abc import Iterator
from pathlib import Path

WORDS = ["the", "a", "value", "list", "returns", "raises", "error", "given", "index", "naïve", "Ω", "漢字"]


def make_documents(count: int, seed: int = 1) -> list[str]:
    """Distinct documents of one to four paragraphs."""
    generator = random.Random(seed)

    def paragraph() -> str:
        return f"{generator.randrange(10**9)} " + " ".join(generator.choices(WORDS, k=generator.randint(3, 25)))

    return ["\n".join(paragraph() for _ in range(generator.randint(1, 4))) for _ in range(count)]


def write(path: Path, documents: list[str]) -> Path:
    path.write_text("\n\n".join(documents) + "\n", encoding="utf-8")
    return path


def read_documents(path: Path) -> Iterator[str]:
    """The documents of one file, paragraphs separated by line feeds."""
    lines: list[str] = []
    with path.open(encoding="utf-8", newline="\n") as stream:
        for line in stream:
            if line == "\n":
                yield "".join(lines)[:-1]
                lines = []
            else:
                lines.append(line)
    if lines:
        yield "".join(lines).removesuffix("\n")
