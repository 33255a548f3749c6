"""What nodes and tiers do, shown again and again."""
