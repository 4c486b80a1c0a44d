"""The public names of tasks."""

from __future__ import annotations

from mcpkit._utils.lazy import importer

TYPE_CHECKING = False  # type checkers know the name; importing `typing` for it would take longer
if TYPE_CHECKING:
    from mcpkit._stores.base import StoreUnavailable as StoreUnavailable
    from mcpkit._stores.memory import MemoryStore as MemoryStore
    from mcpkit._stores.postgres import PostgresStore as PostgresStore
    from mcpkit._stores.redis import RedisStore as RedisStore
    from mcpkit._stores.sqlite import SqliteStore as SqliteStore
    from mcpkit.tasks.options import TaskOptions as TaskOptions

__getattr__ = importer(
    __name__,
    {
        "mcpkit._stores.base": "StoreUnavailable",
        "mcpkit._stores.memory": "MemoryStore",
        "mcpkit._stores.postgres": "PostgresStore",
        "mcpkit._stores.redis": "RedisStore",
        "mcpkit._stores.sqlite": "SqliteStore",
        "mcpkit.tasks.options": "TaskOptions",
    },
)
