"""The command line: one file per subcommand.

Exit codes: 0 fine, 1 a violation of what was promised, 2 bad usage, configuration or input,
3 inconclusive, 70 a defect of Antecast, 130 interrupted. Results go to standard output, everything else to
standard error.
"""

__all__ = ["main"]


def main() -> None:
    """Run the command line; an interrupt while its modules are loaded ends it as quietly as one after."""
    try:
        import os
        import signal
    except KeyboardInterrupt:
        raise SystemExit(130) from None

    def leave(*_: object) -> None:
        # Nothing has begun yet. An exception could end up in the middle of another module's import.
        os.write(2, b"interrupted\n")
        os._exit(130)

    try:
        before = signal.signal(signal.SIGINT, leave)
    except ValueError:  # not the main thread: interrupts go elsewhere
        before = None
    from antecast.cli.app import main as run

    if before is not None:
        signal.signal(signal.SIGINT, before)
    run()
