#!/usr/bin/env python3
"""Starts `adaact report --watch` on a folder, looks at its page in Chromium while a run goes on, and ends it.

    check_watch.py TOOL FOLDER

FOLDER holds a run called `going_on` that is not finished. This script adds an epoch to it, and a run beside it
that is a copy, and expects the page to show both without being loaded again. Exit codes: 0 all is well, 1
something is not, 77 there is no browser (then everything else was checked).
"""

import http.client
import json
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.parse

from check_page import BROWSERS, NO_BROWSER, Browser, LoadedPage, use_figure

SECONDS_TO_FOLLOW = 120

CONTENT = """
({text: document.body.innerText,
  curves: document.querySelectorAll('figure path.curve').length,
  hidden: [...document.querySelectorAll('.toggle[aria-pressed=false]')].map(each => each.textContent)})
"""


def ask(address, path, host=None):
    connection = http.client.HTTPConnection(address.hostname, address.port, timeout=60)
    connection.request("GET", path, headers={"Host": host} if host else {})
    answer = connection.getresponse()
    return answer.status, answer.read().decode()


def faults_of_server(address):
    status, page = ask(address, "/")
    if status != 200 or "data-version" not in page or "going_on" not in page:
        yield f"/ answers {status}: {page[:200]}"
    if ask(address, "/version") != (200, "1"):
        yield f"/version answers {ask(address, '/version')}"
    if ask(address, "/nothing")[0] != 404:
        yield "/nothing is there"
    if ask(address, "/", host="evil.example")[0] != 403:
        yield "a stranger's name for this machine is answered"
    if ask(address, "/", host=f"localhost:{address.port}")[0] != 200:
        yield "localhost is not answered"


def add_epoch(run):
    metrics = run / "metrics.jsonl"
    last = next(line for line in reversed(metrics.read_text().splitlines()) if '"epoch"' in line[:20])
    record = json.loads(last)
    record["epoch"] += 1
    record["step"] += 10
    record["seconds"] += 5
    record["test_top1"] = 0.8765
    with metrics.open("a") as file:
        file.write(json.dumps(record) + "\n")


def wait_for(page, part):
    deadline = time.monotonic() + SECONDS_TO_FOLLOW
    while time.monotonic() < deadline:
        if part in page.evaluate(CONTENT)["text"]:
            return True
        time.sleep(0.2)
    return False


def faults_in_browser(browser, address, folder):
    page = LoadedPage(browser, address.geturl(), 1280, "light")
    content = page.evaluate(CONTENT)
    if content["curves"] == 0:
        yield "the script has drawn nothing"
    yield from use_figure(page, "test_accuracy_epochs")
    page.click(page.state("test_accuracy_epochs")["legend"][0])  # hidden from here on
    hidden = page.evaluate(CONTENT)["hidden"]
    add_epoch(folder / "going_on")
    if not wait_for(page, "87.65 %"):
        yield "the page does not follow a run"
    shutil.copytree(folder / "going_on", folder / "newcomer")
    if not wait_for(page, "newcomer"):
        yield "the page does not show a new run"
    if page.evaluate(CONTENT)["hidden"][:1] != hidden[:1] or not hidden:
        yield f"what was hidden, {hidden}, does not stay so"
    own = ("version", "")
    for message in page.messages():
        if not any(message == f"the page asks for {address.geturl()}{name}" for name in own):
            yield message


def check(address, folder):
    yield from faults_of_server(address)
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        return
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        browser = Browser(program, profile)
        try:
            yield from faults_in_browser(browser, address, folder)
        finally:
            browser.close()


def main():
    tool, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    server = subprocess.Popen([tool, "report", str(folder), "--watch", "--port", "0", "--json"],
                              stdout=subprocess.PIPE, text=True)
    try:
        lines = [server.stdout.readline() for _ in range(3)]
        address = urllib.parse.urlsplit(json.loads("".join(lines))["address"])
        faults = list(check(address, folder))
        server.send_signal(signal.SIGINT)
        code = server.wait(timeout=60)
        if code != 0:
            faults.append(f"Ctrl-C ends it with {code}, expected 0")
    finally:
        server.kill()
    for fault in faults:
        print(fault)
    if faults:
        return 1
    if not any(map(shutil.which, BROWSERS)):
        print(f"skipped: there is none of {', '.join(BROWSERS)} on the PATH; apt-get install chromium")
        return NO_BROWSER
    return 0


if __name__ == "__main__":
    sys.exit(main())
