"""`i2s rules`, `explain`, `schema` and `spec`: the rules and the specification, as text, pages and data.

`rules` has every rule in a list, or as the pages of the specification.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click

from i2s_spec._version import __version__
from i2s_spec.cli.options import form_option, shown, write_answer
from i2s_spec.errors import EXIT_FINDINGS, MissingExtra, SettingError, counted, quote
from i2s_spec.linter.explain import SCHEMA_VERSION, UnknownRule, as_dict, as_markdown, as_text, find
from i2s_spec.linter.rule import Rule, Severity, every_file
from i2s_spec.linter.rules import all_rules
from i2s_spec.linter.selection import PROFILES, selected

_FOLDER = click.Path(file_okay=False, path_type=Path)


@click.command("rules", epilog="Example:  i2s rules I", short_help="List every rule.")
@click.argument("prefixes", nargs=-1, metavar="[PREFIX]...")
@form_option(["text", "json"])
@click.option(
    "--profile",
    type=click.Choice(list(PROFILES)),
    help="List the rules of a profile, with the severities that they have in it.",
)
@click.option("--profiles", is_flag=True, help="List the profiles, and what each is for.")
@click.option(
    "--write", "target", type=_FOLDER, metavar="DIR", help="Write a page for each rule, and an index, to DIR."
)
@click.option(
    "--check", "current", type=_FOLDER, metavar="DIR", help="Exit with 1 where the pages in DIR are not current."
)
def rules_command(
    prefixes: tuple[str, ...],
    form: str,
    profile: str | None,
    profiles: bool,
    target: Path | None,
    current: Path | None,
) -> int:
    """List every rule, or those whose code begins with one of the prefixes.

    The title is followed by what the rule applies to, unless that is every file, and by whether it reads the weights.

    --write writes the pages of all rules to a folder; --check compares them with a folder. Clauses become links to the
    chapters in its parent folder.
    """
    if target is not None or current is not None:
        if prefixes or form != "text" or profiles or profile or (target and current):
            raise click.UsageError("--write DIR and --check DIR cover all rules, and take no other option")
        return _write(target) if target is not None else _check(current)
    if profiles:
        return _profiles(form)
    wanted = tuple(prefix.upper() for prefix in prefixes) or ("",)
    levels = {rule.code: rule.severity for rule in all_rules()}
    if profile is not None:
        levels = dict(selected(profile, runtimes=True, reference=True))
    rules = [rule for rule in all_rules() if rule.code.startswith(wanted) and rule.code in levels]
    if form == "json":
        about = None if profile is None else {"name": profile, "purpose": PROFILES[profile].purpose}
        listed = [_about(rule, levels[rule.code]) for rule in rules]
        click.echo(json.dumps({"schema_version": SCHEMA_VERSION, "profile": about, "rules": listed}, indent=2))
        return 0
    if not rules:
        among = "" if profile is None else f" of the profile {profile}"
        raise click.UsageError(
            f"no rule{among} begins with {', '.join(map(quote, wanted))}; `i2s rules` lists them all"
        )
    width = max(len(rule.slug) for rule in rules)
    for rule in rules:
        level = levels[rule.code].value
        conditions = [
            *([rule.applies_to] if rule.when is not every_file else []),
            *(["reads the weights"] if rule.payload else []),
        ]
        condition = f"  ({'; '.join(conditions)})" if conditions else ""
        click.echo(f"{rule.code}  {rule.slug:<{width}}  {level:<7}  {rule.clause:<4}  {rule.title}{condition}")
    return 0


def _about(rule: Rule, level: Severity) -> dict[str, Any]:
    return {**as_dict(rule), "severity": level.value}


def _profiles(form: str) -> int:
    counts = {name: Counter(selected(name, runtimes=True, reference=True).values()) for name in PROFILES}
    if form == "json":
        listed = [
            {"name": name, "purpose": profile.purpose, **{f"{level.value}s": counts[name][level] for level in Severity}}
            for name, profile in PROFILES.items()
        ]
        click.echo(json.dumps({"schema_version": SCHEMA_VERSION, "profiles": listed}, indent=2))
        return 0
    width = max(map(len, PROFILES))
    for name, profile in PROFILES.items():
        numbers = ", ".join(f"{counts[name][level]} {level.value}s" for level in Severity)
        click.echo(f"{name:<{width}}  {profile.purpose} ({numbers})")
    return 0


def _write(folder: Path) -> int:
    from i2s_spec.cli import rule_pages

    changed = rule_pages.write(folder)
    click.echo(f"{counted(len(changed), 'page')} in {quote(str(folder), bare=True)} changed")
    return 0


def _check(folder: Path | None) -> int:
    from i2s_spec.cli import rule_pages

    assert folder is not None
    wrong = rule_pages.check(folder)
    for sentence in wrong:
        click.echo(sentence)
    if wrong:
        click.echo(f"i2s: run `i2s rules --write {quote(str(folder), bare=True)}`", err=True)
    return EXIT_FINDINGS if wrong else 0


# --- explain ---------------------------------------------------------------------------------------------------------
# What a rule says, why, and what to do.


@click.command(
    "explain",
    epilog="Example:  i2s explain I104 --example",
    short_help="Explain a rule: what it means, why, and what to do.",
)
@click.argument("codes", nargs=-1, required=True, metavar="CODE...")
@click.option("--example", is_flag=True, help="Show the rule at work, too: a file that breaks it, and a mended one.")
@form_option(["text", "json", "markdown"])
def explain_command(codes: tuple[str, ...], example: bool, form: str) -> None:
    """Say what a rule is about, why it matters, and what to do; CODE is a code such as I104 or a slug.

    --example makes a file that breaks the rule, lints it and, if there is a repair, repairs it. The page of the rule
    shows the same output.
    """
    try:
        rules = [find(code) for code in codes]
    except UnknownRule as error:
        hint = f"; did you mean {' or '.join(error.close)}?" if error.close else "; `i2s rules` lists them all"
        raise click.UsageError(f"there is no rule {quote(error.name)}{hint}") from None
    if form == "json":
        click.echo(json.dumps([_as_data(rule, example) for rule in rules], indent=2))
    else:
        click.echo("\n".join(_as_words(rule, example, form) for rule in rules), nl=False)


def _as_words(rule: Rule, example: bool, form: str) -> str:
    if not example:
        return as_text(rule) if form == "text" else as_markdown(rule)
    from i2s_spec.cli import rule_pages

    if form == "markdown":
        return rule_pages.words(rule)
    return as_text(rule) + "\n" + rule_pages.as_text(rule_pages.shown(rule))


def _as_data(rule: Rule, example: bool) -> dict[str, Any]:
    if not example:
        return as_dict(rule)
    from i2s_spec.cli.rule_pages import shown

    return {**as_dict(rule), "before_after": shown(rule)._asdict()}


# --- schema ----------------------------------------------------------------------------------------------------------
# The schema as JSON, Kaitai Struct, ImHex pattern or C header; and the registry.


@click.command(
    "schema",
    epilog="Example:  i2s schema --format c -o i2s.h",
    short_help="Print the schema as JSON, Kaitai Struct, ImHex pattern, C header, WGSL or CUDA C.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["json", "ksy", "hexpat", "c", "wgsl", "cuda", "registry", "registry-tsv"]),
    default="json",
    show_default=True,
)
@click.option("-o", "--output", type=click.Path(dir_okay=False), metavar="FILE", help="Write to FILE.")
@click.option("--force", is_flag=True, help="Overwrite FILE if it exists.")
def schema_command(form: str, output: str | None, force: bool) -> int:
    """Print the schema of GGUF with I2_S tensors in another language.

    \b
    json     every record, type, layout, code map and limit (schema.schema.json)
    ksy      Kaitai Struct: parsers in C++, Go, Java, JavaScript, Lua, PHP, Python, Ruby and Rust
    hexpat   a pattern of the hex editor ImHex
    c        a C99 header: a bounded walk over a file, a decoder and an encoder for every dialect
    wgsl     compute shaders: decode, dequantise, the product with codes of activations, and these codes
    cuda     kernels in CUDA C: the same, and products of one token and of many tokens
    registry, registry-tsv   every meaning of every type number from 29 on, as JSON (registry.schema.json) or TSV

    All are written from the declarations that this package itself reads by.
    """
    from i2s_spec.exports import export

    text = export(form)
    write_answer((text,), output, force)
    if output not in (None, "-"):
        click.echo(f"{shown(output)}: {counted(len(text), 'byte')}", err=True)
    return 0


# --- spec ------------------------------------------------------------------------------------------------------------
# The text of the specification in a checkout: built, served, tested, written out. It is `spec/`, and what makes the site
# of it is `spec/build`; neither is part of an installed package. `checkout` finds the folder: that of an editable install,
# or the one around the current folder.

#: Files by which a folder is known as a site that was built before.
SITE = ("index.html", "sitemap.xml", "search/search_index.json")

#: Files that a checkout has, and no other folder; the last one is where the package itself is not.
_TEXT = ("mkdocs.yml", "spec/index.md")
_VERSION = "i2s_spec/_version.py"

#: Where pages are written unless a folder is named; git ignores it.
_WRITTEN = Path("build", "spec")


def checkout() -> Path:
    """Return the folder of the checkout that this package was imported from, or that one stands in.

    Then `i2s_site`, which is in it, can be imported.

    :raises SettingError: if there is none, or only one of another version
    """
    here = Path.cwd()
    own = Path(__file__).resolve().parents[2]
    if not all((own / mark).is_file() for mark in _TEXT):
        marks = (*_TEXT, _VERSION)
        found = (folder for folder in (here, *here.parents) if all((folder / mark).is_file() for mark in marks))
        own = next(found, Path())
        if own == Path():
            raise SettingError(
                "the text of the specification is not part of the installed package: clone the repository, and run this "
                "again in the clone"
            )
        require_version(own)
    builder = str(own / "spec" / "build")
    if builder not in sys.path:
        sys.path.append(builder)
    return own


def require_version(folder: Path) -> None:
    """Compare the version of a checkout with that of this package: another version's text differs.

    :raises SettingError: if they differ
    """
    found = re.search(r'__version__ = "([^"]+)"', (folder / _VERSION).read_text(encoding="utf-8"))
    if found is None or found[1] != __version__:
        theirs = quote(found[1], bare=True) if found is not None else "unknown"
        raise SettingError(
            f"the checkout {quote(str(folder))} is of version {theirs}, and the installed package of {__version__}: "
            "run `pip install .` in it"
        )


@click.group(
    "spec",
    epilog="Example:  i2s spec test",
    short_help="Build, serve, test or write out the specification (in a checkout).",
)
def spec_command() -> None:
    """Build, serve, test or write out the text of the specification.

    The text is part of a checkout; an installed package does not contain it.
    """


@spec_command.command("build", epilog="Example:  i2s spec build -o site")
@click.option("-o", "--output", type=click.Path(file_okay=False, path_type=Path), metavar="DIR", help="Default: site.")
def build(output: Path | None) -> int:
    """Build the whole site; the build fails where an example no longer gives what the text shows.

    DIR is created; if it exists, it must be empty or hold an earlier site, which is replaced.
    """
    if output is not None:
        _refuse_to_empty(output)
    checkout()  # what is missing first: a checkout, then the extra
    _require_mkdocs()
    target = [] if output is None else ["--site-dir", str(output.resolve())]
    return _mkdocs("build", "--strict", *target)


def _refuse_to_empty(folder: Path) -> None:
    """Refuse a folder that holds anything but a site: what is there is deleted before the site is written."""
    if not folder.is_dir() or all((folder / name).exists() for name in SITE):
        return
    if next(folder.iterdir(), None) is not None:
        what = f"{quote(str(folder), bare=True)} contains files that are not part of a site; building would delete them"
        raise click.UsageError(f"{what}; name another folder")


@spec_command.command("serve", epilog="Example:  i2s spec serve --port 8001")
@click.option("--port", type=click.IntRange(1, 65535), default=8000, show_default=True, metavar="N")
@click.option("--open/--no-open", "browser", default=True, show_default=True, help="Open the site in a browser.")
def serve(port: int, browser: bool) -> int:
    """Serve the site to this machine, open it in a browser, and build it anew when a page changes."""
    # By its name, as mkdocs forgets its own default with newer versions of click.
    options = ["--livereload", *(["--open"] if browser else [])]
    return _mkdocs("serve", "--dev-addr", f"127.0.0.1:{port}", *options)


@spec_command.command("test", epilog="Example:  i2s spec test --dump examples.json")
@click.option(
    "--dump", type=click.Path(dir_okay=False, allow_dash=True), metavar="FILE",
    help="Write the numbered examples as JSON, for other languages; - is stdout. Nothing is run.",
)  # fmt: skip
def test(dump: str | None) -> int:
    """Run every example, render every figure and table, make every generated page; print what is no longer true."""
    checkout()
    from i2s_site import examples, fences, generated
    from i2s_spec.gguf.atomic_file import OutputFile

    if dump is not None:
        text = json.dumps(examples.document(), indent=2, ensure_ascii=False) + "\n"
        if dump == "-":
            click.echo(text, nl=False)
            return 0
        with OutputFile(dump, force=True) as file:
            file.write(text.encode())
        return 0
    wrong = count = 0
    for sentence in fences.untrue():
        count += 1
        if sentence:
            wrong += 1
            click.echo(sentence)
    click.echo(f"{counted(count, 'fence')}, {len(examples.examples())} of them examples; {wrong} no longer true")
    generated.everything()
    return EXIT_FINDINGS if wrong else 0


@spec_command.command("write", epilog="Example:  i2s spec write pages")
@click.argument("folder", required=False, type=click.Path(file_okay=False, path_type=Path), metavar="[DIR]")
@click.option("--check", is_flag=True, help="Write nothing; exit with 1 if a page in DIR is missing or out of date.")
def write(folder: Path | None, check: bool) -> int:
    """Write what is generated when the site is built to DIR, to read it without the site; by default to build/spec.

    These are the pages of the rules with what their commands print, the requirements and their register, the pages of
    runtimes, decoders, type numbers, test vectors, and layouts found from weights, the notebook, the chapters that have
    generated tables, and the script and colors of the interactive page.
    """
    root = checkout()
    from i2s_site import generated
    from i2s_spec.gguf.atomic_file import OutputFile

    target = root / _WRITTEN if folder is None else folder
    changed = 0
    for name, text in generated.everything().items():
        path = target / name
        data = text.encode()
        if path.is_file() and path.read_bytes() == data:
            continue
        changed += 1
        click.echo(quote(name, bare=True))
        if not check:
            path.parent.mkdir(parents=True, exist_ok=True)
            with OutputFile(path, force=True) as output:
                output.write(data)
    where = quote(str(target), bare=True)
    click.echo(f"{counted(changed, 'file')} in {where} {'out of date or missing' if check else 'changed'}")
    return EXIT_FINDINGS if check and changed else 0


def _mkdocs(*arguments: str) -> int:
    """Run mkdocs in the checkout; its own words go where ours would."""
    folder = checkout()
    _require_mkdocs()
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    verb, *rest = arguments
    # -P: what is installed is run, not a package of the same name in the folder, which need not be compiled.
    command = [sys.executable, "-P", "-m", "mkdocs", verb, "--config-file", str(folder / "mkdocs.yml"), *rest]
    if verb == "serve":  # in the place of this process: whoever stops it stops the server
        os.chdir(folder)
        os.execve(sys.executable, command, environment)
    return subprocess.run(command, cwd=folder, env=environment, check=False).returncode


def _require_mkdocs() -> None:
    """Say that the site cannot be made before anything is.

    :raises MissingExtra: where it cannot
    """
    if find_spec("mkdocs") is None or find_spec("material") is None:
        raise MissingExtra("the site", "docs")
