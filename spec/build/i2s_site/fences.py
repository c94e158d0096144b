"""The fences of the pages, rendered from the schema, for the site and for tests alike.

`render` gives the HTML of a fence, or raises `Drift` where its text is not true (any more); `fence` is what
pymdownx.superfences calls. There, an ordinary exception would be swallowed and the fence shown as plain text: only
`SuperFencesException` ends the build.

    i2s-map        a record, by its title, as a byte map
    i2s-fields     a record, by its title, as a table
    i2s-byte       a byte in hex and its number in the payload: `4a 1`; perhaps a layout
    i2s-block      the bytes of a block in hex; in front of them perhaps a layout
    i2s-hexdump    a file of `examples.FILES` and a range: `sample.gguf 0x0..0x40`
    i2s-rules      rules by the beginnings of their codes
    i2s-example    Python, a line of three dashes, what it prints
    i2s-console    a transcript of `i2s`
    i2s-drawing    a drawing of a chapter, by its name: `file`, `graph bitnet-b1.58 attention`
    i2s-bench      the benchmarks of a part in `tests/bench/results`, or one of them
    i2s-rooflines  products under the limits of each processor
    i2s-source     a file beside the pages, such as `tutorials/reader.mjs`
    i2s-layouts    a picture of what weights tell: `matrix stories`, `channels stories interleave-64`, `layers stories`
    i2s-api        what docstrings say of objects: a dotted path on each line
    i2s-contents   a contents list of what the page has by `i2s-api`: `api.md`
    i2s-file       a link to a file of `examples.FILES`, which the page carries
    i2s-status     version, date, status, repository and sizes of the specification

`i2s-table` is Markdown and not among them: `generated.with_tables` replaces it before the page is read.
"""

from __future__ import annotations

import re
import tomllib
from base64 import b64encode
from collections.abc import Callable, Iterator
from html import escape
from importlib import import_module
from typing import Any, Final

from i2s_site import api_reference, benchmarks, examples, figures, generated, layouts
from i2s_site.checkout import chapters, root
from i2s_site.drawings import drawn
from i2s_site.examples import Drift
from i2s_site.requirements import requirements
from i2s_spec._version import __version__
from i2s_spec.draw.text import made_at
from i2s_spec.errors import quote
from i2s_spec.exports.json_form import fixed_offsets
from i2s_spec.linter.rules import all_rules
from i2s_spec.schema.dialect import CANONICAL, LAYOUTS, Layout


def render(kind: str, body: str) -> str:
    """Return the HTML of a fence.

    :raises Drift: where it is not true, or names what there is not
    """
    if kind not in KINDS:
        raise Drift(f"no fence is called {kind}; there are {', '.join(KINDS)}")
    try:
        return KINDS[kind](body)
    except (ValueError, KeyError, OSError) as error:
        raise error if isinstance(error, Drift) else Drift(f"{kind}: {error}") from error


def untrue() -> Iterator[str]:
    """For each fence of the pages a sentence that says what of it is not true; empty if it is."""
    for each in examples.fences():
        try:
            if each.kind == "i2s-table":
                generated.with_tables(f"```i2s-table\n{each.body}```\n")
            else:
                render(each.kind, each.body)
            yield ""
        except Drift as drift:
            yield f"{quote(str(each.page.relative_to(chapters())), bare=True)}:{each.line}: {each.kind}: {drift}"


def fence(source: str, language: str, css_class: str, options: Any, md: Any, **more: Any) -> str:
    """Render one of our fences, for pymdownx.superfences."""
    try:
        return render(language, source if source.endswith("\n") else source + "\n")
    except Exception as error:
        fatal = import_module("pymdownx.superfences").SuperFencesException
        raise fatal(f"{language}: {error}") from error


def _figure(svg: str, caption: str) -> str:
    return f'<figure class="i2s-wide">{svg}<figcaption>{caption}</figcaption></figure>'


def _table(head: tuple[str, ...], rows: list[list[str]]) -> str:
    """Return a table of cells that are HTML; the search index sees words apart only where there are blanks between
    them.
    """
    names = "\n".join(f'<th scope="col">{name}</th>' for name in head)
    lines = "\n".join("<tr>" + "\n".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{names}</tr></thead>\n<tbody>{lines}</tbody></table>"


def _map(body: str) -> str:
    record = figures.record_named(body.strip())
    return _figure(figures.byte_map(record.title), f"{escape(record.title)}: its fields and where they begin")


def _fields(body: str) -> str:
    record = figures.record_named(body.strip())
    rows = []
    for field, shape, offset in fixed_offsets(record):
        cells = [
            f"<code>{field.name}</code>", "" if offset is None else str(offset), escape(figures.kind_words(shape)),
            escape(field.meaning),
        ]  # fmt: skip
        rows.append(cells)
    return _table(("field", "offset", "type", "meaning"), rows)


def _layout(words: list[str]) -> tuple[Layout, list[str]]:
    if words and words[0] in LAYOUTS:
        return LAYOUTS[words[0]], words[1:]
    return CANONICAL.layout, words


def _byte(body: str) -> str:
    layout, words = _layout(body.split())
    value, byte = int(words[0], 16), int(words[1])
    return _figure(
        figures.byte_bits(value, byte, layout), f"Byte {byte} of a payload in <code>{layout}</code>: {value:02x}"
    )


def _block(body: str) -> str:
    layout, words = _layout(body.split())
    svg = figures.block(bytes.fromhex(" ".join(words)), layout)
    return _figure(svg, f"A block of <code>{layout}</code>: trits, and the elements that they belong to")


def _hexdump(body: str) -> str:
    from i2s_spec.draw.text import hexdump

    found = re.fullmatch(r"(\S+) (0x[0-9a-f]+)\.\.(0x[0-9a-f]+)", body.strip())
    if found is None:
        raise Drift("a dump is a file and a range: sample.gguf 0x0..0x40")
    name, start, stop = found[1], int(found[2], 16), int(found[3], 16)
    data = examples.FILES[name]()
    if not start < stop <= len(data):
        raise Drift(f"{name} has {len(data)} bytes")
    shown = escape(hexdump(data[start:stop], start))
    return f'<div class="highlight i2s-dump"><pre><code>{shown}</code></pre></div>'


def _rules(body: str) -> str:
    from i2s_spec.linter.rules import all_rules

    prefixes = tuple(body.split())
    chosen = [rule for rule in all_rules() if rule.code.startswith(prefixes)]
    if not chosen or any(not any(rule.code.startswith(each) for rule in chosen) for each in prefixes):
        raise Drift(f"no rule begins with one of {body.strip()}")
    up = next(("../" * depth for depth in _depths("i2s-rules", body)), "")
    rows = [
        [f'<a href="{up}rules/{rule.code}.html">{rule.code}</a>', rule.severity.value, escape(rule.title)]
        for rule in chosen
    ]
    return _table(("code", "severity", "what is wrong"), rows)


def _depths(kind: str, body: str) -> Iterator[int]:
    """How deep in folders the pages lie that have this fence: a fence is not told its page."""
    for each in examples.fences():
        if (each.kind, each.body) == (kind, body):
            yield len(each.page.relative_to(chapters()).parts) - 1


def _source(body: str) -> str:
    path = (chapters() / body.strip()).resolve()
    if chapters() not in path.parents or not path.is_file():
        raise Drift(f"there is no {body.strip()}")
    text = path.read_text(encoding="utf-8").rstrip()
    shown = _coloured(text, {".mjs": "javascript", ".py": "python"}.get(path.suffix, "c"))
    return f'<div class="highlight"><pre><code>{shown}</code></pre></div>'


def _example(body: str) -> str:
    return _ran("python", body)


def _console(body: str) -> str:
    return _ran("console", body)


def _ran(kind: str, body: str) -> str:
    examples.run(kind, body)
    number = examples.number(kind, body)
    source, output = examples.parts(kind, body)
    name = f"example-{number}" if number else ""
    head = (
        f'<a class="i2s-head" href="#{name}">Example {number}</a>'
        if number
        else '<span class="i2s-head">Example</span>'
    )
    if kind == "console":
        shown = f"<pre><code>{escape(output.rstrip())}</code></pre>"
    else:
        text = escape(output.rstrip())
        printed = f'<pre class="i2s-output"><code>{text}</code></pre>' if text else ""
        shown = f"<pre><code>{_coloured(source.rstrip())}</code></pre>{printed}"
    return f'<div class="i2s-example highlight" id="{name}">{head}{shown}</div>'


def _coloured(source: str, language: str = "python") -> str:
    """Return a program with the classes that the theme colors; plain where there is no pygments."""
    try:
        pygments, lexers, formatters = map(import_module, ("pygments", "pygments.lexers", "pygments.formatters"))
    except ImportError:
        return escape(source)
    coloured: str = pygments.highlight(
        source, lexers.get_lexer_by_name(language), formatters.HtmlFormatter(nowrap=True)
    )
    return coloured.rstrip("\n")


def _bench(body: str) -> str:
    name, _, title = body.strip().partition(" ")
    return benchmarks.table(name, title)


def _rooflines(body: str) -> str:
    return benchmarks.rooflines()


def _drawing(body: str) -> str:
    svg, caption = drawn(body)
    return _figure(svg, escape(caption))


def _layouts(body: str) -> str:
    what, _, name = body.strip().partition(" ")
    if what not in _PICTURES:
        raise Drift(f"there is no picture of {what!r}; there are {', '.join(_PICTURES)}")
    make, caption = _PICTURES[what]
    return _figure(make(name), escape(caption))


#: What draws a picture of the layouts that weights tell, by its first word, and what is below it.
_PICTURES: Final[dict[str, tuple[Callable[[str], str], str]]] = {
    "matrix": (layouts.picture, "Scores by layout: a row for each that files were packed in; the answer is framed"),
    "channels": (layouts.channels, "Channels as each layout reads them, with the correlation of their ranks"),
    "layers": (layouts.layers, "Above the shares of the codes −1, 0 and +1, below the scales, by layer"),
}


def _api(body: str) -> str:
    return "".join(api_reference.entry(path) for path in body.split())


def _contents(body: str) -> str:
    sections: dict[str, list[str]] = {}
    for each in examples.fences():
        if each.kind == "i2s-api" and each.page.name == body.strip():
            sections.setdefault(each.section, []).extend(each.body.split())
    if not sections:
        raise Drift(f"{body.strip()} has no entries")
    return api_reference.contents(sections.items())


def _file(body: str) -> str:
    name = body.strip()
    data = examples.FILES[name]()
    carried = b64encode(data).decode("ascii")
    return (
        f'<p class="i2s-file"><a download="{escape(name)}" href="data:application/octet-stream;base64,{carried}">'
        f"Download {escape(name)}</a> ({len(data):,} bytes)</p>"
    )


def _status(body: str) -> str:
    """Where the specification stands, in one line; the date is that of the build, or `SOURCE_DATE_EPOCH`."""
    facts = [
        f"Package {escape(__version__)}{escape(_next())}",
        f"built {made_at():%Y-%m-%d}",
        "status: draft; numbers of clauses, requirements and rules are never reused",
        f'<a href="requirements.html">{len(requirements())} requirements</a>',
        f'<a href="rules/index.html">{sum(1 for _ in all_rules())} rules</a>',
    ]
    if repository := _repository():
        facts.append(f'<a href="{escape(repository)}">repository</a>')
    return f'<p class="i2s-status">{" · ".join(facts)}</p>'


def _next() -> str:
    """Return the version that the changes since the last release belong to."""
    path = root() / "CHANGELOG.md"
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    heading = re.search(r"^## (\S+)", text, re.MULTILINE)
    return f", with the changes of {heading[1]}" if heading and heading[1] != __version__.partition(".dev")[0] else ""


def _repository() -> str:
    """Return the address that the package declares; empty where it declares none."""
    path = root() / "pyproject.toml"
    project = tomllib.loads(path.read_text(encoding="utf-8"))["project"] if path.is_file() else {}
    urls = {name.lower(): address for name, address in project.get("urls", {}).items()}
    return str(urls.get("repository") or urls.get("source") or "")


KINDS: Final[dict[str, Callable[[str], str]]] = {
    "i2s-map": _map,
    "i2s-fields": _fields,
    "i2s-byte": _byte,
    "i2s-block": _block,
    "i2s-hexdump": _hexdump,
    "i2s-rules": _rules,
    "i2s-example": _example,
    "i2s-console": _console,
    "i2s-drawing": _drawing,
    "i2s-bench": _bench,
    "i2s-rooflines": _rooflines,
    "i2s-source": _source,
    "i2s-layouts": _layouts,
    "i2s-api": _api,
    "i2s-contents": _contents,
    "i2s-file": _file,
    "i2s-status": _status,
}
