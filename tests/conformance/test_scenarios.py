"""The field's reference scenarios of one tier, over gRPC."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.contract.support import cpu_tier
from tests.contract.ways import STORE_WAYS

from .conftest import Follow, Serve
from .harness import Scenario

SCENARIOS = json.loads(Path(__file__).with_name("scenarios.json").read_text())
# What a scenario's settings are called here.
SETTINGS = {
    "policy": "policy",
    "events": "events",
    "store_threshold": "store_threshold",
    "max_tracker_size": "store_tracker",
}


@pytest.mark.parametrize("way", STORE_WAYS)
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario["name"])
async def test_a_tier_does_what_the_scenario_says(
    serve: Serve, follow: Follow, scenario: dict[str, Any], way: str
) -> None:
    """Every step of a scenario has the outcome, the evictions and the events that it states."""
    config = dict(scenario["config"])
    capacity = config.pop("capacity")
    settings = {SETTINGS[name]: value for name, value in config.items()}
    node = await serve(cpu_tier(capacity, **settings))
    run = Scenario(node, await follow(node), STORE_WAYS[way])

    for step in scenario["steps"]:
        await run.play(step)


def test_no_scenario_is_missing() -> None:
    """The scenarios are those of both policies, each under a name of its own."""
    names = [scenario["name"] for scenario in SCENARIOS]

    assert len(set(names)) == len(names) == 21
    assert {scenario["config"]["policy"] for scenario in SCENARIOS} == {"lru", "arc"}
