"""The ways in which the run of a request gets answers from its client."""
