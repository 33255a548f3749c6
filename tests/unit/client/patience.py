"""How generated examples are run."""

from hypothesis import HealthCheck, settings

# A busy machine is no failure: neither one slow example nor slow drawing of them.
patiently = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
