"""What the package promises, from its docstrings: signature, first sentences, parameters, errors.

A docstring here is plain text with `code`, paragraphs, and fields: `:param name:`, `:returns:`, `:raises Error:`.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator
from html import escape
from importlib import import_module
from typing import Any

_FIELD = re.compile(r"^:(param|returns?|raises)\s*([^:]*):\s*(.*)$")


def named(path: str) -> Any:
    """Return an object by its dotted path: `i2s_spec.pack`, `i2s_spec.gguf.reader.File`.

    :raises ValueError: where there is none
    """
    parts = path.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found: Any = import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        try:
            for name in parts[cut:]:
                found = getattr(found, name)
        except AttributeError:
            break
        return found
    raise ValueError(f"nothing is called {path}")


def entry(path: str) -> str:
    """Return an object as HTML: of a class its public members too."""
    found = named(path)
    parts = [_head(path, found, anchor(path)), *_doc(found)]
    if inspect.isclass(found):
        for name, member in _members(found):
            shown = f"{found.__name__}.{name}"
            parts += ['<div class="i2s-member">', _head(shown, member, shown), *_doc(member), "</div>"]
    return f'<div class="i2s-api">{"".join(parts)}</div>'


def anchor(path: str) -> str:
    """Return the id of an object's entry: its path without the package."""
    return path.removeprefix("i2s_spec.")


def contents(sections: Iterable[tuple[str, list[str]]]) -> str:
    """Return a contents list: under the title of each section links to its entries, and of classes to their members.

    :param sections: titles, and the dotted paths below each
    """
    made = []
    for title, paths in sections:
        links = "".join(f"<li>{_linked(path)}</li>\n" for path in paths)
        made.append(f"<div><p><strong>{escape(title)}</strong></p><ul>{links}</ul></div>\n")
    return f'<div class="i2s-contents">{"".join(made)}</div>'


def _linked(path: str) -> str:
    found = named(path)
    link = f'<a href="#{escape(anchor(path))}"><code>{escape(anchor(path))}</code></a>'
    members = [name for name, _ in _members(found)] if inspect.isclass(found) else []
    shown = ", ".join(f'<a href="#{found.__name__}.{name}">{name}</a>' for name in members)
    return f"{link} <small>{shown}</small>" if shown else link


def _members(cls: type) -> Iterator[tuple[str, Any]]:
    for name, member in vars(cls).items():
        plain = member.__func__ if isinstance(member, classmethod | staticmethod) else member
        known = inspect.isfunction(plain) or isinstance(plain, property) or hasattr(plain, "func")
        if known and not name.startswith("_") and inspect.getdoc(plain):
            yield name, plain


def _head(path: str, found: Any, name: str) -> str:
    try:
        signature = "" if isinstance(found, property) else _signature(found)
    except (TypeError, ValueError):
        signature = ""
    return f'<pre class="i2s-signature" id="{escape(name)}"><code><b>{escape(path)}</b>{escape(signature)}</code></pre>'


def _signature(found: Any) -> str:
    """Return the parameters as they are declared: annotations are texts already, and lose the quotation marks of
    such.
    """
    signature = inspect.signature(found)
    text: list[str] = []
    for name, parameter in signature.parameters.items():
        if name == "self":
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and not any(each.startswith("*") for each in text):
            text.append("*")
        star = "*" * (parameter.kind is parameter.VAR_POSITIONAL) or "**" * (parameter.kind is parameter.VAR_KEYWORD)
        kind = "" if parameter.annotation is parameter.empty else f": {_annotation(parameter.annotation)}"
        default = "" if parameter.default is parameter.empty else f" = {parameter.default!r}"
        text.append(f"{star}{name}{kind}{default}")
    result = signature.return_annotation
    returns = "" if result is inspect.Signature.empty or inspect.isclass(found) else f" -> {_annotation(result)}"
    shown = f"({', '.join(text)}){returns}"
    if len(shown) < 90:
        return shown
    return "(\n" + "".join(f"    {each},\n" for each in text) + f"){returns}"


def _annotation(annotation: Any) -> str:
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)


def _doc(found: Any) -> Iterator[str]:
    fields: list[tuple[str, str, str]] = []
    for paragraph in re.split(r"\n\s*\n", inspect.getdoc(found) or ""):
        lines = paragraph.splitlines()
        if paragraph.lstrip().startswith(">>>"):
            yield f"<pre><code>{escape(paragraph)}</code></pre>"
        elif lines and all(line.startswith("    ") for line in lines):
            yield f"<pre><code>{escape(inspect.cleandoc(paragraph))}</code></pre>"
        elif lines and _FIELD.match(lines[0]):
            for line in lines:
                if met := _FIELD.match(line):
                    fields.append((met[1], met[2], met[3]))
                else:
                    kind, name, words = fields[-1]
                    fields[-1] = (kind, name, f"{words} {line.strip()}")
        elif lines:
            yield f"<p>{_inline(' '.join(lines))}</p>"
    if fields:
        yield "<dl>"
        for kind, name, words in fields:
            term = f"<code>{escape(name)}</code>" if name else "returns"
            yield f"<dt>{'raises ' if kind == 'raises' else ''}{term}</dt><dd>{_inline(words)}</dd>"
        yield "</dl>"


def _inline(words: str) -> str:
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(words))
