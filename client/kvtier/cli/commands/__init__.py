"""The commands, one module each; `kvtier.cli.main` says which is which."""
