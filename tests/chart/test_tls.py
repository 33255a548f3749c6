"""TLS by cert-manager or from a secret, and what each pod presents, trusts and lets in."""

from typing import Any

import pytest
import yaml

from tests.chart.builders import ALL, CERTIFICATES, INSECURE
from tests.chart.conftest import Release, Render, Values

COMPONENTS = ("node", "storage", "proxy")
DIRECTORY = "/etc/kvtier/tls"
PAIR = {"cert": f"{DIRECTORY}/tls.crt", "key": f"{DIRECTORY}/tls.key"}
SECRET: Values = {"tls": {"existingSecret": "own"}}
TOKENS: Values = {"tokens": {"secret": "tokens"}}


def _config(release: Release, component: str) -> Any:
    return yaml.safe_load(release.config(component))


def _refusal(chart: Any, values: Values) -> str:
    with pytest.raises(Exception) as refused:
        chart.render(values, name="prod", namespace="serving")
    return str(refused.value)


def test_nothing_is_rendered_without_tls_unless_that_is_accepted(chart: Any) -> None:
    """The message says what there is to do."""
    refusal = _refusal(chart, {})

    assert "there is no TLS: whoever reaches them can read, write and delete" in refusal
    assert "Set tls.certManager or tls.existingSecret, or insecure=true" in refusal


@pytest.mark.parametrize(
    ("values", "told"),
    [
        (INSECURE | SECRET, "remove one of them"),
        (
            {"tls": {"existingSecret": "own", "certManager": {"enabled": True}}},
            "exclude each other",
        ),
        ({"tls": {"certManager": {"enabled": True}}}, "set tls.certManager.issuerRef.name"),
        (INSECURE | {"auth": TOKENS}, "tokens could be read on their way"),
        (
            INSECURE | {"auth": {"grants": [{"identity": "dns:a", "role": "reader"}]}},
            "there are neither",
        ),
        (
            {
                "tls": {"existingSecret": "own", "clientCertificates": False},
                "auth": TOKENS,
                "proxy": {"enabled": True},
            },
            "set auth.connect.secret",
        ),
    ],
    ids=["both", "two sources", "no issuer", "open tokens", "nobody known", "no way in"],
)
def test_what_contradicts_itself_is_refused(chart: Any, values: Values, told: str) -> None:
    """It is said at the installation, and not by pods that do not start."""
    assert told in _refusal(chart, values)


@pytest.mark.parametrize("component", COMPONENTS)
def test_without_tls_a_server_is_told_to_accept_it(render: Render, component: str) -> None:
    """Nothing of certificates is left in its configuration or its pod."""
    release = render(INSECURE | ALL)

    config = _config(release, component)
    assert config["insecure"] is True
    assert not {"tls", "connect", "auth"} & set(config)
    assert "tls" not in {volume["name"] for volume in release.pods[component]["volumes"]}


@pytest.mark.parametrize("component", COMPONENTS)
@pytest.mark.parametrize(
    ("values", "secret"),
    [(CERTIFICATES, "prod-kvtier-{}-tls"), (SECRET, "own")],
    ids=["cert-manager", "secret"],
)
def test_both_sides_show_certificates(
    render: Render, component: str, values: Values, secret: str
) -> None:
    """Callers must have one of the authority, and the process shows its own to others."""
    release = render(values | ALL)

    config = _config(release, component)
    authority = f"{DIRECTORY}/ca.crt"
    assert config["tls"] == PAIR | {"client_ca": authority}
    assert config["connect"] == PAIR | {"ca": authority}
    assert "insecure" not in config
    (volume,) = (v for v in release.pods[component]["volumes"] if v["name"] == "tls")
    assert volume["secret"]["secretName"] == secret.format(component)
    # A part of a volume would not be renewed under a running pod.
    (mount,) = (m for m in release.container(component)["volumeMounts"] if m["name"] == "tls")
    assert mount == {"name": "tls", "mountPath": DIRECTORY, "readOnly": True}


def test_callers_may_do_without_certificates(render: Render) -> None:
    """Then the process shows none, and is known by its token."""
    connect: Values = {"connect": {"secret": "mine", "key": "kvtier"}}
    tls: Values = {"tls": {"existingSecret": "own", "clientCertificates": False}}

    release = render(tls | {"auth": TOKENS | connect} | ALL)

    for component in COMPONENTS:
        config = _config(release, component)
        assert config["tls"] == PAIR
        assert config["connect"] == {
            "ca": f"{DIRECTORY}/ca.crt",
            "token": "/etc/kvtier/connect/kvtier",
        }
        assert config["auth"] == {"tokens": "/etc/kvtier/tokens/tokens"}
        secrets = {v["name"]: v["secret"]["secretName"] for v in _secrets(release, component)}
        assert secrets == {"tls": "own", "tokens": "tokens", "connect": "mine"}


def _secrets(release: Release, component: str) -> list[Any]:
    return [volume for volume in release.pods[component]["volumes"] if "secret" in volume]


def test_a_certificate_is_for_both_ends(render: Render) -> None:
    """A component serves with it and calls others with it; its key is renewed with it."""
    manager = CERTIFICATES["tls"]["certManager"] | {"duration": "48h", "renewBefore": "12h"}

    certificates = render(ALL | {"tls": {"certManager": manager}}).all("Certificate")

    assert {c["spec"]["secretName"] for c in certificates} == {
        f"prod-kvtier-{component}-tls" for component in COMPONENTS
    }
    for certificate in certificates:
        spec = certificate["spec"]
        assert certificate["apiVersion"] == "cert-manager.io/v1"
        assert spec["usages"] == ["server auth", "client auth"]
        assert spec["privateKey"]["rotationPolicy"] == "Always"
        assert (spec["duration"], spec["renewBefore"]) == ("48h", "12h")
        assert spec["issuerRef"] == {"name": "ca", "kind": "Issuer", "group": "cert-manager.io"}


@pytest.mark.parametrize(
    ("component", "names"),
    [
        ("node", ["prod-kvtier-local.serving.svc", "prod-kvtier-members.serving.svc"]),
        ("storage", ["prod-kvtier-members.serving.svc", "*.prod-kvtier-storage.serving.svc"]),
        ("proxy", ["prod-kvtier-proxy", "prod-kvtier-proxy.serving.svc.example.org"]),
    ],
)
def test_a_certificate_has_the_names_that_callers_use(
    render: Render, component: str, names: list[str]
) -> None:
    """Those of the services, of pods that have names, and of a forwarded port."""
    release = render(CERTIFICATES | ALL | {"clusterDomain": "example.org"})

    listed = release.one("Certificate", component)["spec"]["dnsNames"]

    assert {*names, "localhost"} <= set(listed)
    assert len(listed) == len(set(listed))


def test_a_secret_needs_no_cert_manager(render: Render) -> None:
    """Kinds that the cluster may not know are made only when values ask for them."""
    assert render(SECRET | ALL).all("Certificate") == []


def test_grants_let_the_components_in(render: Render) -> None:
    """Proxies read and peers pull, by the first name in the certificates that the chart orders."""
    grant = {"identity": "dns:engine", "role": "writer"}

    release = render(CERTIFICATES | ALL | {"auth": {"grants": [grant]}})

    for component in COMPONENTS:
        granted, *own = _config(release, component)["auth"]["grants"]
        assert granted == grant
        roles = {each["identity"].removeprefix("dns:"): each["role"] for each in own}
        certificates = {c: release.one("Certificate", c)["spec"]["dnsNames"][0] for c in COMPONENTS}
        assert roles == {
            certificates["node"]: "writer",
            certificates["storage"]: "writer",
            certificates["proxy"]: "reader",
        }


def test_notes_say_who_is_let_in(render: Render) -> None:
    """An installer is warned where everybody is."""
    assert "WARNING: there is no TLS" in render(INSECURE).notes
    assert "Every caller with a certificate" in render(CERTIFICATES).notes
    open_to_all: Values = {"tls": {"existingSecret": "own", "clientCertificates": False}}
    assert "WARNING: callers need neither a certificate nor a token" in render(open_to_all).notes
