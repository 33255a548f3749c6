"""The tier server: owns block stores and streams the events of its own tiers."""
