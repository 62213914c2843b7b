"""What a report's figures stand on."""

from __future__ import annotations

from eval.results import RunFolder


def run_facts(results: RunFolder, *, data: bool = True) -> str:
    """A Markdown list: settings, machine, versions, commit; one line a session where they differ. `data` says whether
    the suite reads LongBench."""
    config, sessions = results.config, results.sessions()
    length = f"at most {config.max_length:,} tokens" if config.max_length else "as long as the model allows"
    source = f"data {config.data or 'LongBench from the Hub'}, {length}, truncation: {config.truncate}"
    settings = [
        f"model {config.model}, {config.dtype}, on {config.device}",
        *([source] if data else []),
        *(f"{name}: {value}" for name, value in sorted(config.options.items())),
    ]
    used = {row["session"] for row in results.rows()}
    machines = dict.fromkeys(_machine(facts) for facts in sessions if facts["session"] in used)
    return "".join(f"- {line}\n" for line in (*settings, *machines))


def _machine(facts: dict[str, object]) -> str:
    versions = facts["versions"]
    assert isinstance(versions, dict)
    gpus = f", {', '.join(map(str, found))}" if isinstance(found := facts["gpus"], list) and found else ""
    changed = f" with {facts['changed_files']} changed files" if facts["changed_files"] else ""
    return (
        f"{facts['cpu']}, {facts['cores']} cores, {facts['threads']} threads, {facts['memory_gib']} GiB{gpus};"
        f" torch {versions['torch']}, transformers {versions['transformers']}, commit {facts['commit']}{changed}"
    )
