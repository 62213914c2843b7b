"""A small schema with a prompt, and how the tests call commands on them."""

from __future__ import annotations

import json
from typing import Any

from typer.testing import CliRunner, Result

from promptcache.cli import app

SCHEMA = """\
<schema name="zoo">
  Animals. <!-- in every prompt -->
  <module name="cats">Cats sleep.</module>
  <union>
    <module name="red">Red.</module>
    <module name="white">White one.</module>
  </union>
  <module name="feed">Feed <parameter name="times" length="4"/> times.</module>
  <module name="news" cache="false">News.</module>
</schema>
"""
PROMPT = '<prompt schema="zoo"><cats/><feed times="3"/>Why?</prompt>'


def call(*arguments: object) -> Result:
    """A command's outcome: `exit_code`, `stdout`, `stderr`."""
    return CliRunner().invoke(app, [str(each) for each in arguments])


def object_on(stdout: str) -> Any:
    """The one JSON object that stdout holds."""
    assert stdout.count("\n") == 1
    return json.loads(stdout)
