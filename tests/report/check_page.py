#!/usr/bin/env python3
"""Loads a page from disk in Chromium, at phone and desktop width, light and dark, and uses its figures.

Fails on anything in the console, on a request for another resource, on content that is missing, cut
off, illegible or wider than the window. Saves a screenshot of each. Needs only Python and Chromium,
which it talks to through a pipe (DevTools protocol). Exit codes: 0 all is well, 1 something is not, 77
there is no browser.
"""

import argparse
import base64
import fcntl
import itertools
import json
import os
import pathlib
import select
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.parse

NO_BROWSER = 77
BROWSERS = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"]
WIDTHS = {"phone": 390, "desktop": 1280}
MODES = ["light", "dark"]
SECONDS_TO_ANSWER = 300  # on a machine that is busy with something else

# Runs in the page and returns what is wrong with it, as a list of sentences.
FIND_FAULTS = r"""
(width => {
  const faults = [];
  const expect = (condition, fault) => { if (!condition) faults.push(fault); };
  const root = document.documentElement;

  expect(document.title, 'the page has no title');
  expect(document.querySelectorAll('h1').length === 1, 'expected one h1');
  // Not innerWidth: a phone zooms out of a page that is too wide.
  expect(root.scrollWidth <= width, `the page is ${root.scrollWidth} px wide, the window ${width}`);

  const seen = new Set();
  for (const {id} of document.querySelectorAll('[id]')) {
    expect(!seen.has(id), `the id ${id} occurs twice`);
    seen.add(id);
  }

  const channels = colour => colour.match(/[\d.]+/g).slice(0, 3).map(Number);
  const luminance = colour => channels(colour)
    .map(c => c / 255).map(c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const contrast = (a, b) => {
    const [low, high] = [luminance(a), luminance(b)].sort((x, y) => x - y);
    return (high + 0.05) / (low + 0.05);
  };
  const background = element => {
    for (let at = element; at; at = at.parentElement) {
      const colour = getComputedStyle(at).backgroundColor;
      if (colour !== 'rgba(0, 0, 0, 0)') return colour;
    }
    return 'rgb(255, 255, 255)';
  };
  for (const element of document.querySelectorAll('h1, h2, h3, p, th, td, figcaption, a, li, code')) {
    const ratio = contrast(getComputedStyle(element).color, background(element));
    expect(ratio >= 4.5, `"${element.textContent}" has a contrast of ${ratio.toFixed(1)}, expected 4.5`);
  }

  for (const plot of document.querySelectorAll('svg.plot')) {
    const name = plot.getAttribute('aria-label');
    const box = plot.getBoundingClientRect();
    const behind = background(plot.parentElement);
    expect(box.width > 200 && box.height > 100, `${name} is ${box.width} by ${box.height} px`);
    const labels = [...plot.querySelectorAll('text')].map(
      text => ({text: text.textContent, box: text.getBoundingClientRect(), fill: getComputedStyle(text).fill,
                size: parseFloat(getComputedStyle(text).fontSize) * box.width / plot.viewBox.baseVal.width}));
    expect(labels.length >= 4, `${name} has ${labels.length} labels`);
    for (const label of labels) {
      const ratio = contrast(label.fill, behind);
      expect(ratio >= 4.5, `${name}: "${label.text}" has a contrast of ${ratio.toFixed(1)}, expected 4.5`);
      expect(label.size >= 10, `${name}: "${label.text}" is ${label.size.toFixed(1)} px high, expected 10`);
      expect(label.box.left >= box.left - 1 && label.box.right <= box.right + 1 &&
             label.box.top >= box.top - 1 && label.box.bottom <= box.bottom + 1,
             `${name}: "${label.text}" is cut off`);
    }
    labels.forEach((a, i) => labels.slice(i + 1).forEach(b => expect(
      a.box.right <= b.box.left || b.box.right <= a.box.left ||
      a.box.bottom <= b.box.top || b.box.bottom <= a.box.top || name.includes('by layer'),
      `${name}: "${a.text}" and "${b.text}" overlap`)));
    for (const line of plot.querySelectorAll('g[id*="gnuplot_plot"] path, path.curve')) {
      if (getComputedStyle(line).stroke === 'none') continue;  // a band
      const ratio = contrast(getComputedStyle(line).stroke, behind);
      expect(ratio >= 3, `${name}: a line has a contrast of ${ratio.toFixed(1)}, expected 3`);
    }
  }
  return faults;
})
"""

# Wakes every figure, so that the page's script draws it.
DRAW_ALL = """
[...document.querySelectorAll('figure')].filter(figure => figure.querySelector('script')).map(figure => {
  const plot = figure.querySelector('svg.plot');
  plot.dispatchEvent(new PointerEvent('pointermove', {clientX: 0, clientY: 0}));
  return plot.querySelectorAll('path.curve').length;
})
"""

# What is folded up is to be right too.
UNFOLD_ALL = "document.querySelectorAll('details').forEach(each => { each.open = true; })"

# What a figure shows, by its id.
STATE = """
(id => {
  const figure = [...document.querySelectorAll('figure')].find(each => {
    const data = each.querySelector('script');
    return data && JSON.parse(data.textContent).id === id;
  });
  figure.scrollIntoView({block: 'center'});
  const place = element => {
    const box = element.getBoundingClientRect();
    return {x: box.left, y: box.top, width: box.width, height: box.height};
  };
  const readout = figure.querySelector('.readout');
  const reset = figure.querySelector('.reset');
  return {
    plot: place(figure.querySelector('svg.plot')),
    legend: [...figure.querySelectorAll('.toggle')].map(place),
    pressed: [...figure.querySelectorAll('.toggle')].map(each => each.getAttribute('aria-pressed')),
    switches: [...figure.querySelectorAll('.tools button')].filter(each => each !== reset).map(place),
    reset: reset && !reset.hidden && place(reset),
    readout: readout && !readout.hidden ? readout.innerText : '',
    curves: [...figure.querySelectorAll('path.curve')].map(each => each.dataset.name),
    lines: [...figure.querySelectorAll('path.curve')].map(each => each.getAttribute('d')),
    labels: [...figure.querySelectorAll('svg.plot text')].map(each => each.textContent),
  };
})
"""

SMOOTH = """
(() => {
  const slider = document.querySelector('.tools input');
  slider.value = slider.max;
  slider.dispatchEvent(new Event('input', {bubbles: true}));
  return [...slider.closest('figure').querySelectorAll('path.curve')].map(each => each.getAttribute('d'));
})()
"""

CONTENT = """
({text: document.body.innerText,
  plots: document.querySelectorAll('svg.plot').length,
  background: getComputedStyle(document.body).backgroundColor,
  height: Math.ceil(document.documentElement.scrollHeight),
  links: [...document.querySelectorAll('a[href]')].map(link => link.href)})
"""


class Browser:
    """Chromium, spoken to through its pipes 3 and 4: JSON messages that end with a zero byte."""

    def __init__(self, program, profile):
        commands, self.to_browser = os.pipe()
        self.from_browser, answers = os.pipe()
        commands, answers = self._moved_up(commands), self._moved_up(answers)
        arguments = [program, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run",
                     "--disable-dev-shm-usage", "--hide-scrollbars", "--remote-debugging-pipe",
                     f"--user-data-dir={profile}", "about:blank"]
        shell = ["sh", "-c", f'exec "$@" 3</dev/fd/{commands} 4>/dev/fd/{answers}', "sh"]
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen(shell + arguments, pass_fds=(commands, answers),
                                        stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        os.close(commands)
        os.close(answers)
        self.numbers = itertools.count(1)
        self.buffer = b""
        self.events = []

    @staticmethod
    def _moved_up(descriptor):
        """Out of the way of 3 and 4."""
        moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD, 10)
        os.close(descriptor)
        return moved

    def _next_message(self, deadline):
        while b"\0" not in self.buffer:
            ready, _, _ = select.select([self.from_browser], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                raise RuntimeError(f"the browser did not answer within {SECONDS_TO_ANSWER} s")
            received = os.read(self.from_browser, 1 << 20)
            if not received:
                self.log.seek(0)
                raise RuntimeError("the browser ended: " + self.log.read().decode(errors="replace")[-2000:])
            self.buffer += received
        message, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, session=None, **parameters):
        number = next(self.numbers)
        message = {"id": number, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        os.write(self.to_browser, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + SECONDS_TO_ANSWER
        while True:
            answer = self._next_message(deadline)
            if answer.get("id") == number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]
            self.events.append(answer)

    def wait_for(self, event, session):
        deadline = time.monotonic() + SECONDS_TO_ANSWER
        while not any(each.get("method") == event and each.get("sessionId") == session
                      for each in self.events):
            self.events.append(self._next_message(deadline))

    def close(self):
        try:
            self.call("Browser.close")
            self.process.wait(timeout=10)
        except (RuntimeError, OSError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()
        os.close(self.to_browser)
        os.close(self.from_browser)


class LoadedPage:
    def __init__(self, browser, address, width, mode):
        self.browser = browser
        target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = browser.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        browser.events.clear()
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._call(domain + ".enable")
        self._call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1,
                   mobile=width < 600)
        self._call("Emulation.setEmulatedMedia",
                   features=[{"name": "prefers-color-scheme", "value": mode}])
        self._call("Page.navigate", url=address)
        browser.wait_for("Page.loadEventFired", self.session)
        self.address = address

    def _call(self, method, **parameters):
        return self.browser.call(method, self.session, **parameters)

    def evaluate(self, expression):
        answer = self._call("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(json.dumps(answer["exceptionDetails"])[:2000])
        return answer["result"].get("value")

    def state(self, figure):
        return self.evaluate(f"{STATE}({json.dumps(figure)})")

    def mouse(self, kind, x, y, **parameters):
        self._call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **parameters)

    def click(self, box):
        x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        self.mouse("mousePressed", x, y, button="left", buttons=1, clickCount=1)
        self.mouse("mouseReleased", x, y, button="left", clickCount=1)

    def drag(self, begin, end):
        self.mouse("mouseMoved", *begin)
        self.mouse("mousePressed", *begin, button="left", buttons=1, clickCount=1)
        for share in (0.3, 0.7, 1.0):
            at = [one + share * (other - one) for one, other in zip(begin, end)]
            self.mouse("mouseMoved", *at, button="left", buttons=1)
        self.mouse("mouseReleased", *end, button="left", clickCount=1)

    def screenshot(self, path, width, height):
        area = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
        answer = self._call("Page.captureScreenshot", clip=area, captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(answer["data"]))

    def messages(self):
        """What the console shows, and requests for anything but the page."""
        for event in self.browser.events:
            if event.get("sessionId") != self.session:
                continue
            method, parameters = event["method"], event["params"]
            if method in ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded"):
                yield f"{method}: {json.dumps(parameters)[:500]}"
            if method == "Network.requestWillBeSent":
                requested = parameters["request"]["url"]
                if requested != self.address and not requested.startswith("data:"):
                    yield f"the page asks for {requested}"


def use_figure(page, figure):
    """What is wrong when the pointer rests on a figure of two curves or more, drags and clicks."""
    state = page.state(figure)
    plot = state["plot"]
    at = lambda x, y: (plot["x"] + x * plot["width"], plot["y"] + y * plot["height"])

    page.mouse("mouseMoved", *at(0.6, 0.5))
    hovered = page.state(figure)
    if len(hovered["curves"]) < 2:
        yield f"{figure} has the curves {hovered['curves']}, expected two at least"
        return
    for name in hovered["curves"]:
        if name not in hovered["readout"]:
            yield f"{figure}: the pointer shows '{hovered['readout']}', expected {name} in it"
    page.mouse("mouseMoved", 1, 1)
    if page.state(figure)["readout"]:
        yield f"{figure}: values stay when the pointer has left"

    page.click(hovered["legend"][0])
    fewer = page.state(figure)
    if fewer["curves"] != hovered["curves"][1:] or fewer["pressed"][0] != "false":
        yield f"{figure}: a click on the first name leaves the curves {fewer['curves']}, {fewer['pressed']}"
    page.click(fewer["legend"][0])
    if page.state(figure)["curves"] != hovered["curves"]:
        yield f"{figure}: a second click does not bring a curve back"

    page.drag(at(0.4, 0.3), at(0.7, 0.6))
    zoomed = page.state(figure)
    if zoomed["labels"] == hovered["labels"] or not zoomed["reset"]:
        yield f"{figure}: dragging does not zoom"
    else:
        page.click(zoomed["reset"])
    page.mouse("mouseWheel", *at(0.5, 0.5), deltaX=0, deltaY=-200, modifiers=2)  # with Ctrl
    wheeled = page.state(figure)
    if not wheeled["reset"]:
        yield f"{figure}: a wheel with Ctrl does not zoom"
    else:
        page.click(wheeled["reset"])
    if page.state(figure)["labels"] != hovered["labels"]:
        yield f"{figure}: after a reset it is not as it was"

    page.click(page.state(figure)["switches"][-1])
    logarithmic = page.state(figure)
    if logarithmic["lines"] == hovered["lines"]:
        yield f"{figure}: a logarithmic axis changes nothing"
    page.click(logarithmic["switches"][-1])
    if page.state(figure)["lines"] != hovered["lines"]:
        yield f"{figure}: after a second click on the axis it is not as it was"


def use_page(page, arguments):
    for figure in arguments.use:
        yield from use_figure(page, figure)
    if arguments.use:
        before = page.evaluate(DRAW_ALL)
        if not all(before):
            yield f"the script draws {before} curves"
        rough = page.evaluate("[...document.querySelector('.tools input').closest('figure')"
                              ".querySelectorAll('path.curve')].map(each => each.getAttribute('d'))")
        if page.evaluate(SMOOTH) == rough:
            yield "smoothing changes nothing"


def missing_files(links):
    for link in links:
        parts = urllib.parse.urlsplit(link)
        if parts.scheme != "file":
            yield f"a link leads away from the disk: {link}"
        elif not pathlib.Path(urllib.parse.unquote(parts.path)).is_file():
            yield f"a link leads to no file: {link}"


def check_once(browser, arguments, name, width, mode):
    """Faults, and the colour of the background."""
    page = LoadedPage(browser, arguments.page.resolve().as_uri(), width, mode)
    page.evaluate(UNFOLD_ALL)
    content = page.evaluate(CONTENT)
    faults = page.evaluate(f"{FIND_FAULTS}({width})")
    faults += missing_files(content["links"])
    faults += [f"'{part}' is not in the page" for part in arguments.contains if part not in content["text"]]
    if content["plots"] < arguments.plots:
        faults.append(f"there are {content['plots']} plots, expected {arguments.plots}")
    if arguments.screenshots:
        arguments.screenshots.mkdir(parents=True, exist_ok=True)
        page.screenshot(arguments.screenshots / f"{name}-{mode}.png", width, content["height"])
    if mode == MODES[0]:
        faults += use_page(page, arguments)
    page.evaluate(DRAW_ALL)
    faults += page.evaluate(f"{FIND_FAULTS}({width})")
    faults += page.messages()
    return [f"{name}, {mode}: {fault}" for fault in faults], content["background"]


def check(browser, arguments):
    faults = []
    for name, width in WIDTHS.items():
        backgrounds = []
        for mode in MODES:
            found, background = check_once(browser, arguments, name, width, mode)
            faults += found
            backgrounds.append(background)
        if len(set(backgrounds)) != len(MODES):
            faults.append(f"{name}: light and dark have the same background {backgrounds[0]}")
    return faults


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("page", type=pathlib.Path)
    parser.add_argument("--screenshots", type=pathlib.Path, help="folder for them")
    parser.add_argument("--contains", action="append", default=[], help="text that the page must show")
    parser.add_argument("--use", action="append", default=[], help="id of a figure to be used")
    parser.add_argument("--plots", type=int, default=0, help="how many plots there must be at least")
    arguments = parser.parse_args()
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        print(f"skipped: there is none of {', '.join(BROWSERS)} on the PATH; apt-get install chromium")
        return NO_BROWSER
    if not arguments.page.is_file():
        print(f"{arguments.page} is no file")
        return 1
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        browser = Browser(program, profile)
        try:
            faults = check(browser, arguments)
        finally:
            browser.close()
    for fault in faults:
        print(fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
