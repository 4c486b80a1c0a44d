"""How the peers' HTTP programs are told to serve: `PROGRAM PORT [json] [stateless] [memory]`."""

from __future__ import annotations

import argparse
from dataclasses import dataclass


@dataclass(frozen=True)
class HttpOptions:
    """What was asked for.

    `json` is the documented switch that answers every call as one JSON object and drops what
    would come before it; `stateless` the one that keeps no sessions; `memory` starts the thread of
    `benchmarks.servers.sampling`.
    """

    port: int
    json: bool
    stateless: bool
    memory: bool

    @classmethod
    def parse(cls) -> HttpOptions:
        """Read the command line."""
        parser = argparse.ArgumentParser()
        parser.add_argument("port", type=int)
        parser.add_argument("switches", nargs="*")
        options = parser.parse_args()
        switches = options.switches
        return cls(options.port, "json" in switches, "stateless" in switches, "memory" in switches)
