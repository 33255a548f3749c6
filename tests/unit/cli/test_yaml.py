"""YAML that every reader of YAML reads as what was written."""

import io
from typing import Any

import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from kvtier.cli.output.yaml_printer import YamlPrinter
from kvtier.cli.output.yaml_text import yaml_lines

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
LIKE_OTHERS = "~ null No y TRUE on 1 0x1f 1e5 01 12:30:45 2026-01-01 = << .inf _1"
SIGNS = "- a: # ? *a &a !a %a @a `a | > ' \" \\ {a} [a] , a/b-c_d.e"
SPACED = ["", "- a", "a: b", "a #b", " a", "a ", "a  b", "a\nb", "\t", "a b"]
RARE = ["\x00", "\x7f", "\x85", "\u2028", "\ufeff", "\uffff", "\U0001f600", "é"]
AWKWARD = st.sampled_from([*LIKE_OTHERS.split(), *SIGNS.split(), *SPACED, *RARE])
SCALARS = st.one_of(
    TEXT,
    AWKWARD,
    st.integers(),
    st.booleans(),
    st.none(),
    st.floats(allow_nan=False),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.one_of(TEXT, AWKWARD), inner, max_size=4)
    ),
    max_leaves=20,
)


def same(one: Any, other: Any) -> bool:
    """Whether two values are of the same types too, all the way down."""
    return repr(one) == repr(other)


@given(VALUES)
@example({"a": [[], {}, [[1]], {"b": {"c": [{"d": 1, "e": [2]}]}}]})
@example([1e-05, 1e16, 1.5e300, float("inf"), -float("inf"), -0.0])
def test_what_is_written_is_read_back(value: Any) -> None:
    """Text stays text, whatever it looks like, and numbers stay the numbers they are."""
    text = "\n".join(yaml_lines(value)) + "\n"

    assert same(yaml.safe_load(text), value), text


@given(st.lists(st.dictionaries(TEXT, VALUES, min_size=1, max_size=3), max_size=5))
def test_batches_of_records_are_one_sequence(records: list[dict[str, Any]]) -> None:
    """However a list comes, it is one document; an empty one is an empty sequence."""
    out = io.StringIO()
    printer = YamlPrinter(out)

    for record in records:
        printer.write([record])
    printer.close(whole=True)

    assert same(yaml.safe_load(out.getvalue()), records)


def test_a_sequence_is_whole_wherever_it_ends() -> None:
    """A command that fails leaves what it had written, or nothing."""
    begun, nothing = io.StringIO(), io.StringIO()
    printer = YamlPrinter(begun)

    printer.write([{"a": 1}])
    printer.close(whole=False)
    YamlPrinter(nothing).close(whole=False)

    assert yaml.safe_load(begun.getvalue()) == [{"a": 1}]
    assert nothing.getvalue() == ""


def test_it_is_in_block_style() -> None:
    """As people write it: a line for each field, and quotes only where they are needed."""
    record = {"name": "cpu0", "counters": {"stored": 2}, "to": ["fs0"], "none": [], "at": "1:2"}

    lines = list(yaml_lines([record]))

    assert lines == [
        "- name: cpu0",
        "  counters:",
        "    stored: 2",
        "  to:",
        "  - fs0",
        "  none: []",
        '  at: "1:2"',
    ]


def test_what_is_no_number_has_its_word() -> None:
    """YAML has one, and JSON has none."""
    assert list(yaml_lines(float("nan"))) == [".nan"]
