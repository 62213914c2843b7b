"""`python -m promptcache` is the command `promptcache`."""

from promptcache.cli import app

app(prog_name="promptcache")
