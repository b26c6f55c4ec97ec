"""The report on a corpus: its size compared with the paper's, and the documents that were dropped."""

from typing import Any

PAPER_WORDS = 3.3e9
"""BookCorpus 0.8 and English Wikipedia 2.5 billion (Devlin et al. 2019, section 3.1; Wang et al. 2020, section 5)."""
PAPER_BYTES = 16e9
"""The same two (Liu et al. 2019, RoBERTa, section 3.2)."""


def describe(manifest: dict[str, Any]) -> str:
    """The report as text."""
    lines = [f"{'':16}{'documents':>14}{'paragraphs':>14}{'words':>16}{'MB':>12}"]
    for name, count in manifest["splits"].items():
        numbers = f"{count['documents']:>14,}{count['paragraphs']:>14,}{count['words']:>16,}"
        lines.append(f"{name:16}{numbers}{count['bytes'] / 1e6:>12,.1f}")
    words = sum(count["words"] for count in manifest["splits"].values())
    paper = f"{'the paper':16}{'':28}{round(PAPER_WORDS):>16,}{PAPER_BYTES / 1e6:>12,.1f}"
    lines.append(f"{paper}  here: {100 * words / PAPER_WORDS:.2g} % of its words")
    for source in manifest["sources"]:
        left_out = ", ".join(
            f"{source[reason]:,} {text}"
            for reason, text in (
                ("duplicates", "duplicate" if source.get("duplicates") == 1 else "duplicates"),
                ("empty", "empty"),
                ("short", "too short"),
                ("left_out_by_weight", "by weight"),
            )
            if source.get(reason)
        )
        lines.append(f"{source['name']}: {source.get('documents', 0):,} documents read; left out: {left_out or 'none'}")
        if source.get("duplicate_paragraphs"):
            lines.append(
                f"    {source['duplicate_paragraphs']:,} paragraphs that occur earlier were left out of others"
            )
        if source.get("replaced"):
            lines.append(f"    {source['replaced']:,} documents had parts that are not Unicode, now U+FFFD")
        if source.get("ignored"):
            lines.append(f"    hidden files not read: {', '.join(source['ignored'])}")
    return "\n".join(lines)
