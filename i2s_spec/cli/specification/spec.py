"""`i2s spec`: build, serve, test and write out the text of the specification, in a checkout.

The text is `spec/`, and what makes the site of it is `spec/build`; neither is part of an installed package. `checkout`
finds the folder: that of an editable install, or the one around the current folder.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import click

from i2s_spec._version import __version__
from i2s_spec.errors import EXIT_FINDINGS, MissingExtra, SettingError, counted, quote

#: Files by which a folder is known as a site that was built before.
SITE = ("index.html", "sitemap.xml", "search/search_index.json")

#: Files that a checkout has, and no other folder; the last one is where the package itself is not.
_TEXT = ("mkdocs.yml", "spec/index.md")
_VERSION = "i2s_spec/_version.py"

#: Where pages are written unless a folder is named; git ignores it.
_WRITTEN = Path("build", "spec")


def checkout() -> Path:
    """The folder of the checkout that this package was imported from, or that one stands in.

    Then `i2s_site`, which is in it, can be imported.

    :raises SettingError: if there is none, or only one of another version
    """
    here = Path.cwd()
    own = Path(__file__).resolve().parents[3]
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
def command() -> None:
    """Build, serve, test or write out the text of the specification.

    The text is part of a checkout; an installed package does not contain it.
    """


@command.command("build", epilog="Example:  i2s spec build -o site")
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


@command.command("write", epilog="Example:  i2s spec write pages")
@click.argument("folder", required=False, type=click.Path(file_okay=False, path_type=Path), metavar="[DIR]")
@click.option("--check", is_flag=True, help="Write nothing; exit with 1 if a page in DIR is missing or out of date.")
def write(folder: Path | None, check: bool) -> int:
    """Write what is generated when the site is built to DIR, to read it without the site; by default to build/spec.

    These are the pages of the rules with what their commands print, the requirements and their register, the pages of
    runtimes, decoders, type numbers, test vectors, and layouts found from weights, the notebook, chapters 5, 7, 11 and
    12 with their tables, and the script and colors of the interactive page.
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
