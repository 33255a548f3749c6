"""Metrics for Prometheus: what there is to tell, and the address where it is told."""
