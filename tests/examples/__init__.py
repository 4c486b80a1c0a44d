"""The larger examples, each started as a process and used as a host would."""
