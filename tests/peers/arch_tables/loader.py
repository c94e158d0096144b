"""A run of an architecture's loader without a file: every branch is taken, with its condition.

`Loader.run` executes `load_hparams` (which calls the architecture's `load_arch_hparams`) and `load_arch_tensors` over values
of `values`. What they ask of a file is collected: tensors, keys, and conditions under which they refuse. After the
first function the hyperparameters are known as expressions of keys; in the second they are named, and `used` has the names.

A statement that is not understood is noted and skipped, and what it would have set stays unknown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

from peers.arch_tables.calls import HYPER, Calls, NotUnderstoodError
from peers.arch_tables.sources import Sources
from peers.arch_tables.syntax import (
    Assignment,
    Binary,
    Block,
    Braces,
    Break,
    Call,
    Conditional,
    Continue,
    Declaration,
    Empty,
    Evaluation,
    Expression,
    For,
    ForEach,
    If,
    Lambda,
    Member,
    Name,
    Null,
    Number,
    ParseError,
    Return,
    Statement,
    Subscript,
    Switch,
    Text,
    Throw,
    Try,
    Unary,
    Unread,
    While,
    parsed_expression,
)
from peers.arch_tables.values import (
    INDEX,
    ONE,
    ZERO,
    Array,
    ArrayPlace,
    Dimension,
    Field,
    FieldElement,
    Joined,
    KeyId,
    Reference,
    Tensor,
    TensorId,
    TensorNamer,
    Unknown,
    both,
    conditional,
    either,
    mentions,
    negation,
    operation,
    substituted,
    truth,
    unresolved,
)

#: Calls of functions within functions.
_DEPTH: Final = 14

#: Loops of fewer passes are run pass by pass.
_PASSES: Final = 8

#: Names of loop variables, from the outermost.
_VARIABLES: Final = "ijlmpq"

#: Tensors that a model has for itself, before a loader sets them.
_MEMBERS: Final = ("output", "tok_embd", "output_norm", "output_b", "output_norm_b")

#: Variables that say something about a model that no row depends on.
_NO_MATTER: Final = ("type", "is_hybrid")


class Loop(NamedTuple):
    """A loop over the integers from `first` up to before `end`."""

    variable: str
    first: Expression
    end: Expression


@dataclass
class TensorRow:
    """A tensor that a loader asks for. Shapes are in ggml's order; one of them fits."""

    name: Joined
    shapes: tuple[tuple[Expression, ...], ...]
    flags: Expression
    guard: Expression
    loops: tuple[Loop, ...]


class KeyRow(NamedTuple):
    """A key that a loader asks for: `kind` as the table has it, `length` of an array."""

    key: str
    type: str
    kind: str
    required: Expression
    guard: Expression
    length: Expression | None


class Condition(NamedTuple):
    """What has to hold where a guard holds: `throw`, `assert` and `abort` at load, `graph` at the first decode."""

    holds: Expression
    guard: Expression
    loops: tuple[Loop, ...]
    kind: Literal["throw", "assert", "abort", "graph"]


@dataclass
class _Frame:
    """A function or a loop that is executed, and where it was left.

    :param guards: how many guards there were before it, :param scopes: how many scopes
    """

    kind: Literal["function", "loop"]
    guards: int
    scopes: int
    returned: list[tuple[Expression, Expression]] = field(default_factory=list)
    left: list[tuple[Expression, _Variables]] = field(default_factory=list)


#: Variables by place: "hparams.n_embd", "layers[].wq"; an element whose index is a loop variable has a place of its own.
_Variables = dict[str | tuple[str, Expression], Expression]


class Loader:
    """The loader of one architecture.

    :param architecture: its constant, `LLM_ARCH_LLAMA`
    """

    def __init__(self, sources: Sources, architecture: str) -> None:
        self.tensors: list[TensorRow] = []
        self.keys: list[KeyRow] = []
        self.conditions: list[Condition] = []
        self.notes: list[str] = []
        self.understood = 0
        self.used: set[str] = set()
        self.hyperparameters = ""  # the name of the architecture's load_arch_hparams
        self.fields: _Variables = {}  # the hyperparameters, when they are known
        self.sources = sources
        self._architecture = architecture
        self._variables: _Variables = {}
        self._types: dict[str, str] = {}
        self._guards: list[Expression] = []
        self._alive: Expression = ONE  # whether what follows in this scope is executed
        self._refused = False  # whether the last branch ended by a refusal
        self._loops: list[Loop] = []
        self._frames: list[_Frame] = []
        self._scopes: list[dict[str, Expression | None]] = []
        self._depth = 0
        self._in_getter = 0
        self._where = "base"
        self._silent = False
        self._calls = Calls(self)
        for name, default in sources.field_defaults.items():
            try:
                self._variables[HYPER + name] = self.evaluate(parsed_expression(default))
            except (NotUnderstoodError, ParseError, IndexError):
                continue
        self.notes.clear()

    # The three functions.

    def run(self, hyperparameters: str, tensors: str, graph: str | None) -> tuple[list[str], list[str], list[str]]:
        """Execute the loader; returns notes on what all loaders share, on this architecture's keys, and on its tensors.

        :param hyperparameters: the name of the architecture's function load_arch_hparams, :param tensors: of its
            load_arch_tensors, :param graph: of the constructor of its graph, of which only the assertions are read
        """
        functions = self.sources.functions
        self._variables[f"{HYPER}vocab_only"] = ZERO
        self._types["classifier_labels"] = "std::vector<std::string>"
        self.hyperparameters = hyperparameters
        self.call_function("llama_model_base::load_hparams", (ZERO,))
        shared = [note for note in self.notes if not note.startswith("own")]
        on_keys = [note for note in self.notes if note.startswith("own")]
        self.notes.clear()
        self.fields, self._where = dict(self._variables), "own"
        self._start()
        self.call_function(tensors, (ZERO,))
        on_tensors = list(self.notes)
        if graph is not None:
            understood, self._silent = self.understood, True
            self._read_graph(functions[graph].body())
            self.understood, self._silent = understood, False
        return shared, on_keys, on_tensors

    def _start(self) -> None:
        self._loops, self._guards, self._alive = [], [], ONE

    def _read_graph(self, body: Block) -> None:
        """Read the assertions at the head of a graph's constructor, which end the process at the first decode."""
        self._start()
        self._frames, self._scopes = [], [{}]
        for name in ("n_rot", "n_head", "n_head_kv", "n_embd_head_k", "n_embd_head_v", "n_embd_k_gqa", "n_embd_v_gqa"):
            self._variables[name] = self.evaluate(parsed_expression(f"hparams.{name}()"))
        self._variables["n_embd"] = self.evaluate(parsed_expression("hparams.n_embd"))
        self._variables["n_layer"] = self.evaluate(parsed_expression("hparams.n_layer()"))
        self._variables["n_expert"] = self.evaluate(parsed_expression("hparams.n_expert"))
        for statement in body.statements:
            match statement:
                case Declaration():
                    try:
                        self._declare_all(statement)
                    except (NotUnderstoodError, KeyError, TypeError, IndexError, AttributeError):
                        continue
                case Evaluation(value=Call(Name("GGML_ASSERT"), (asserted,))):
                    holds = truth(self.evaluate(asserted))
                    if not unresolved(holds) and holds != ONE:
                        self.conditions.append(Condition(holds, ONE, (), "graph"))

    # Notes, guards, scopes.

    def note(self, why: str, line: int = 0) -> None:
        """Note that something was not understood."""
        if not self._silent:
            self.notes.append(f"{self._where}:{line} {why}"[:170])

    def guard(self, after: int = 0) -> Expression:
        """The condition under which the present statement is executed, as far as guards after some number say it."""
        found = self._alive
        for each in reversed(self._guards[after:]):
            found = both(each, found)
        return found

    def refuse(self, holds: Expression, kind: Literal["throw", "assert", "abort"]) -> None:
        """Note a condition; where it can never hold, nothing follows."""
        guard = self.guard()
        if holds != ONE and guard != ZERO:
            self.conditions.append(Condition(holds, guard, tuple(self._loops), kind))
        if kind != "assert":
            self._alive, self._refused = ZERO, True

    def ask_tensor(self, name: Joined, shape: tuple[Expression, ...], flags: Expression) -> None:
        """Note a tensor."""
        self.tensors.append(TensorRow(name, (shape,), flags, self.guard(), tuple(self._loops)))

    def ask_key(self, key: str, type: str, kind: str, required: Expression, length: Expression | None) -> None:
        """Note a key."""
        self.keys.append(KeyRow(key, type, kind, required, self.guard(), length))

    def branch(self, condition: Expression, then: Callable[[], object], otherwise: Callable[[], object]) -> None:
        """Execute two branches, each with its guard, and merge what they set."""
        before, alive = self._variables, self._alive
        ends = []
        for guard, execute in ((condition, then), (negation(condition), otherwise)):
            self._variables, self._alive, self._refused = dict(before), ONE, False
            self._guards.append(guard)
            execute()
            self._guards.pop()
            ends.append((self._variables, self._alive, self._refused and self._alive == ZERO))
        (ours, our_end, we_refuse), (theirs, their_end, they_refuse) = ends
        self._refused = we_refuse and they_refuse
        # A branch that only refuses the file puts no condition on what follows: the refusal is a row of its own.
        if we_refuse:
            self._alive = both(alive, their_end)
        elif they_refuse:
            self._alive = both(alive, our_end)
        else:
            self._alive = both(alive, conditional(condition, our_end, their_end))
        if our_end == ZERO:
            self._variables = theirs
        else:
            self._variables = ours if their_end == ZERO else self._merged(condition, ours, theirs)

    def _merged(self, condition: Expression, ours: _Variables, theirs: _Variables) -> _Variables:
        """Variables after two branches."""
        merged: _Variables = {}
        for place in {**ours, **theirs}:
            one, other = ours.get(place), theirs.get(place)
            if isinstance(place, tuple):
                one = self.read(*place, ours) if one is None else one
                other = self.read(*place, theirs) if other is None else other
                merged[place] = conditional(condition, one, other)
            elif one is None or other is None:
                only = one or other
                assert only is not None
                if isinstance(only, Array):
                    lost = Unknown("one side")
                    sides = (only.element, lost) if other is None else (lost, only.element)
                    only = Array(conditional(condition, *sides))
                merged[place] = only
            elif one == other or isinstance(one, Reference | Lambda) or isinstance(other, Reference | Lambda):
                merged[place] = one
            elif isinstance(one, Array) and isinstance(other, Array):
                merged[place] = Array(conditional(condition, one.element, other.element))
            else:
                merged[place] = conditional(condition, one, other)
        return merged

    # Variables.

    def place(self, target: Expression) -> tuple[str, Expression | None]:
        """The place of a variable, and the index where it is an element of an array."""
        match target:
            case Name(name):
                known = self._variables.get(name)
                return (known.place, known.index) if isinstance(known, Reference) else (name, None)
            case Member(Name("this"), name):
                return name, None
            case Member(owner, name):
                place, index = self.place(owner)
                return f"{place}.{name}", index
            case Subscript(owner, subscript):
                place, index = self.place(owner)
                inner = self.evaluate(subscript)
                return f"{place}[]", inner if index is None else Braces((index, inner))
            case Unary("*" | "&", operand):
                return self.place(operand)
        raise NotUnderstoodError(f"a place of the form {type(target).__name__}")

    def read(self, place: str, index: Expression | None, variables: _Variables | None = None) -> Expression:
        """The value of a variable."""
        known = self._variables if variables is None else variables
        if index is None:
            if place not in known:
                return self._unset(place)
            value = known[place]
            if self._names_field(place, value):
                self.used.add(place.removeprefix(HYPER))
                return Field(place.removeprefix(HYPER))
            return value
        if (place, index) in known:
            return known[place, index]
        array = known.get(place)
        if array is None and place.startswith("layers"):
            return Null()
        if not isinstance(array, Array):
            return Unknown(f"array {place}")
        if self._names_field(place, array):
            self.used.add(place.removeprefix(HYPER))
            return FieldElement(place.removeprefix(HYPER).removesuffix("[]"), index)
        found: Expression = substituted(array.element, INDEX, index)
        return found

    def _names_field(self, place: str, value: Expression) -> bool:
        """Whether a variable is a hyperparameter as it was after all keys were read, and no constant."""
        bare = value.element if isinstance(value, Array) else value
        return place.startswith(HYPER) and self.fields.get(place) == value and not isinstance(bare, Number | Text)

    def _unset(self, name: str) -> Expression:
        """The value of a name that is no variable."""
        constants = self.sources.constants
        last = name.rsplit("::", maxsplit=1)[-1]
        if name.startswith(HYPER):
            return Unknown(f"unset {name}")
        if name in constants:
            return Number(constants[name])
        if name.startswith("LLM_KV_"):
            return KeyId(name)
        if name.startswith("LLM_TENSOR_"):
            return TensorId(name)
        if re.match(r"(?:\w+::)?TENSOR_\w+$", name):
            return Number(constants.get(last, 0))
        if re.match(r"[A-Z]+_[A-Z0-9_]+$", name):
            return Text(name)
        if "::" in name and last in constants:
            return Number(constants[last])
        if name.startswith("layers") or name in _MEMBERS:
            return Null()
        return Unknown(f"name {name}")

    def write(self, place: str, index: Expression | None, value: Expression) -> None:
        """Set a variable."""
        if index is None:
            self._variables[place] = value
        elif any(mentions(index, Name(loop.variable)) for loop in self._loops):
            self._variables[place, index] = value
        else:
            element = conditional(
                operation("==", INDEX, index), value, self._element(place, self._variables.get(place))
            )
            self._variables[place] = Array(element)

    @staticmethod
    def _element(place: str, array: Expression | None) -> Expression:
        """The element of an array before it is set."""
        if isinstance(array, Array):
            return array.element
        return Null() if place.startswith("layers") else Unknown(f"array {place}")

    def variable(self, name: str) -> Expression | None:
        """What a name stands for in the present scope."""
        return self._variables.get(name)

    def write_array(self, place: str, element: Expression) -> None:
        """Set all elements of an array; `INDEX` is the index of the element."""
        self._variables[f"{place}[]"] = Array(element)

    def array_element(self, place: str) -> Expression:
        """The value of the element `INDEX` of an array, as it was set."""
        return self._element(f"{place}[]", self._variables.get(f"{place}[]"))

    def is_set(self, place: str) -> bool:
        """Whether a variable has a value."""
        return place in self._variables

    def type_of(self, place: str) -> str:
        """The declared type of a variable; "?" if it is not known."""
        if place.startswith(HYPER):
            return self.sources.field_types.get(place.removeprefix(HYPER).rstrip("[]"), "?")
        return self._types.get(place, "?")

    # Expressions.

    def evaluate(self, expression: Expression) -> Expression:
        """The value of an expression.

        :raises NotUnderstoodError: for an assignment to what is no place
        """
        match expression:
            case Number() | Text() | Null() | Lambda():
                return expression
            case Name() | Member() | Subscript():
                return self._evaluate_place(expression)
            case Binary("&&", left, right):
                condition = truth(self.evaluate(left))
                return ZERO if condition == ZERO else both(condition, self._where_holds(condition, right))
            case Binary("||", left, right):
                condition = truth(self.evaluate(left))
                return ONE if condition == ONE else either(condition, self._where_holds(negation(condition), right))
            case Binary(sign, left, right):
                return operation(sign, self.evaluate(left), self.evaluate(right))
            case Unary(sign, operand):
                return self._evaluate_unary(sign, self.evaluate(operand))
            case Conditional(condition, then, otherwise):
                return self._evaluate_conditional(truth(self.evaluate(condition)), then, otherwise)
            case Assignment(sign, target, value):
                return self._assign(sign, target, self.evaluate(value))
            case Braces(items):
                return Braces(tuple(map(self.evaluate, items)))
            case Call(function, arguments):
                return self._calls.value(function, arguments)
        return Unknown(type(expression).__name__)

    def _evaluate_place(self, expression: Expression) -> Expression:
        match expression:
            case Name("arch"):
                return Text(self._architecture)
            case Member(_, "load_mtp"):
                return ZERO
            case Subscript(Member(owner, "ne"), axis):
                tensor = self.evaluate(owner)
                dimension = self.evaluate(axis)
                return Dimension(tensor.name, dimension) if isinstance(tensor, Tensor) else Unknown("ne")
        try:
            place, index = self.place(expression)
        except NotUnderstoodError as error:
            return Unknown(str(error))
        if index is None and place not in self._variables and f"{place}[]" in self._variables:
            return ArrayPlace(place)
        return self.read(place, index)

    def _where_holds(self, condition: Expression, expression: Expression) -> Expression:
        """The truth of an expression that is evaluated only where a condition holds."""
        found: list[Expression] = []
        self.branch(condition, lambda: found.append(truth(self.evaluate(expression))), lambda: None)
        return found[0]

    @staticmethod
    def _evaluate_unary(sign: str, value: Expression) -> Expression:
        if sign == "!":
            return negation(value)
        if sign == "-":
            return Number(-value.value) if isinstance(value, Number) else Unary("-", value)
        return value if sign in ("*", "&", "+") else Unknown(f"unary {sign}")

    def _evaluate_conditional(self, condition: Expression, then: Expression, otherwise: Expression) -> Expression:
        if isinstance(condition, Number):
            return self.evaluate(then if condition.value else otherwise)
        found: list[Expression] = []
        self.branch(
            condition, lambda: found.append(self.evaluate(then)), lambda: found.append(self.evaluate(otherwise))
        )
        return conditional(condition, *found)

    def _assign(self, sign: str, target: Expression, value: Expression) -> Expression:
        place, index = self.place(target)
        if sign != "=":
            value = operation(sign[:-1], self.read(place, index), value)
        if isinstance(value, ArrayPlace) and f"{value.place}[]" in self._variables:
            self._variables[f"{place}[]"] = self._variables[f"{value.place}[]"]
        else:
            self.write(place, index, value)
        return value

    # Functions.

    def call_function(self, name: str, arguments: Iterable[Expression]) -> Expression:
        """Execute a function of the sources; those that are missing of its arguments are 0."""
        function = self.sources.functions[name]
        given = [*arguments]
        given += [ZERO] * (len(function.parameters) - len(given))
        return self.execute(name, function.parameters, function.body(), given)

    def execute(
        self, name: str, parameters: tuple[str, ...], body: Block, arguments: Iterable[Expression]
    ) -> Expression:
        """Execute a function's body; returns its value, 0 if it returns none."""
        if self._depth > _DEPTH:
            return Unknown("depth")
        getter = name.startswith("llama_hparams::")
        where = self._where
        if name.endswith("load_arch_hparams"):
            self._where = "own"
        self._depth += 1
        self._in_getter += getter
        with self._bound(parameters, arguments, getter), self._framed("function") as frame:
            self._execute(body)
        self._in_getter -= getter
        self._depth -= 1
        self._where = where
        result: Expression | None = None
        for condition, value in reversed(frame.returned):
            result = value if result is None else conditional(condition, value, result)
        return ZERO if result is None else result

    @contextmanager
    def _bound(self, parameters: tuple[str, ...], arguments: Iterable[Expression], getter: bool) -> Iterator[None]:
        """Parameters with their values; in functions of the hyperparameters, fields by their own names."""
        saved = {name: self._variables.get(name) for name in parameters}
        self._variables.update(zip(parameters, arguments, strict=False))
        if getter:
            for name in self.sources.field_types:
                if name not in parameters and name not in self._variables:
                    saved[name] = None
                    self._variables[name] = Reference(HYPER + name, None)
        yield
        self._restore(self._variables, saved)

    @staticmethod
    def _restore(variables: _Variables, saved: dict[str, Expression | None]) -> None:
        for name, value in saved.items():
            if value is None:
                variables.pop(name, None)
            else:
                variables[name] = value

    @contextmanager
    def _framed(self, kind: Literal["function", "loop"]) -> Iterator[_Frame]:
        """A frame; after it, what was set where it was left early is merged."""
        alive, self._alive = self._alive, ONE
        frame = _Frame(kind, len(self._guards), len(self._scopes))
        self._frames.append(frame)
        yield frame
        self._frames.pop()
        reached: Expression = self._alive
        for condition, variables in reversed(frame.left):
            merged = variables if reached == ZERO else self._merged(condition, variables, self._variables)
            self._variables, reached = merged, either(reached, condition)
        self._alive = both(alive, reached) if reached != ONE or kind == "loop" else alive

    def _leave(self, kind: Literal["function", "loop"]) -> None:
        """Leave the innermost function or loop; nothing follows in this scope."""
        for frame in reversed(self._frames):
            if frame.kind == kind:
                variables = dict(self._variables)
                for scope in reversed(self._scopes[frame.scopes :]):
                    self._restore(variables, scope)
                frame.left.append((self.guard(frame.guards), variables))
                break
        self._alive = ZERO

    # Statements.

    def _execute(self, statement: Statement | Block) -> None:
        if isinstance(statement, Block):
            self._execute_block(statement.statements)
            return
        if isinstance(statement, Empty):
            return
        before = len(self.notes)
        try:
            self._execute_statement(statement)
        except NotUnderstoodError as error:
            self.note(str(error), statement.line)
        if len(self.notes) == before and not self._silent:
            self.understood += 1

    def _execute_block(self, statements: Iterable[Statement | Block]) -> None:
        self._scopes.append({})
        for each in statements:
            if self._alive == ZERO:
                break
            self._execute(each)
        self._restore(self._variables, self._scopes.pop())

    def _execute_statement(self, statement: Statement) -> None:
        match statement:
            case Declaration():
                self._declare_all(statement)
            case Evaluation():
                self._execute_evaluation(statement)
            case If():
                self._execute_if(statement)
            case For():
                self._execute_for(statement)
            case Switch():
                self._execute_switch(statement)
            case Try():
                self._execute_try(statement)
            case Return(value=value):
                self._execute_return(value)
            case Throw():
                self.refuse(ZERO, "throw")
            case Continue():
                self._leave("loop")
            case Break():
                if any(frame.kind == "loop" for frame in self._frames):
                    raise NotUnderstoodError("break")
            case Unread(text=text):
                raise NotUnderstoodError(f"not parsed: {text}")
            case ForEach(range=over):
                raise NotUnderstoodError(f"loop over {written(over)}")
            case While():
                raise NotUnderstoodError("while loop")
            case _:
                raise NotUnderstoodError(type(statement).__name__)

    def _declare_all(self, statement: Declaration) -> None:
        for name, value in statement.variables:
            self._declare(name, self._declared_value(statement, name, value), statement.type)

    def _declared_value(self, statement: Declaration, name: str, value: Expression | None) -> Expression:
        if statement.reference and isinstance(value, Subscript | Member | Name):
            try:
                return Reference(*self.place(value))
            except NotUnderstoodError:
                pass
        if value is None:
            if "string" in statement.type:
                return Text("")
            return ArrayPlace(name) if "array" in statement.type else Unknown(f"unset {name}")
        if name == "tn" or (isinstance(value, Call) and value.function == Name("LLM_TN")):
            return TensorNamer()
        found = self.evaluate(value)
        if isinstance(found, Braces) and len(found.items) == 1:
            found = found.items[0]
        if isinstance(found, Unknown) and name not in _NO_MATTER[:1]:
            self.note(f"value of {name}: {found.why}", statement.line)
        return found

    def _declare(self, name: str, value: Expression, type: str) -> None:
        if self._scopes:
            self._scopes[-1].setdefault(name, self._variables.get(name))
        self._variables[name] = value
        self._types[name] = type

    def _execute_evaluation(self, statement: Evaluation) -> None:
        match statement.value:
            case Name("LLAMA_LOAD_LOCALS"):
                for each in self.sources.local_variables.statements:
                    if isinstance(each, Declaration):
                        self._declare_all(each)
                return
            case Assignment(_, Name(name)) if name in _NO_MATTER:
                return
        value = self.evaluate(statement.value)
        if isinstance(value, Unknown):
            self.note(value.why, statement.line)

    def _execute_if(self, statement: If) -> None:
        if statement.declared is not None:
            self._declare_all(statement.declared)
        if statement.condition is not None:
            if self._in_getter and _bounds(statement.condition):  # an index is where it should be
                self._execute(statement.then)
                return
            condition = truth(self.evaluate(statement.condition))
        else:
            assert statement.declared is not None
            condition = truth(self._variables[statement.declared.variables[0][0]])
        otherwise = statement.otherwise
        if condition == ONE:
            self._execute(statement.then)
        elif condition == ZERO:
            if otherwise is not None:
                self._execute(otherwise)
        else:
            if isinstance(condition, Unknown):
                self.note(f"condition: {condition.why}", statement.line)
            self.branch(
                condition,
                lambda: self._execute(statement.then),
                lambda: self._execute(otherwise) if otherwise is not None else None,
            )

    def _execute_return(self, value: Expression | None) -> None:
        found = ZERO if value is None else self.evaluate(value)
        for frame in reversed(self._frames):
            if frame.kind == "function":
                frame.returned.append((self.guard(frame.guards), found))
                break
        self._leave("function")

    def _execute_try(self, statement: Try) -> None:
        """A tensor of the handler is the same tensor in another shape."""
        start = len(self.tensors)
        self._execute(statement.body)
        middle = len(self.tensors)
        self._execute(statement.handler)
        others = self.tensors[middle:]
        del self.tensors[middle:]
        for row in self.tensors[start:]:
            for other in others:
                if row.name == other.name:
                    row.shapes = (row.shapes[0], other.shapes[0])

    def _execute_switch(self, statement: Switch) -> None:
        if _sets_no_matter(statement):
            return
        value = self.evaluate(statement.value)
        groups: list[tuple[list[Expression | None], tuple[Statement | Block, ...]]] = []
        labels: list[Expression | None] = []
        for label, body in statement.cases:
            labels.append(label)
            if body:
                groups.append((labels, body))
                labels = []
        groups.sort(key=lambda group: None in group[0])  # default is last

        def from_group(which: int) -> None:
            if which == len(groups):
                return
            labels, body = groups[which]
            condition: Expression = ONE if None in labels else ZERO
            for label in labels:
                if label is not None:
                    condition = either(condition, operation("==", value, self.evaluate(label)))
            if condition == ONE:
                self._execute_case(body)
            elif condition == ZERO:
                from_group(which + 1)
            else:
                self.branch(condition, lambda: self._execute_case(body), lambda: from_group(which + 1))

        from_group(0)

    def _execute_case(self, body: Iterable[Statement | Block]) -> None:
        for each in body:
            if isinstance(each, Break):
                break
            if isinstance(each, Block):
                self._execute_block([inner for inner in each.statements if not isinstance(inner, Break)])
            else:
                self._execute(each)
            if self._alive == ZERO:
                break

    # Loops.

    def _execute_for(self, statement: For) -> None:
        declared, condition = statement.declared, statement.condition
        if not (
            isinstance(declared, Declaration) and isinstance(condition, Binary) and condition.operator in ("<", "<=")
        ):
            raise NotUnderstoodError("for")
        name, start = declared.variables[0]
        if start is None:
            raise NotUnderstoodError("for")
        first, end = self.evaluate(start), self.evaluate(condition.right)
        if condition.operator == "<=":
            end = operation("+", end, ONE)
        outer = self._variables.get(name)
        if isinstance(first, Number) and isinstance(end, Number) and end.value - first.value <= _PASSES:
            for value in range(int(first.value), int(end.value)):
                self._variables[name] = Number(value)
                self._execute_pass(statement.body)
        else:
            variable = _VARIABLES[len(self._loops)] if len(self._loops) < len(_VARIABLES) else "z"
            self._execute_all_passes(statement, name, Loop(variable, first, end))
        self._restore(self._variables, {name: outer})

    def _execute_pass(self, body: Statement | Block) -> None:
        with self._framed("loop"):
            self._execute(body)

    def _execute_all_passes(self, statement: For, name: str, loop: Loop) -> None:
        """Execute one pass for all: its variable stands for every value."""
        before = dict(self._variables)
        tensors, keys, conditions = len(self.tensors), len(self.keys), len(self.conditions)
        notes, understood = len(self.notes), self.understood

        def execute(start: _Variables) -> None:
            self._variables = {**start, name: Name(loop.variable)}
            self._loops.append(loop)
            self._execute_pass(statement.body)
            self._loops.pop()

        execute(before)
        carried = [
            place
            for place, value in self._variables.items()
            if isinstance(place, str) and place != name and not place.endswith("[]")
            and not isinstance(value, Array) and before.get(place, value) != value
        ]  # fmt: skip
        if carried:  # what one pass changes is not known within a pass, nor after
            del self.tensors[tensors:], self.keys[keys:], self.conditions[conditions:], self.notes[notes:]
            self.understood = understood
            changed: _Variables = {place: Unknown(f"changed in loop: {place}") for place in carried}
            execute(before | changed)
            self._variables |= changed
            noted = [place for place in carried if place != "type"]
            if noted:
                self.note(f"changed in loop: {','.join(noted)}", statement.line)
        self._join_elements(before, loop)

    def _join_elements(self, before: _Variables, loop: Loop) -> None:
        """Elements that a loop set, as arrays: the loop's variable becomes the index."""
        variable = Name(loop.variable)
        for key in [key for key in self._variables if isinstance(key, tuple)]:
            if before.get(key) == self._variables[key]:
                continue
            place, index = key
            if index != variable:
                if mentions(index, variable):
                    del self._variables[key]
                    self._variables[place] = Array(Unknown(f"array index {place}"))
                continue
            value = substituted(self._variables.pop(key), variable, INDEX)
            below, old = operation("<", INDEX, loop.end), before.get(place)
            within = both(below, operation(">=", INDEX, loop.first) if loop.first != ZERO else ONE)
            from_zero = loop.first == ZERO and loop.end in self._all_layers()
            whole = old is None if place.startswith("layers") else from_zero
            self._variables[place] = Array(value if whole else conditional(within, value, self._element(place, old)))

    def _all_layers(self) -> tuple[Expression | None, ...]:
        """The forms that the number of all layers has."""
        name = f"{HYPER}n_layer_all"
        return Field("n_layer_all"), self.fields.get(name), self._variables.get(name)


def _bounds(condition: Expression) -> bool:
    """Whether a condition of a getter compares its layer with the number of layers."""
    return isinstance(condition, Binary) and condition.operator == "<" and condition.left == Name("il")


def _sets_no_matter(statement: Statement | Block) -> bool:
    """Whether a statement only sets the name of a model's size."""
    match statement:
        case Block(statements):
            return all(map(_sets_no_matter, statements))
        case Evaluation(value=Assignment(_, Name("type"))) | Break() | Empty():
            return True
        case If(then=then, otherwise=otherwise):
            return _sets_no_matter(then) and (otherwise is None or _sets_no_matter(otherwise))
        case Switch(cases=cases):
            return all(_sets_no_matter(each) for _, body in cases for each in body)
    return False


def written(expression: Expression) -> str:
    """An expression as C++ would have it, for notes."""
    match expression:
        case Name(name):
            return name
        case Member(owner, name):
            return f"{written(owner)}.{name}"
        case Call(function, _):
            return f"{written(function)}()"
        case Subscript(owner, index):
            return f"{written(owner)}[{written(index)}]"
    return type(expression).__name__
