"""The command, called from tests: in this process, which is quick, or in one of its own, as a user does."""

from __future__ import annotations

import subprocess
import sys
from contextlib import chdir, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any
from unittest.mock import patch


def antecast(*arguments: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Runs the command in this process."""
    from antecast.cli import main

    words, out, err = ["antecast", *map(str, arguments)], StringIO(), StringIO()
    code: object = 0
    with chdir(cwd), patch.object(sys, "argv", words), redirect_stdout(out), redirect_stderr(err):
        try:
            main()
        except SystemExit as ended:
            code = ended.code
    return subprocess.CompletedProcess(words, code if isinstance(code, int) else 0, out.getvalue(), err.getvalue())


def antecast_process(*arguments: object, cwd: Path, **options: Any) -> subprocess.CompletedProcess[str]:
    """Runs the command in a process of its own."""
    command = [sys.executable, "-m", "antecast", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, **options)
