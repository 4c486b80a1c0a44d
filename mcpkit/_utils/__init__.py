"""Small tools that know nothing of servers: walking JSON Schemas, reading the names of targets."""
