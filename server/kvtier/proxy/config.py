"""Every setting of a proxy: meaning, default and limits."""

import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, ValidationInfo, field_validator, model_validator

from kvtier.client import InvalidArgumentError
from kvtier.client.proxy.membership import dns
from kvtier.client.proxy.membership.endpoints import endpoint_list
from kvtier.server.config.addresses import check_servers, split_endpoint
from kvtier.server.config.models import CommonLimits, EventsConfig, LogLevel
from kvtier.server.config.outside import HealthListen, MetricsListen, Reflection, Tracing
from kvtier.server.config.security import CheckedAuth, ConnectConfig, Listen, ServedTls
from kvtier.server.config.values import Count, NodeId, Seconds, Settings


class ProxyLimits(CommonLimits):
    """What may be asked of a proxy."""

    hashes: Annotated[Count, Field(le=1 << 20)] = Field(
        default=65_536, description="Block hashes in one request."
    )
    catch_ups: Annotated[Count, Field(le=64)] = Field(
        default=4,
        description="Streams from one node at one time, for followers whose position the proxy "
        "does not hold.",
    )


class ProxyConfig(Settings):
    """A proxy: the nodes behind it, where it listens, and its limits."""

    node_id: NodeId = Field(
        default_factory=lambda: f"proxy-{socket.gethostname()}",
        description="The proxy's stable id: 1 to 253 of letters, digits, '.' and '-'. "
        "Unset: proxy- and the host name.",
    )
    primary: str = Field(
        description="Address of the node that comes first, HOST:PORT; or of another proxy."
    )
    secondaries: tuple[str, ...] = Field(
        default=(),
        description="Addresses of the nodes behind it, HOST:PORT, in order; or of other proxies.",
    )
    secondaries_dns: str = Field(
        default="",
        description="In place of `secondaries`: NAME:PORT, whose addresses are those of the nodes, "
        "such as a headless service. It is asked again and again.",
    )
    secondaries_file: Path | None = Field(
        default=None,
        description="In place of `secondaries`: a file of one HOST:PORT a line, which is read "
        "again when it changes.",
    )
    insecure: bool = Field(
        default=False,
        description="Whether the proxy may listen beyond loopback without TLS, where anyone who "
        "reaches the port can follow every node. Not together with tls.",
    )
    tls: ServedTls = None
    auth: CheckedAuth = None
    listen: Listen = Field(
        default="127.0.0.1:7700",
        description="Address and port to listen on; an IPv6 address in brackets, and port 0 for "
        "any free port. Or unix:/PATH, a socket for the process's user and group.",
    )
    connect: ConnectConfig | None = Field(
        default=None,
        description="TLS and identity towards the nodes behind the proxy. Unset: plaintext.",
    )
    reflection: Reflection = False
    health_listen: HealthListen = None
    metrics_listen: MetricsListen = None
    tracing: Tracing = False
    drain_delay: Annotated[Seconds, Field(ge=0, le=300)] = Field(
        default=0.0,
        description="How long a stop goes on serving as NOT_SERVING before it sends its followers "
        "off, in seconds, so that others have heard of it.",
    )
    quota: Count = Field(
        default=64, description="Most messages of one secondary before it is the primary's turn."
    )
    require_primary: bool = Field(
        default=False,
        description="Whether followers are told nothing of the secondaries while the primary is "
        "not in sync.",
    )
    log_level: LogLevel = Field(
        default="info", description="The least severe log lines: debug, info, warning or error."
    )
    limits: ProxyLimits = Field(
        default_factory=ProxyLimits, description="What may be asked of the proxy."
    )
    events: EventsConfig = Field(
        default_factory=EventsConfig,
        description="The newest events of each node, and the followers of the proxy.",
    )

    @field_validator("secondaries_dns")
    @classmethod
    def _the_name_has_a_port(cls, name: str) -> str:
        if name:
            check_servers([name], "name")
            with _told_as_a_wrong_value():
                dns(*split_endpoint(name))
        return name

    @model_validator(mode="after")
    def _the_secondaries_are_told_in_one_way(self) -> Self:
        ways = (self.secondaries, self.secondaries_dns, self.secondaries_file)
        if sum(map(bool, ways)) > 1:
            raise ValueError(
                "secondaries, secondaries_dns and secondaries_file say the same; give one of them"
            )
        return self

    @field_validator("primary")
    @classmethod
    def _the_primary_is_an_address(cls, primary: str) -> str:
        _check_nodes([primary])
        return primary

    @field_validator("secondaries")
    @classmethod
    def _the_secondaries_are_other_addresses(
        cls, secondaries: tuple[str, ...], info: ValidationInfo
    ) -> tuple[str, ...]:
        _check_nodes(secondaries)
        if info.data.get("primary") in secondaries:
            raise ValueError(f"{info.data['primary']!r} is the primary, too; list each node once")
        return secondaries


def _check_nodes(endpoints: Sequence[str]) -> None:
    """Raise ValueError unless these are distinct addresses that can be followed."""
    check_servers(endpoints, "node")
    with _told_as_a_wrong_value():
        endpoint_list(endpoints)


@contextmanager
def _told_as_a_wrong_value() -> Iterator[None]:
    try:
        yield
    except InvalidArgumentError as error:
        raise ValueError(error.message) from None
