"""``termal`` and ``python -m termal``. The bridge goes its own way: no agent waits for the command line's imports."""

import sys


def main() -> None:
    if sys.argv[1:2] == ["delegation-mcp"]:
        from termal.bridge.main import main as serve_agent  # noqa: PLC0415 - see the module

        sys.exit(serve_agent(sys.argv[2:]))
    from termal.cli.main import main as run_command  # noqa: PLC0415 - see the module

    run_command()


if __name__ == "__main__":
    main()
