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
# What a node has: the policy, and no threshold of offers before a key is stored.
PLAYED = [
    scenario
    for scenario in SCENARIOS
    if scenario["config"]["policy"] == "lru" and "store_threshold" not in scenario["config"]
]


@pytest.mark.parametrize("way", STORE_WAYS)
@pytest.mark.parametrize("scenario", PLAYED, ids=lambda scenario: scenario["name"])
async def test_a_tier_does_what_the_scenario_says(
    serve: Serve, follow: Follow, scenario: dict[str, Any], way: str
) -> None:
    """Every step of a scenario has the outcome, the evictions and the events that it states."""
    config = scenario["config"]
    settings = {name: config[name] for name in ("policy", "events") if name in config}
    node = await serve(cpu_tier(config["capacity"], **settings))
    run = Scenario(node, await follow(node), STORE_WAYS[way])

    for step in scenario["steps"]:
        await run.play(step)


def test_every_scenario_of_the_policy_is_played() -> None:
    """No scenario is left out by accident: only the store threshold is not played."""
    named = {scenario["name"] for scenario in SCENARIOS if scenario["name"].startswith("lru/")}

    assert named - {scenario["name"] for scenario in PLAYED} == {"lru/threshold_2"}
