"""A classification task from docstrings: predict the package that a docstring belongs to.

The classes are the packages with the most docstrings. The text of an example is the docstring without the name of its
module (which may occur within the docstring). Duplicates, ignoring case and white space, are removed, and texts that
occur in two packages are dropped. The split is determined by a hash of the text.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence

from data_prep.stdlib.docstrings import Docstring, fingerprint, paragraphs
from data_prep.support.splits import hash_fraction
from linformer_fairseq.files.errors import UserError

CLASSES, MINIMUM_CLASSES = 8, 6
"""Most and fewest packages."""
MINIMUM_EXAMPLES, MINIMUM_CHARACTERS = 60, 40
"""Examples of a package, and characters of an example."""
VALID_SHARE = 0.2
# Missing in some installations (Debian has separate packages) or removed in later versions of Python: with them, the
# classes would differ between machines.
NOT_EVERYWHERE = frozenset({"distutils", "ensurepip", "idlelib", "tkinter", "turtledemo", "venv"})

Example = tuple[str, str]
"""(label, text)"""


def task_examples(source: Sequence[Docstring]) -> tuple[list[Example], list[Example]]:
    """(train, valid) examples of the `CLASSES` packages with the most usable docstrings.

    Args:
        source: docstrings in a fixed order.

    Raises:
        UserError: fewer than six packages have enough docstrings.
    """
    owners: dict[bytes, set[str]] = defaultdict(set)
    texts: dict[bytes, Example] = {}
    for item in source:
        text = " ".join(paragraphs(item.text))
        if len(text) >= MINIMUM_CHARACTERS:
            mark = fingerprint(text)
            owners[mark].add(item.package)
            texts.setdefault(mark, (item.package, text))
    single = [example for mark, example in texts.items() if len(owners[mark]) == 1]
    counts = Counter(label for label, _ in single)
    ranking = sorted(counts, key=lambda label: (-counts[label], label))
    # Modules with an underscore, such as pure Python versions of C modules, are private.
    common = [x for x in ranking if counts[x] >= MINIMUM_EXAMPLES and not x.startswith("_") and x not in NOT_EVERYWHERE]
    labels = common[:CLASSES]
    if len(labels) < MINIMUM_CLASSES:
        raise UserError(
            f"only {len(labels)} packages of this Python's standard library have {MINIMUM_EXAMPLES} docstrings or "
            f"more, {MINIMUM_CLASSES} are needed; is it a complete CPython with its .py files?"
        )
    kept = [example for example in single if example[0] in labels]
    train = [x for x in kept if not is_held_out(x[1])]
    valid = [x for x in kept if is_held_out(x[1])]
    return train, valid


def is_held_out(text: str) -> bool:
    """Whether ``text`` belongs to the validation side of the task."""
    return hash_fraction(fingerprint(text), "stdlib_packages") < VALID_SHARE


def held_out_marks(source: Sequence[Docstring]) -> set[bytes]:
    """Fingerprints of the validation texts and of their paragraphs: pretraining does without them."""
    _, valid = task_examples(source)
    held = {fingerprint(text) for _, text in valid}
    marks = set(held)
    for item in source:
        blocks = paragraphs(item.text)
        if fingerprint(" ".join(blocks)) in held:
            marks.update(fingerprint(block) for block in blocks)
    return marks
