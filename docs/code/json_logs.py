"""A server that logs a JSON object a line."""

import json
import logging

from mcpkit import MCPKit


class AsJson(logging.Formatter):
    """Writes a record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            # mcpkit has put the traceback there, without its own frames.
            error = record.exc_text or self.formatException(record.exc_info)
            line["error"] = error.splitlines()[-1]
        return json.dumps(line)


handler = logging.StreamHandler()
handler.setFormatter(AsJson())
logging.basicConfig(level="INFO", handlers=[handler])

app = MCPKit("kitchen")
log = logging.getLogger("kitchen")


@app.tool
def bake(loaves: int) -> str:
    """Bake bread."""
    log.info("baking %d loaves", loaves)
    if loaves > 20:
        raise RuntimeError("the oven is full")
    return f"{loaves} loaves are baked."
