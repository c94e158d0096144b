"""`i2s spec`: build, serve, test and rewrite the text of the specification, in a checkout."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import click

from i2s_spec.errors import EXIT_FINDINGS, MissingExtra, counted, quote

#: Files by which a folder is known as a site that was built before.
SITE = ("index.html", "sitemap.xml", "search/search_index.json")


@click.group(
    "spec",
    epilog="Example:  i2s spec test",
    short_help="Build, serve, test or rewrite the specification (in a checkout).",
)
def command() -> None:
    """Build, serve, test or rewrite the text of the specification.

    The text is part of a checkout; an installed package does not contain it.
    """


@command.command("build", epilog="Example:  i2s spec build -o site")
@click.option("-o", "--output", type=click.Path(file_okay=False, path_type=Path), metavar="DIR", help="Default: site.")
def build(output: Path | None) -> int:
    """Build the whole site; the build fails where an example no longer gives what the text shows.

    DIR is created; if it exists, it must be empty or hold an earlier site, which is replaced.
    """
    from i2s_spec.docs.checkout import root

    if output is not None:
        _refuse_to_empty(output)
    root()  # what is missing first: a checkout, then the extra
    _require_mkdocs()
    if _derived():
        return EXIT_FINDINGS
    target = [] if output is None else ["--site-dir", str(output.resolve())]
    return _mkdocs("build", "--strict", *target)


def _refuse_to_empty(folder: Path) -> None:
    """Refuse a folder that holds anything but a site: what is there is deleted before the site is written."""
    if not folder.is_dir() or all((folder / name).exists() for name in SITE):
        return
    if next(folder.iterdir(), None) is not None:
        what = f"{quote(str(folder), bare=True)} contains files that are not part of a site; building would delete them"
        raise click.UsageError(f"{what}; name another folder")


@command.command("serve", epilog="Example:  i2s spec serve --port 8001")
@click.option("--port", type=click.IntRange(1, 65535), default=8000, show_default=True)
@click.option("--open/--no-open", "browser", default=True, show_default=True, help="Open the site in a browser.")
def serve(port: int, browser: bool) -> int:
    """Serve the site to this machine, open it in a browser, and build it anew when a page changes."""
    # By its name, as mkdocs forgets its own default with newer versions of click.
    options = ["--livereload", *(["--open"] if browser else [])]
    return _mkdocs("serve", "--dev-addr", f"127.0.0.1:{port}", *options)


@command.command("test", epilog="Example:  i2s spec test --dump examples.json")
@click.option(
    "--dump", type=click.Path(dir_okay=False, allow_dash=True), metavar="FILE",
    help="Write the numbered examples as JSON, for other languages; - is stdout. Nothing is run.",
)  # fmt: skip
def test(dump: str | None) -> int:
    """Run every example, render every figure and table, make every generated page; print what is out of date."""
    from i2s_spec.docs import examples, fences
    from i2s_spec.docs.checkout import chapters
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
    for fence in examples.fences():
        count += 1
        try:
            fences.render(fence.kind, fence.body)
        except examples.Drift as drift:
            wrong += 1
            page = fence.page.relative_to(chapters())
            click.echo(f"{quote(str(page), bare=True)}:{fence.line}: {fence.kind}: {drift}")
    click.echo(f"{counted(count, 'fence')}, {len(examples.examples())} of them examples; {wrong} no longer true")
    return EXIT_FINDINGS if _derived() or wrong else 0


@command.command("write", epilog="Example:  i2s spec write --check")
@click.option("--check", is_flag=True, help="Write nothing; exit with 1 if something is out of date.")
def write(check: bool) -> int:
    """Regenerate what is out of date in spec/ and is made from declarations.

    These are the pages of the rules with what their commands print, the list of requirements, the pages of runtimes and
    of layouts found from weights, the tables in chapters 7, 11 and 12, and the script of the interactive
    page.
    """
    from i2s_spec.cli.replay import replay
    from i2s_spec.docs import derived

    if check:
        return _derived()
    changed = derived.write(replay)
    for name in changed:
        click.echo(quote(name, bare=True))
    click.echo(f"{counted(len(changed), 'file')} changed")
    return 0


def _derived() -> int:
    """Say what in spec/ is not current, and what cannot be told here."""
    from i2s_spec.cli.replay import replay
    from i2s_spec.docs import derived

    unable: dict[str, MissingExtra] = {}
    wrong = derived.check(replay, unable)
    for name, missing in unable.items():
        click.echo(f"i2s: {derived.RULES}/{name} is not checked: {missing}", err=True)
    for sentence in wrong:
        click.echo(sentence)
    if wrong:
        click.echo("i2s: run `i2s spec write`, and read the difference", err=True)
    return EXIT_FINDINGS if wrong else 0


def _mkdocs(*arguments: str) -> int:
    """Run mkdocs in the checkout; its own words go where ours would."""
    from i2s_spec.docs.checkout import root

    folder = root()
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
