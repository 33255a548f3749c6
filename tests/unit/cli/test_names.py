"""What things are called with `-o name`."""

import io

from kvtier.cli.output.name_printer import NamePrinter
from kvtier.cli.output.names import node_name, tier_name


def test_a_tier_has_one_name_at_its_node_and_at_a_proxy() -> None:
    """A proxy's name of a tier has the node already."""
    at_node = {"node_id": "node-a", "name": "cpu0"}
    at_proxy = {"node_id": "proxy-1", "name": "node-a/cpu0"}

    assert tier_name(at_node) == tier_name(at_proxy) == "tier/node-a/cpu0"


def test_what_has_no_name_and_what_repeats_is_left_out() -> None:
    """A node that did not answer has no id; a name that follows itself comes once."""
    out = io.StringIO()
    printer = NamePrinter(out, node_name)

    for batch in (["a", "a"], ["a", "", "b"], ["a"]):
        printer.write([{"node_id": name} for name in batch])

    assert out.getvalue() == "node/a\nnode/b\nnode/a\n"
