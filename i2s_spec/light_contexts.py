"""This module has what the modules of a start need of `contextlib`, without the import of it and of `collections`.

Type checkers read `contextlib` itself.

    >>> with suppress(KeyError):
    ...     {}["nothing"]
"""

from __future__ import annotations

from i2s_spec.light_typing import TYPE_CHECKING

__all__ = ["ExitStack", "closing", "nullcontext", "suppress"]

if TYPE_CHECKING:
    from contextlib import ExitStack, closing, nullcontext, suppress
else:

    class suppress:  # noqa: N801 - as `contextlib` names it
        """As `contextlib.suppress`, of errors that are no groups."""

        def __init__(self, *kinds):
            self._kinds = kinds

        def __enter__(self):
            return None

        def __exit__(self, kind, error, trace):
            return kind is not None and issubclass(kind, self._kinds)

    class closing:  # noqa: N801
        """As `contextlib.closing`."""

        def __init__(self, thing):
            self.thing = thing

        def __enter__(self):
            return self.thing

        def __exit__(self, *raised):
            self.thing.close()

    class nullcontext:  # noqa: N801
        """As `contextlib.nullcontext`."""

        def __init__(self, enter_result=None):
            self.enter_result = enter_result

        def __enter__(self):
            return self.enter_result

        def __exit__(self, *raised):
            return None

    class ExitStack:
        """As `contextlib.ExitStack`, of contexts: they end like nested `with` statements."""

        def __init__(self):
            self._contexts = []

        def enter_context(self, context):
            """Enter a context, which ends when this one does."""
            entered = context.__enter__()
            self._contexts.append(context)
            return entered

        def __enter__(self):
            return self

        def __exit__(self, *raised):
            if not self._contexts:
                return False
            context = self._contexts.pop()
            try:
                handled = context.__exit__(*raised)
            except BaseException as error:
                if self.__exit__(type(error), error, error.__traceback__):
                    return True
                raise
            if handled and raised[0] is not None:
                self.__exit__(None, None, None)
                return True
            return self.__exit__(*raised)
