"""What `kvtier lookup --all-nodes` shows, and whom it waits for."""

import asyncio

import pytest

from kvtier.cli.connect import Answer, NamedNamespace
from kvtier.cli.exit import CommandError, ExitCode
from kvtier.cli.keys import Keys
from kvtier.cli.output import Record
from kvtier.cli.output.table import table_lines
from kvtier.cli.ranking import COLUMNS, WEIGHTS, _record, _require_known, _the_one, weight_of
from kvtier.cli.survey import Survey
from kvtier.client import BlockIndex, Chain, rank_nodes
from kvtier.v1.block_pb2 import Medium
from kvtier.v1.event_service_pb2 import SourceState, State, TierState, WatchEventsResponse
from kvtier.v1.namespace_pb2 import Namespace
from kvtier.wire.namespaces import fingerprint

from .node_log import FINGERPRINT, NAMESPACE, NodeLog, block_hash

KEYS = Keys(NAMESPACE.name, 0, b"", tuple(map(block_hash, "abc")))
ONE, TWO, THREE = "10.0.0.1:7600", "10.0.0.2:7600", "10.0.0.3:7600"
CPU, FS = Medium.MEDIUM_CPU, Medium.MEDIUM_FS
READY, SILENT = TierState.TIER_STATE_READY, TierState.TIER_STATE_SILENT
RECOVERING = TierState.TIER_STATE_RECOVERING
DOWN, REMOVED = SourceState.SOURCE_STATE_DOWN, SourceState.SOURCE_STATE_REMOVED


def tier(
    node: str, name: str, medium: Medium.ValueType, state: TierState.ValueType = READY
) -> WatchEventsResponse:
    said = State(tier=name, tier_state=state, medium=medium)
    return WatchEventsResponse(node_id=node, state=said)


def source(node: str, state: SourceState.ValueType, reason: str = "") -> WatchEventsResponse:
    return WatchEventsResponse(node_id=node, state=State(source=state, reason=reason))


def records(*messages: WatchEventsResponse) -> list[Record]:
    """Return what is shown after messages of nodes."""
    index = BlockIndex()
    for message in messages:
        index.apply(message)
    ranked = rank_nodes(index, FINGERPRINT, [Chain(0, b"", KEYS.hashes)], WEIGHTS)
    return [_record(index, KEYS, placement) for placement in ranked]


def test_nodes_are_shown_best_first_with_what_is_not_known() -> None:
    """A tier that is recovering or silent is marked, and a node that is not exact comes last."""
    well, lost, new = NodeLog("well"), NodeLog("lost", epoch=2), NodeLog("new")
    shown = records(
        *lost.snapshot("abc"),
        tier("lost", "cpu0", CPU),
        source("lost", DOWN),
        *well.snapshot("ab"),
        tier("well", "cpu0", CPU),
        tier("well", "fs0", FS, RECOVERING),
        tier("well", "quiet", CPU, SILENT),
        new.snapshot()[0],
    )

    assert table_lines([column for column in COLUMNS if not column.wide], shown) == [
        "NODE  QUALITY  CHAIN   PREFIX  SCORE  BY TIER",
        "well  exact        3        2      1  cpu0 2, fs0 0 (recovering), quiet unknown",
        "lost  stale        3        3      0  cpu0 3",
        "new   unknown      3  unknown      0",
    ]


def test_a_wide_table_tells_media_and_positions() -> None:
    """Where the best copies are, and what the answer is based on."""
    log = NodeLog("well")
    (shown,) = records(*log.snapshot("ab"), tier("well", "cpu0", CPU), log.batch(store="c"))

    cells = {column.title: column.value(shown) for column in COLUMNS if column.wide}

    assert cells == {"BEST COPIES": "cpu 3", "POSITION": "0000000000000001:1"}


def test_a_record_has_every_number_for_programs() -> None:
    """By the names that other records of a lookup have; null is what is not known."""
    (shown,) = records(
        *NodeLog("well").snapshot("ab"),
        tier("well", "cpu0", CPU),
        tier("well", "quiet", CPU, SILENT),
    )

    assert shown == {
        "node_id": "well",
        "quality": "EXACT",
        "chain_length": 3,
        "union_prefix_length": 2,
        "score": 1.0,
        "prefix_lengths": {"cpu0": 2, "quiet": None},
        "recovering": [],
        "best_copies": {"MEDIUM_GPU": 0, "MEDIUM_CPU": 2, "MEDIUM_FS": 0, "MEDIUM_OBJ": 0},
        "position": "0000000000000001:0",
    }


@pytest.mark.parametrize(
    ("text", "weight"), [("cpu=2", (CPU, 2.0)), ("fs=0", (FS, 0.0)), ((CPU, 1.0), (CPU, 1.0))]
)
def test_a_weight_is_a_medium_and_a_number(text: str, weight: tuple[int, float]) -> None:
    """As typed, and as it was read before."""
    assert weight_of(text) == weight


def named(namespace: Namespace) -> NamedNamespace:
    return NamedNamespace(fingerprint(namespace), namespace)


def test_nodes_that_lack_the_namespace_do_not_count_for_what_it_is() -> None:
    """One that has it is enough; none is nothing."""
    without = CommandError(ONE, "namespace is not registered", code=ExitCode.NOT_FOUND)
    missing = Answer[NamedNamespace](ONE, None, without)

    assert _the_one("x", [missing, Answer(TWO, named(NAMESPACE), None)]) == named(NAMESPACE)
    assert _the_one("x", [missing]) is None


def test_namespaces_of_one_name_are_not_mixed_up() -> None:
    """Hashes of one say nothing of the other; the error names nodes that differ."""
    other = Namespace()
    other.CopyFrom(NAMESPACE)
    other.model += "-2"

    with pytest.raises(CommandError, match=f"another one at {ONE} than at {TWO}"):
        _the_one("x", [Answer(ONE, named(NAMESPACE), None), Answer(TWO, named(other), None)])


def test_a_group_that_the_namespace_lacks_is_wrong_use() -> None:
    """It is not mistaken for blocks that nobody has."""
    with pytest.raises(CommandError) as refused:
        _require_known(KEYS._replace(group=1), named(NAMESPACE))

    assert refused.value.code is ExitCode.USAGE
    assert "group 1 does not exist" in str(refused.value)


async def test_a_survey_waits_until_everybody_is_in_sync() -> None:
    """The last node of the last endpoint ends the wait."""
    survey = Survey([ONE, TWO])
    waiting = asyncio.create_task(survey.reach(600))
    logs = {ONE: NodeLog("one"), TWO: NodeLog("two")}

    for endpoint, log in logs.items():
        for message in log.snapshot("a"):
            assert not waiting.done()
            survey.take(endpoint, message)
            await asyncio.sleep(0)

    assert await waiting == []
    assert survey.index.nodes() == ["one", "two"]


async def test_a_survey_tells_who_is_missing_and_why() -> None:
    """What the source said of itself is told, or else what to do."""
    survey = Survey([ONE, TWO, THREE])
    for message in NodeLog("one").snapshot():
        survey.take(ONE, message)
    survey.take(TWO, NodeLog("two").snapshot()[0])
    survey.take(TWO, source("two", DOWN, "it went away"))

    late = await survey.reach(0.001)

    what = "its events did not come to be in sync within 0.001 s"
    assert list(map(str, late)) == [
        f"{TWO}: {what}; it went away",
        f"{THREE}: {what}; wait longer with --timeout",
    ]
    assert {error.code for error in late} == {ExitCode.UNREACHABLE}


async def test_a_survey_does_not_wait_for_who_failed_or_was_removed() -> None:
    """An endpoint that cannot be followed is told by its error, and a removed node by nobody."""
    survey = Survey([ONE, TWO])
    survey.fail(TWO)
    survey.take(ONE, NodeLog("gone").snapshot()[0])
    survey.take(ONE, source("gone", REMOVED))
    for message in NodeLog("one").snapshot():
        survey.take(ONE, message)

    assert await survey.reach(600) == []
    assert survey.index.nodes() == ["one"]


async def test_a_node_behind_two_endpoints_is_followed_once() -> None:
    """The second stream of the same node does not spoil what the first one told."""
    survey = Survey([ONE, TWO])
    log = NodeLog("one")
    first, second = log.snapshot("ab"), log.snapshot("ab")
    for here, there in zip(first, second, strict=True):
        survey.take(ONE, here)
        survey.take(TWO, there)

    assert await survey.reach(600) == []
    assert survey.index.bad_events == 0
    assert survey.index.count("one", "cpu0") == 2
