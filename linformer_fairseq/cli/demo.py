"""`linformer demo`: a web page to try a model."""

from __future__ import annotations

import argparse
import os
import signal
import sys

from linformer_fairseq.cli.loading import load_either
from linformer_fairseq.demo.answers import Answers
from linformer_fairseq.demo.server import Server
from linformer_fairseq.files.errors import UserError


def run(arguments: argparse.Namespace) -> int:
    """Serve the page until Ctrl-C or SIGTERM; returns the exit status."""
    with Server(arguments.host, arguments.port) as server:  # first: a taken port is to fail before a model is loaded
        hub, head = load_either(arguments)
        try:
            answers = Answers(hub, arguments.checkpoint, head)
        except ValueError as error:
            raise UserError(str(error)) from error
        server.values, server.answers = {"/api/model": answers.model()}, answers.routes()
        if not server.local:
            print(f"--host {arguments.host}: whoever reaches this address can use the model", file=sys.stderr)
        before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        ending = [number for number, handler in before.items() if handler is not signal.SIG_IGN]
        try:
            for number in ending:
                signal.signal(number, server.stop)
            print(f"{arguments.checkpoint}: {server.url} (end with Ctrl-C)", flush=True)
            server.serve()
            for number in ending:
                signal.signal(number, signal.default_int_handler)
            server.finish()
        except KeyboardInterrupt:  # the answer takes too long for the user; torch would abort in a normal end
            sys.stderr.flush()
            os._exit(128 + signal.SIGINT)
        finally:
            for number in ending:
                signal.signal(number, before[number])
    return 0
