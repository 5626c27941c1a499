"""The commands of the command line, one module each; `cli` puts them together."""
