"""Attention for a text as one HTML file, in which layer, head and token are chosen by a click.

All is in the file, and its content security policy lets it load nothing: the page works without a network.
"""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path

from linformer_fairseq import web
from linformer_fairseq.analysis.attention import what_e_is
from linformer_fairseq.analysis.record import Record, matrix_name, origin_line
from linformer_fairseq.files.atomic import write_file

NAME = "attention.html"
_PAGE = Path(__file__).parent / "page"


def write_page(record: Record, folder: Path) -> Path:
    """Write the page of a text's attention.

    Args:
        record: of `attention`.
        folder: for `NAME`.

    Returns:
        The file.

    Raises:
        OSError: it cannot be written.
    """
    command = f"linformer analyse attention {record['settings']['model']} --text ..."  # the page shows the text
    origin = origin_line({**record["provenance"], "command": command})
    about = {"matrix": matrix_name(record), "shown": what_e_is(record), "origin": origin}
    style = _joined(web.FOLDER / "base.css", web.FOLDER / "style.css", _PAGE / "style.css")
    script = _joined(web.FOLDER / "heat_map.js", _PAGE / "script.js")
    parts = {
        "POLICY": f"default-src 'none'; img-src data:; script-src {_source(script)}; style-src {_source(style)}; "
        "base-uri 'none'; form-action 'none'",
        "STYLE": style,
        "SCRIPT": script,
        "DATA": _embedded({**record, **about}),
    }
    page = (_PAGE / "index.html").read_text(encoding="utf-8")
    for name, part in parts.items():
        before, after = page.split(f"{{{{{name}}}}}")
        page = before + part + after
    write_file(folder / NAME, page)
    return folder / NAME


def _joined(*paths: Path) -> str:
    return "\n" + "\n".join(path.read_text(encoding="utf-8") for path in paths)


def _source(content: str) -> str:
    """The only content that the policy allows for an element."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"


def _embedded(value: object) -> str:
    """JSON for a script element, which ends at no ``</script>`` and begins no comment: there is no < in it."""
    return json.dumps(value).replace("<", "\\u003c")
