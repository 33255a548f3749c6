"""Which secondaries want a store."""

from typing import Any

import pytest

from kvtier.client import BlockIndex, InvalidArgumentError
from kvtier.client.proxy.cascades.cascading import Cascades
from kvtier.client.proxy.load_leases import LoadLeases
from kvtier.client.proxy.settings import CascadeSettings, CascadeTo, PromotionSettings

from .managing import fleet


def chosen(configured: CascadeTo, asked: CascadeTo | None) -> list[str]:
    cascades = Cascades(
        fleet("a", "b", "c"), BlockIndex(), LoadLeases(), CascadeSettings(to=configured)
    )
    return [member.endpoint for member in cascades.choose(asked)]


@pytest.mark.parametrize(
    ("configured", "asked", "expected"),
    [
        ("all", None, ["a:1", "b:1", "c:1"]),
        ("none", None, []),
        (["c", "a:1"], None, ["a:1", "c:1"]),
        (["a", "gone"], None, ["a:1"]),
        ("all", "none", []),
        ("none", "all", ["a:1", "b:1", "c:1"]),
        ("none", ["b:1", "b"], ["b:1"]),
        ("all", [], []),
    ],
)
def test_the_call_has_the_last_word(
    configured: CascadeTo, asked: CascadeTo | None, expected: list[str]
) -> None:
    """By addresses or node ids, in the order of the secondaries."""
    assert chosen(configured, asked) == expected


def test_a_call_that_names_a_stranger_is_refused() -> None:
    """With what there is."""
    with pytest.raises(InvalidArgumentError, match=r"'z'.*a:1, b:1, c:1"):
        chosen("all", ["a", "z"])


def test_a_word_that_means_nothing_is_refused() -> None:
    """A single name would be taken letter by letter."""
    with pytest.raises(InvalidArgumentError, match="a:1"):
        chosen("all", "a:1")
    with pytest.raises(InvalidArgumentError, match="'both'"):
        CascadeSettings(to="both")


@pytest.mark.parametrize(
    ("kind", "setting"),
    [
        (CascadeSettings, {"queue_blocks": 0}),
        (CascadeSettings, {"catch_up_blocks": 0}),
        (CascadeSettings, {"pause": 0.0}),
        (CascadeSettings, {"stall": float("nan")}),
        (PromotionSettings, {"blocks": 0}),
        (PromotionSettings, {"bytes": 0}),
        (PromotionSettings, {"deadline": -1.0}),
        (PromotionSettings, {"verdict": 0.0}),
    ],
)
def test_a_setting_that_cannot_be_one_is_named(kind: Any, setting: dict[str, float]) -> None:
    """With its value."""
    ((name, value),) = setting.items()

    with pytest.raises(InvalidArgumentError, match=rf"{name} of the .* got .*{value}"):
        kind(**setting)
