"""Spark SQL judges the filter language: random filters over random rows must mean the same to both.

The generator writes only what both define in the same way (docs/reference/filter-language.md lists
the deliberate differences): integers below 2^53, no unlike types, no backslashes, no zero divisors,
fractions as `1e-1`.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

from reefcast.model.expression import evaluate
from reefcast.model.expression import to_sql as expression_to_sql
from reefcast.model.filters import parse_filter
from reefcast.model.publication import Value

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

Row = dict[str, Value | None]

SCHEMA = (
    'i BIGINT, I BIGINT, divisor BIGINT, huge BIGINT, x DOUBLE, y DOUBLE, s STRING, `Odd "name` '
    "STRING, flag BOOLEAN, `and` BOOLEAN"
)
SMALL = ("i", "I", "divisor")
FLOATS = ("x", "y")
STRINGS = ("s", '"Odd ""name"')
BOOLEANS = ("flag", '"and"')

SMALL_VALUES = (-1000, -7, -1, 0, 1, 2, 3, 7, 1000)
HUGE_VALUES = (-(2**53) + 1, -(2**31) - 1, -(2**31), 0, 2**31 - 1, 2**31, 2**52 + 1, 2**53 - 1)
FLOAT_VALUES = (
    *(-math.inf, -1e300, -1.5, -1e-300, -0.0, 0.0, 5e-324, 0.1, 0.5, 1.0, 2.0, 7.0, 1e300),
    *(math.inf, math.nan, float(2**53 - 1)),
)
STRING_VALUES = (
    *("", " ", "a", "a ", "b", "ab", "aB", "Ab", "abc", "ba", "%", "_", "a%b", "a_b", "it's", '"'),
    *("a\nb", "é", "e\u0301", "\ud7ff", "\ue000", "\uffff", "\U0001f600", "a\U0001f600b", "a!b"),
)


@pytest.fixture(scope="module", autouse=True)
def compiled(spark: SparkSession) -> Iterator[None]:
    """Have Spark compile its expressions, as it does by default; the tests' session does not."""
    name = "spark.sql.codegen.factoryMode"
    before = str(spark.conf.get(name))
    spark.conf.set(name, "FALLBACK")
    yield
    spark.conf.set(name, before)


class Writer:
    """A writer of random filters, with keywords in either case, and optional parentheses."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    def word(self, text: str) -> str:
        return self.rng.choice((text, text.lower(), text.title()))

    def maybe(self, text: str) -> str:
        return f"{self.word(text)} " if self.rng.random() < 0.4 else ""

    def wrapped(self, text: str) -> str:
        return f"({text})" if self.rng.random() < 0.2 else text

    # values

    def integer(self) -> str:
        return str(self.rng.choice(SMALL_VALUES))

    def huge(self) -> str:
        return str(self.rng.choice(HUGE_VALUES))

    def fraction(self) -> str:
        finite = [value for value in FLOAT_VALUES if math.isfinite(value)]
        return f"{self.rng.choice(finite):.17e}" if self.rng.random() < 0.5 else "5e-1"

    def number(self) -> str:
        return self.integer() if self.rng.random() < 0.6 else self.fraction()

    def string(self) -> str:
        return quoted(self.rng.choice(STRING_VALUES))

    def boolean(self) -> str:
        return self.word(self.rng.choice(("TRUE", "FALSE")))

    def sum(self, depth: int = 2) -> str:
        """Write a number without division by zero; products have two leaves only, to stay below
        2^53."""
        if depth == 0 or self.rng.random() < 0.3:
            return self.leaf()
        choice = self.rng.randrange(5)
        if choice == 0:
            return f"{self.leaf()} * {self.leaf()}"
        if choice == 1:
            return f"({self.sum(depth - 1)}) / {self.rng.choice(('divisor', '3', '-7', '2.5e0'))}"
        if choice == 2:
            return f"-({self.sum(depth - 1)})"
        sign = self.rng.choice("+-")
        return f"{self.sum(depth - 1)} {sign} ({self.sum(depth - 1)})"

    def leaf(self) -> str:
        return self.rng.choice(
            (*SMALL, *FLOATS, f"-{self.rng.choice(FLOATS)}", self.integer(), self.fraction())
        )

    def pattern(self) -> str:
        """Write the rest of a LIKE: its pattern, and perhaps ESCAPE."""
        rng = self.rng
        escape = rng.choice(("", "", "!", "a", "é"))
        pieces = ["%", "%", "_", "a", "b", "é", "'", "\n", "\U0001f600", ""]
        if escape:
            pieces = [each for each in pieces if each != escape]
            pieces += [escape + "%", escape + "_", escape * 2]
        text = "".join(rng.choice(pieces) for _ in range(rng.randrange(5)))
        return quoted(text) + (f" {self.word('ESCAPE')} {quoted(escape)}" if escape else "")

    # conditions

    def condition(self, depth: int = 3) -> str:
        if depth == 0 or self.rng.random() < 0.3:
            return self.wrapped(self.predicate())
        choice = self.rng.randrange(3)
        if choice == 0:
            return f"{self.word('NOT')} ({self.condition(depth - 1)})"
        word = self.word(("AND", "OR")[choice - 1])
        terms = [f"({self.condition(depth - 1)})" for _ in range(self.rng.randint(2, 3))]
        return f" {word} ".join(terms)

    def predicate(self) -> str:
        return self.maybe("NOT") + self.wrapped(self.rng.choice(PREDICATES)(self))

    def of_sort(self) -> tuple[str, Callable[[], str]]:
        """Return an operand, and a function that writes literals for a comparison with it."""
        rng = self.rng
        return rng.choice(
            (
                (self.wrapped(rng.choice((*SMALL, *FLOATS))), self.number),
                (self.sum(), self.number),
                ("huge", self.huge),
                (rng.choice(STRINGS), self.string),
                (rng.choice(BOOLEANS), self.boolean),
            )
        )

    def comparison(self) -> str:
        operand, literal = self.of_sort()
        sides = [operand, literal()]
        self.rng.shuffle(sides)
        return f" {self.sign()} ".join(sides)

    def between_attributes(self) -> str:
        pairs = ((SMALL, SMALL), (SMALL, FLOATS), (STRINGS, STRINGS), (BOOLEANS, BOOLEANS))
        left, right = self.rng.choice((*pairs, (("huge",), FLOATS)))
        return f"{self.rng.choice(left)} {self.sign()} {self.rng.choice(right)}"

    def of_sums(self) -> str:
        return f"{self.sum()} {self.sign()} {self.sum()}"

    def of_conditions(self) -> str:
        return f"({self.comparison()}) {self.sign()} {self.rng.choice(BOOLEANS)}"

    def sign(self) -> str:
        return self.rng.choice(("=", "<>", "<", "<=", ">", ">="))

    def between(self) -> str:
        operand, literal = self.of_sort()
        tail = f"{self.word('BETWEEN')} {literal()} {self.word('AND')} {literal()}"
        return f"{operand} {self.maybe('NOT')}{tail}"

    def among(self) -> str:
        operand, literal = self.of_sort()
        count = self.rng.choice((1, 2, 3, 14))  # Spark has another way for more than ten
        listed = ", ".join(literal() for _ in range(count))
        return f"{operand} {self.maybe('NOT')}{self.word('IN')} ({listed})"

    def like(self) -> str:
        return f"{self.rng.choice(STRINGS)} {self.maybe('NOT')}{self.word('LIKE')} {self.pattern()}"

    def is_null(self) -> str:
        operand = self.rng.choice((self.of_sort()[0], f"({self.comparison()})"))
        if not operand.startswith(('"', "(")) and not operand.isidentifier():
            operand = f"({operand})"
        return f"{operand} {self.word('IS')} {self.maybe('NOT')}{self.word('NULL')}"

    def bare(self) -> str:
        return self.rng.choice((*BOOLEANS, "TRUE", "false"))


PREDICATES: tuple[Callable[[Writer], str], ...] = (
    Writer.comparison,
    Writer.comparison,
    Writer.between_attributes,
    Writer.of_sums,
    Writer.of_conditions,
    Writer.between,
    Writer.among,
    Writer.like,
    Writer.like,
    Writer.is_null,
    Writer.bare,
)


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def random_row(rng: random.Random) -> Row:
    def one_of(values: tuple[Value, ...]) -> Value | None:
        return None if rng.random() < 0.15 else rng.choice(values)

    return {
        "i": one_of(SMALL_VALUES),
        "I": one_of(SMALL_VALUES),
        "divisor": one_of(tuple(value for value in SMALL_VALUES if value)),
        "huge": one_of(HUGE_VALUES),
        "x": one_of(FLOAT_VALUES),
        "y": one_of(FLOAT_VALUES),
        "s": one_of(STRING_VALUES),
        'Odd "name': one_of(STRING_VALUES),
        "flag": one_of((True, False)),
        "and": one_of((True, False)),
    }


def verdicts_of_spark(spark: SparkSession, rows: list[Row], texts: list[str]) -> list[list[object]]:
    """Return TRUE, FALSE or NULL per row and filter, all in one pass."""
    from pyspark.sql import functions as F

    frame = spark.createDataFrame([tuple(row.values()) for row in rows], SCHEMA).coalesce(1)
    columns = [F.expr(text).alias(f"f{number}") for number, text in enumerate(texts)]
    return [list(row) for row in frame.select(*columns).collect()]


def differences(
    spark: SparkSession, seed: int, filters: int, rows: int, chunk: int = 50
) -> Iterator[str]:
    rng = random.Random(seed)
    writer = Writer(rng)
    table = [random_row(rng) for _ in range(rows)]
    texts = [writer.condition() for _ in range(filters)]
    # our own text of the same expression must mean the same to Spark
    texts += [expression_to_sql(parse_filter(text).expression) for text in texts[: filters // 4]]
    for start in range(0, len(texts), chunk):
        some = texts[start : start + chunk]
        for row, verdicts in zip(table, verdicts_of_spark(spark, table, some), strict=True):
            for text, verdict in zip(some, verdicts, strict=True):
                yield from judge(text, row, verdict)


def judge(text: str, row: Row, verdict: object) -> Iterator[str]:
    attributes = {name: value for name, value in row.items() if value is not None}
    filter = parse_filter(text)
    ours = evaluate(filter.expression, attributes)
    if ours is not verdict:
        yield f"{text}: Spark says {verdict}, we say {ours} of {attributes}"
    if any(each.holds(attributes) for each in filter.conjunctions) is not (verdict is True):
        yield f"{text}: Spark says {verdict}, the normal form not, of {attributes}"


def test_a_name_with_dots_is_a_field_of_a_struct_to_spark(spark: SparkSession) -> None:
    """This holds for the attributes of an event's nested mappings. In double quotes the name is
    that of a column with dots."""
    boxes = [None, (None, None), (1, "a"), (3, None), (None, "b"), (4, "a")]
    rows = [box or (None, None) for box in boxes]
    texts = ("box.n < 4", "NOT (box.n < 4)", "box.n IS NULL", "box.s = 'a' OR box.n + 1 >= 4")
    nested = spark.createDataFrame([(box,) for box in boxes], "box STRUCT<n: BIGINT, s: STRING>")
    names = ("box.n", "box.s")
    flat = spark.createDataFrame(rows, "n BIGINT, s STRING")
    for text in texts:
        in_quotes = expression_to_sql(parse_filter(text).expression)
        for frame, said in ((nested, text), (flat.toDF(*names), in_quotes)):
            verdicts = [verdict for (verdict,) in frame.selectExpr(said).collect()]
            for row, verdict in zip(rows, verdicts, strict=True):
                assert not list(judge(text, dict(zip(names, row, strict=True)), verdict))


def test_random_filters_mean_the_same_to_spark(spark: SparkSession) -> None:
    assert list(differences(spark, seed=20, filters=120, rows=80)) == []


def test_a_difference_would_be_seen(spark: SparkSession) -> None:
    row = random_row(random.Random(1)) | {"i": 5}
    [[verdict]] = verdicts_of_spark(spark, [row], ["i > 5"])
    assert list(judge("i > 5", row, verdict)) == []
    assert len(list(judge("i >= 5", row, verdict))) == 2


def test_strings_compare_by_code_point(spark: SparkSession) -> None:
    """They do not compare by UTF-16 unit, where U+1F600 would come before U+FFFF."""
    row = random_row(random.Random(1)) | {"s": "\U0001f600"}
    text = "s > '\uffff'"
    assert verdicts_of_spark(spark, [row], [text]) == [[True]]
    assert parse_filter(text).holds({"s": "\U0001f600"})
