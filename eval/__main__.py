"""`python -m eval SUITE`: runs one suite into its results folder, or goes on with it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from eval.config import build_config
from eval.registry import SUITES, find_suite
from eval.results import RunFolder
from promptcache.errors import PromptCacheError


def main(arguments: Sequence[str] | None = None) -> int:
    """0 when the suite is finished, 1 for a fault in the input, 2 for wrong usage, 130 when stopped with Ctrl-C."""
    flags = vars(_parser().parse_args(arguments))
    name, file = flags.pop("suite"), flags.pop("config")
    try:
        suite = find_suite(name)
        config = build_config(name, file, flags)
        results = RunFolder(config.folder, config)
        print(f"results in {results.path}", file=sys.stderr)
        suite.run(config, results)
    except PromptCacheError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nstopped; the same command goes on from here", file=sys.stderr)
        return 130
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m eval",
        description="Runs an evaluation suite. The same command again skips what is finished.",
    )
    parser.add_argument("suite", metavar="SUITE", help=f"one of: {', '.join(SUITES)}")
    parser.add_argument("--config", type=Path, metavar="FILE", help="YAML file with settings; flags win over it")
    parser.add_argument("--data", metavar="DIR", help="the suite's data: for LongBench a folder or data.zip")
    parser.add_argument("--model", help="a model's name, folder or Hub id")
    parser.add_argument("--device", help="cpu, cuda, cuda:1, ...")
    parser.add_argument("--dtype", help="float32, bfloat16, float16")
    parser.add_argument("--datasets", metavar="A,B", help="only these LongBench datasets")
    parser.add_argument(
        "--max-length", type=int, metavar="N", help="tokens of a prompt; default: what the model allows"
    )
    parser.add_argument("--limit", type=int, metavar="N", help="records a dataset; default: all")
    parser.add_argument("--truncate", metavar="HOW", help="context (default) or prompt, LongBench's own way")
    parser.add_argument("--repeats", type=int, metavar="N", help="timed repeats")
    parser.add_argument("--warmup", type=int, metavar="N", help="repeats that are thrown away first")
    parser.add_argument("--seed", type=int, metavar="N", help="for everything drawn at random")
    parser.add_argument("--out", metavar="DIR", help="the results folder; default: results/SUITE-<digest of settings>")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
