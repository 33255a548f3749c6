"""The pages of the chart, from its values and the models of the configuration."""
