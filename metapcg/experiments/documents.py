"""A small document of headings, text, tables and figures, rendered as one self-contained HTML page and as Markdown.

Text is plain, except that ``**bold**`` and ``[words](target)`` mean the same in both outputs.
"""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

_CSS = """
:root { --text: #1d2330; --soft: #5a6272; --line: #d9dde5; --back: #ffffff; --band: #f5f6f9; --mark: #fff3d6; }
* { box-sizing: border-box; }
body { color: var(--text); background: var(--back); font: 16px/1.55 system-ui, "Segoe UI", Helvetica, Arial, sans-serif;
  margin: 0 auto; padding: 1.5rem 1.25rem 4rem; max-width: 62rem; }
h1 { font-size: 1.8rem; line-height: 1.25; margin: .5rem 0 .25rem; }
h2 { font-size: 1.3rem; margin: 2.4rem 0 .6rem; padding-top: .8rem; border-top: 1px solid var(--line); }
h3 { font-size: 1.05rem; margin: 1.6rem 0 .4rem; }
p, ul { margin: .5rem 0; max-width: 48rem; }
.lead { color: var(--soft); }
.note { background: var(--mark); border-left: 4px solid #e69f00; padding: .5rem .8rem; margin: .8rem 0;
  max-width: 48rem; }
.table { overflow-x: auto; margin: .8rem 0 1.2rem; }
table { border-collapse: collapse; font-size: .88rem; font-variant-numeric: tabular-nums; }
caption { text-align: left; color: var(--soft); padding: 0 0 .35rem; caption-side: top; }
th, td { padding: .3rem .65rem; border-bottom: 1px solid var(--line); text-align: right; white-space: nowrap; }
th { font-weight: 600; background: var(--band); }
th:first-child, td:first-child { text-align: left; }
td.text, th.text { text-align: left; white-space: normal; }
figure { margin: 1rem 0 1.6rem; }
figure img { max-width: 100%; height: auto; }
figcaption { color: var(--soft); font-size: .9rem; max-width: 48rem; }
details { margin: .8rem 0; border: 1px solid var(--line); border-radius: 6px; padding: .4rem .8rem; }
summary { cursor: pointer; font-weight: 600; }
code { font: .88em ui-monospace, Consolas, monospace; background: var(--band); padding: .05rem .25rem; }
a { color: #0059a8; }
nav ul { list-style: none; padding: 0; display: flex; flex-wrap: wrap; gap: .2rem 1.1rem; }
@media print { details { border: 0; } h2 { break-after: avoid; } figure, .table { break-inside: avoid; } }
"""


@dataclass
class Heading:
    """A heading; level 1 is the title."""

    level: int
    text: str

    @property
    def anchor(self) -> str:
        """Name to link to."""
        return re.sub(r"[^a-z0-9]+", "-", self.text.lower()).strip("-")


@dataclass
class Paragraph:
    """A paragraph; ``kind``: ``plain``, ``lead`` (introductory) or ``note`` (must not be overlooked)."""

    text: str
    kind: str = "plain"


@dataclass
class Bullets:
    """A list of short statements."""

    items: Sequence[str]


@dataclass
class Table:
    """A table; the first column holds names. ``texts``: numbers of columns that hold words rather than numbers."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""
    texts: Sequence[int] = ()


@dataclass
class Picture:
    """A PNG file, shown with a caption that reads it."""

    path: Path
    caption: str

    @property
    def alt(self) -> str:
        """The caption's first sentence, for who cannot see the picture."""
        return re.sub(r"[*`]", "", self.caption).split(". ")[0].rstrip(".")


@dataclass
class Fold:
    """Blocks that are folded away in the HTML page until they are asked for."""

    summary: str
    blocks: list[Block] = field(default_factory=list)


Block = Heading | Paragraph | Bullets | Table | Picture | Fold


def to_html(title: str, blocks: Sequence[Block]) -> str:
    """One page that needs nothing but itself: styles inline, pictures embedded."""
    sections = [block for block in blocks if isinstance(block, Heading) and block.level == 2]
    links = "".join(f'<li><a href="#{block.anchor}">{_inline(block.text)}</a></li>' for block in sections)
    parts = []
    for block in blocks:
        parts.append(_block_html(block))
        if isinstance(block, Heading) and block.level == 1 and links:
            parts.append(f'<nav aria-label="sections"><ul>{links}</ul></nav>')
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(title)}</title>\n<style>{_CSS}</style>\n</head>\n<body>\n" + "\n".join(parts) + "\n"
        "</body>\n</html>\n"
    )


def to_markdown(blocks: Sequence[Block], folder: Path) -> str:
    """The same in Markdown; pictures are linked relative to ``folder``, where the file will lie."""
    return "\n\n".join(_block_markdown(block, folder) for block in blocks) + "\n"


def _inline(text: str) -> str:
    text = html.escape(text, quote=False)
    text = re.sub(r"\*\*(.+?)\*\*", r"<strong>\1</strong>", text)
    text = re.sub(r"`([^`]+)`", r"<code>\1</code>", text)
    return re.sub(r"\[([^\]]+)\]\(([^)\s]+)\)", r'<a href="\2">\1</a>', text)


def _block_html(block: Block) -> str:
    if isinstance(block, Heading):
        return f'<h{block.level} id="{block.anchor}">{_inline(block.text)}</h{block.level}>'
    if isinstance(block, Paragraph):
        kind = "" if block.kind == "plain" else f' class="{block.kind}"'
        return f"<p{kind}>{_inline(block.text)}</p>"
    if isinstance(block, Bullets):
        return "<ul>" + "".join(f"<li>{_inline(item)}</li>" for item in block.items) + "</ul>"
    if isinstance(block, Table):
        return _table_html(block)
    if isinstance(block, Picture):
        data = base64.b64encode(block.path.read_bytes()).decode("ascii")
        alt = html.escape(block.alt)
        caption = f"<figcaption>{_inline(block.caption)}</figcaption>"
        return f'<figure><img src="data:image/png;base64,{data}" alt="{alt}">{caption}</figure>'
    inner = "\n".join(_block_html(inner) for inner in block.blocks)
    return f"<details><summary>{_inline(block.summary)}</summary>\n{inner}\n</details>"


def _table_html(table: Table) -> str:
    def cell(tag: str, index: int, text: str) -> str:
        kind = ' class="text"' if index in table.texts else ""
        return f"<{tag}{kind}>{_inline(text)}</{tag}>"

    head = "".join(cell("th", i, column) for i, column in enumerate(table.columns))
    body = "\n".join("<tr>" + "".join(cell("td", i, c) for i, c in enumerate(row)) + "</tr>" for row in table.rows)
    caption = f"<caption>{_inline(table.caption)}</caption>" if table.caption else ""
    return f'<div class="table"><table>{caption}<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table></div>'


def _block_markdown(block: Block, folder: Path) -> str:
    if isinstance(block, Heading):
        return "#" * block.level + " " + block.text
    if isinstance(block, Paragraph):
        return f"> {block.text}" if block.kind == "note" else block.text
    if isinstance(block, Bullets):
        return "\n".join(f"- {item}" for item in block.items)
    if isinstance(block, Table):
        return markdown_table(block)
    if isinstance(block, Picture):
        target = block.path.relative_to(folder).as_posix().replace(" ", "%20")
        return f"![{block.alt}]({target})\n\n{block.caption}"
    return f"**{block.summary}**\n\n" + "\n\n".join(_block_markdown(inner, folder) for inner in block.blocks)


def markdown_table(table: Table) -> str:
    """A pipe table, its caption above it."""

    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"

    rules = ["---" if i == 0 or i in table.texts else "---:" for i in range(len(table.columns))]
    lines = [line(table.columns), line(rules), *(line(row) for row in table.rows)]
    return (f"{table.caption}\n\n" if table.caption else "") + "\n".join(lines)
