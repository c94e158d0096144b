"""What the verbs that run a model share: their options, opening the model, and text or ids as tokens."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from i2s_spec.cli.options import reading, remote_options
from i2s_spec.cli.process import counting_bar
from i2s_spec.errors import FormatError, SettingError, quote
from i2s_spec.gguf.source import open_regular

if TYPE_CHECKING:
    from i2s_spec.model.tokenizer.tokenizer import Tokenizer

#: Longest text that is read, in bytes: more than any context or test set has.
MOST_TEXT = 256 << 20


def numerics_option(text: str, default: str | None = None) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return the option that names a numeric profile.

    :param text: of the help
    """
    return click.option("--numerics", default=default, show_default=default is not None, metavar="NAME", help=text)


def model_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of every verb that runs a model."""
    command = remote_options(command)
    for option in reversed(
        (
            numerics_option("The numeric profile: how numbers are computed.", default="fast"),
            click.option("--threads", type=click.IntRange(1), metavar="N", help="Threads. [default: one per processor]"),
            click.option(
                "--pre", metavar="NAME", help="Split text as this pre-tokenizer does, or where the file names none, "
                "as this runtime: bitnet.cpp, llama.cpp, ik_llama.cpp, hf. [default: hf]",
            ),
            click.option("--force", is_flag=True, help="Try a model that the linter calls broken."),
            click.option(
                "--trusted", is_flag=True, help="Map MODEL into memory, which is faster than reading it: for a file that no "
                "other program shortens meanwhile, which would end the process.",
            ),
            click.option("-q", "--quiet", is_flag=True, help="No progress bars and no remarks."),
        )
    ):  # fmt: skip
        command = option(command)
    return command


def remark_refusal(error: FormatError, force: bool) -> None:
    """Name the option that tries a refused model all the same, where it would not be refused again."""
    from i2s_spec.model.load import refused_always

    if not force and not refused_always(error):
        remark("this model is refused; --force tries it anyway")


def open_model(
    path: str | None,
    numerics: str,
    threads: int | None,
    force: bool,
    quiet: bool,
    *,
    embeds: bool,
    trusted: bool = False,
) -> Any:
    """Load a model; on a terminal with a bar that moves while that takes time.

    :param path: of the file; None for the trained model that comes with the package, which is then said on stderr
    :param embeds: whether an embedding model is needed, or one that continues text
    :param trusted: whether the file is mapped into memory
    :raises SettingError: for the other kind, and for settings that do not exist
    """
    from i2s_spec.gguf.reader import open as open_file
    from i2s_spec.model.load import load_model

    if path is None and not quiet:
        remark(f"the model is {named(path)}")
    file = open_file(origin(path), trusted=trusted)
    try:
        with reading(path), counting_bar("loading", None, quiet) as progress:
            model = load_model(file, numerics=numerics, threads=threads, force=force, progress=progress)
    except FormatError as error:
        file.close()
        if not quiet:
            remark_refusal(error, force)
        raise
    except ValueError as error:
        file.close()
        raise SettingError(str(error)) from None
    name = model.architecture.name
    if model.architecture.embedding_model and not embeds:
        model.close()
        raise SettingError(f"this is an embedding model ({name}): it cannot continue text; use `i2s embed`")
    if embeds and not model.architecture.embedding_model:
        model.close()
        raise SettingError(f"this is a language model ({name}): it computes no embeddings; use `i2s run`")
    return model


def tokenizer_of(model: Any, pre: str | None, quiet: bool) -> Tokenizer:
    """Return the tokenizer of a model's file; print on stderr what it had to assume."""
    from i2s_spec.model.tokenizer.tokenizer import load_tokenizer

    tokenizer = load_tokenizer(model.file, pre)
    choice = tokenizer.choice
    if choice is not None and choice.assumed and not quiet:
        remark(f"tokenizer.ggml.pre is missing: text is split by {choice.pre.name} ({choice.why}); --pre decides")
    return tokenizer


def tokenizer_if_any(model: Any, pre: str | None, quiet: bool) -> Tokenizer | None:
    """Return the tokenizer, for showing tokens that were given as ids: None, with a remark, where the file has no
    usable one.
    """
    try:
        tokenizer = tokenizer_of(model, pre, quiet)
        _ = tokenizer.size, tokenizer.vocabulary.types
    except FormatError as error:
        if not quiet:
            remark(f"{error}; tokens are shown as ids")
        return None
    return tokenizer


def remark(text: str) -> None:
    """Write a line on stderr."""
    click.echo(f"i2s: {text}", err=True)


class TokenIds(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """Token ids with commas or spaces between them."""

    name = "IDS"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> list[int]:
        """Return the ids as a list."""
        if isinstance(value, list):
            return value
        words = str(value).replace(",", " ").split()
        for word in words:
            if not word.isascii() or not word.isdigit() or len(word) > 10:
                self.fail(f"{quote(word)} is not a token id; write ids as 1,2,3", param, ctx)
        if not words:
            self.fail("there are no ids in it", param, ctx)
        return [int(word) for word in words]


def read_text(path: str) -> str:
    """Return the text of a file, or of stdin for `-`.

    :raises SettingError: for text that is too long or not UTF-8
    """
    if path == "-":
        data = sys.stdin.buffer.read(MOST_TEXT + 1)
    else:
        with open_regular(path) as file:
            data = file.read(MOST_TEXT + 1) or b""  # None of what waits
    if len(data) > MOST_TEXT:
        raise SettingError(f"the text has more than {MOST_TEXT >> 20} MB")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise SettingError(f"the text is not UTF-8 at byte {error.start:,}") from None


def encode(tokenizer: Tokenizer, text: str, **how: Any) -> list[int]:
    """Return the ids of a text."""
    return tokenizer.encode(text, **how)


# --- the default model -----------------------------------------------------------------------------------------------
# What verbs open where no file is named: the trained model that comes with the package.


def origin(path: str | None) -> Any:
    """Return what to open for an argument that may be left out: the path itself, or the model of the package."""
    if path is not None:
        return path
    from i2s_spec.convert.trained import source

    return source()


def named(path: str | None) -> str:
    """Return what the model is called where a path would be printed."""
    if path is not None:
        return path
    from i2s_spec.convert.trained import label

    return label()
