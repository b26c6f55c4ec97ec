"""How help texts are set."""

import argparse
import textwrap


class HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Breaks the lines of paragraphs by the width of the terminal, but not those of commands, which are indented."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        paragraphs = text.strip("\n").split("\n\n")
        return "\n\n".join(part if "\n " in f"\n{part}" else _filled(part, width, indent) for part in paragraphs)


def _filled(paragraph: str, width: int, indent: str) -> str:
    return textwrap.fill(
        paragraph,
        width,
        initial_indent=indent,
        subsequent_indent=indent,
        break_on_hyphens=False,
        break_long_words=False,
    )
