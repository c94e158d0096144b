"""Repairs: they turn a file with findings into a file without them. Whoever imports this package has all of them.

A *repair* is declared once for each rule that promises one: the rule's code, whether it is safe, and a function that
proposes *actions* (edits of bytes, with a sentence) or says why it declines. The *plan* applies them to a file that is
not written yet, lints the result, and repeats that until nothing is left to do. So a repaired file has no finding that
was repaired, and a second repair changes nothing.

A safe repair changes no weight: none of its edits touches a tensor, and the identity of the weights before and after is
printed as the proof. A repair that needs review is made only on request, and its output says so.

    plan         Repair, Action, Declined, the decorator that registers; which repairs are made, in which order; what is
                 offered for a finding. `linter.fix` writes the result, and the engine asks what is offered.
      workspace  a file under repair: records, values, and edits of them; the dialect of I2_S tensors
      keys, tokenizer, tensors, layout    the repairs, by what they change
"""

from importlib import import_module
from pkgutil import iter_modules

for _module in iter_modules(__path__, f"{__name__}."):
    import_module(_module.name)
