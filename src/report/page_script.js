// Makes the figures of a page answer: values under the pointer, curves that a click on the legend hides,
// zoom, logarithmic axes, smoothing. A page is readable without: gnuplot has drawn every figure, and this
// draws one anew from its data as soon as somebody touches it. Where nobody has drawn it, as on a page that
// is served while runs train, it is drawn at once. Such a page also follows its server.
(() => {
  'use strict';

  const WIDTH = 400;
  const HEIGHT = 270;
  const LETTER = 8.4;  // how wide a letter of a tick may be
  const WANTED_TICKS = 5;
  const MOST_MARKED_POINTS = 24;
  const SMOOTHING = [0, 0.01, 0.02, 0.05, 0.1, 0.2];
  const SECONDS_BETWEEN_LOOKS = 2;

  // What a reader has chosen. It outlives the figures, which a served page replaces.
  const hidden = new Set();  // names of curves, in all figures
  const choices = new Map();  // by the id of a figure

  const choiceOf = data => {
    if (!choices.has(data.id)) {
      choices.set(data.id, {
        logX: Boolean(data.x.log), logY: Boolean(data.y.log), smoothing: data.smoothing || 0,
        view: null,  // {x: [low, high], y: [low, high] or null} where it is zoomed
      });
    }
    return choices.get(data.id);
  };

  // ---- Axes: as src/report/plot.cpp lays them out ----

  const roundStep = wanted => {
    const power = 10 ** Math.floor(Math.log10(wanted));
    const factor = [1, 2, 5].find(each => each * power >= wanted * (1 - 1e-9)) || 10;
    return factor * power;
  };

  const tickLabel = (value, axis) => String(Number((value || 0).toPrecision(6))) + (axis.unit || '');

  const linearTicks = (axis, low, high) => {
    // An axis that ends at a tick was made longer by up to one.
    let step = roundStep((high - low) / (axis.tight ? WANTED_TICKS : WANTED_TICKS + 1));
    if (axis.whole) step = Math.max(step, 1);
    const slack = 1e-6 * step;
    const ticks = [];
    for (let i = Math.ceil((low - slack) / step); i * step <= high + slack; ++i) {
      ticks.push([i * step, tickLabel(i * step, axis)]);
    }
    return ticks;
  };

  const logarithmicTicks = (axis, low, high) => {
    const decades = Math.log10(high / low);
    if (decades < 0.7) return linearTicks({...axis, whole: false}, low, high);
    const every = Math.max(1, Math.ceil(decades / (WANTED_TICKS + 2)));
    const factors = decades <= 2 ? [1, 2, 5] : [1];
    const ticks = [];
    for (let e = Math.floor(Math.log10(low)); e <= Math.ceil(Math.log10(high)); ++e) {
      if (e % every !== 0) continue;
      for (const factor of factors) ticks.push([factor * 10 ** e, tickLabel(factor * 10 ** e, axis)]);
    }
    return ticks;
  };

  // [low, high] of the values, with the room around them that an axis leaves.
  const rangeOf = (axis, values, log) => {
    let low = Infinity;
    let high = -Infinity;
    for (const value of values) {
      low = Math.min(low, value);
      high = Math.max(high, value);
    }
    if (low > high) [low, high] = log ? [0.1, 1] : [0, 1];
    if (axis.ticks) {
      low = Math.min(low, axis.ticks[0][0]);
      high = Math.max(high, axis.ticks[axis.ticks.length - 1][0]);
      const margin = high > low ? 0.03 * (high - low) : 0.5;
      return [low - margin, high + margin];
    }
    if (log) {
      const margin = (high / low) ** 0.05 * 1.02;
      return [low / margin, high * margin];
    }
    if (axis.zero) low = Math.min(low, 0);
    if (axis.whole) high = Math.ceil(high - 1e-6);
    if (high - low <= 1e-9 * Math.max(Math.abs(low), Math.abs(high))) {
      const margin = high === 0 ? 1 : 0.1 * Math.abs(high);
      high += margin;
      if (!axis.zero) low -= margin;
    }
    if (axis.tight) return [low, high];
    const step = roundStep((high - low) / WANTED_TICKS);
    const slack = 1e-6 * step;
    return [step * Math.floor((low + slack) / step), step * Math.ceil((high - slack) / step)];
  };

  const ticksOf = (axis, [low, high], log) => {
    const ticks = axis.ticks || (log ? logarithmicTicks : linearTicks)(axis, low, high);
    const slack = 1e-9 * (high - low);
    return ticks.filter(([position]) => position >= low - slack && position <= high + slack);
  };

  // ---- Curves ----

  // As moving_average() of src/report/plot.cpp.
  const movingAverage = (values, share) => {
    const widest = Math.floor(Math.max(Math.round(share * values.length), 1) / 2);
    const sums = [0];
    for (const value of values) sums.push(sums[sums.length - 1] + value);
    return values.map((value, i) => {
      const half = Math.min(widest, i, values.length - 1 - i);
      return half === 0 ? value : (sums[i + half + 1] - sums[i - half]) / (2 * half + 1);
    });
  };

  // The curves that are shown, as they are shown: {name, colour, dashes, points: [[x, y, error], …]}.
  const shownCurves = (data, choice) => data.series.filter(({name}) => !hidden.has(name)).map(series => {
    const y = movingAverage(series.y, choice.smoothing);
    const e = series.e && movingAverage(series.e, choice.smoothing);
    const points = series.x.map((x, i) => [x, y[i], e ? e[i] : 0])
      .filter(([x, value]) => (!choice.logX || x > 0) && (!choice.logY || value > 0));
    return {...series, points};
  });

  const bounds = (points, log) => points.flatMap(([, y, error]) => {
    if (!error) return [y];
    return log && y - error <= 0 ? [y, y + error] : [y - error, y + error];
  });

  const layOut = (data, choice, curves) => {
    const all = curves.flatMap(curve => curve.points);
    const x = choice.view ? choice.view.x : rangeOf(data.x, all.map(point => point[0]), choice.logX);
    const inView = choice.view ? all.filter(point => point[0] >= x[0] && point[0] <= x[1]) : all;
    const y = choice.view && choice.view.y ||
      rangeOf(data.y, bounds(inView.length ? inView : all, choice.logY), choice.logY);
    const xTicks = ticksOf(data.x, x, choice.logX);
    const yTicks = ticksOf(data.y, y, choice.logY);
    const longest = ticks => Math.max(1, ...ticks.map(([, label]) => label.length));
    const rotated = longest(xTicks) * xTicks.length > 45;
    const left = 28 + LETTER * longest(yTicks);
    const bottom = rotated ? 28 + 4.4 * longest(xTicks) : 40;
    const box = {left, top: 10, right: WIDTH - 14, bottom: HEIGHT - bottom};
    const scale = ([low, high], log, from, to) => {
      const position = log ? Math.log : value => value;
      const factor = (to - from) / (position(high) - position(low));
      return value => from + factor * (position(value) - position(low));
    };
    const inverse = ([low, high], log, from, to) => pixel => {
      const share = (pixel - from) / (to - from);
      return log ? low * (high / low) ** share : low + share * (high - low);
    };
    return {
      x, y, xTicks, yTicks, rotated, box,
      toX: scale(x, choice.logX, box.left, box.right), toY: scale(y, choice.logY, box.bottom, box.top),
      fromX: inverse(x, choice.logX, box.left, box.right),
      fromY: inverse(y, choice.logY, box.bottom, box.top),
    };
  };

  // ---- Drawing ----

  // Every page with figures has an SVG: the lines of its legends.
  const svgElement = (name, attributes, parent) => {
    const element = document.createElementNS(document.querySelector('svg').namespaceURI, name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    if (parent) parent.append(element);
    return element;
  };

  const htmlElement = (name, className, words, parent) => {
    const element = document.createElement(name);
    if (className) element.className = className;
    if (words) element.textContent = words;
    if (parent) parent.append(element);
    return element;
  };

  const label = (words, attributes, parent) => {
    const element = svgElement('text', {'font-size': 13, fill: 'var(--plot-text)', ...attributes}, parent);
    element.textContent = words;
  };

  const short = number => number.toFixed(1);

  const drawAxes = (svg, data, {box, xTicks, yTicks, toX, toY, rotated}) => {
    for (const [position, words] of yTicks) {
      const y = short(toY(position));
      svgElement('line', {x1: box.left, x2: box.right, y1: y, y2: y, stroke: 'var(--plot-grid)'}, svg);
      label(words, {x: box.left - 6, y: Number(y) + 4, 'text-anchor': 'end'}, svg);
    }
    svgElement('line', {x1: box.left, x2: box.right, y1: box.bottom, y2: box.bottom,
      stroke: 'var(--plot-axis)'}, svg);
    for (const [position, words] of xTicks) {
      const x = short(toX(position));
      svgElement('line', {x1: x, x2: x, y1: box.bottom, y2: box.bottom + 3, stroke: 'var(--plot-axis)'}, svg);
      if (rotated) {
        label(words, {'text-anchor': 'end', transform: `translate(${x} ${box.bottom + 14}) rotate(-40)`}, svg);
      } else {
        label(words, {x, y: box.bottom + 16, 'text-anchor': 'middle'}, svg);
      }
    }
    const middle = (box.top + box.bottom) / 2;
    label(data.x.label, {x: (box.left + box.right) / 2, y: HEIGHT - 5, 'text-anchor': 'middle'}, svg);
    label(data.y.label, {'text-anchor': 'middle', transform: `translate(13 ${middle}) rotate(-90)`}, svg);
  };

  const drawCurves = (svg, id, curves, {box, y, toX, toY}, logY) => {
    const clip = svgElement('clipPath', {id: id + '-clip'}, svg);
    svgElement('rect', {x: box.left, y: box.top - 4, width: box.right - box.left + 4,
      height: box.bottom - box.top + 4}, clip);
    const drawing = svgElement('g', {'clip-path': `url(#${id}-clip)`, fill: 'none'}, svg);
    const path = points => 'M' + points.map(([px, py]) => short(toX(px)) + ' ' + short(toY(py))).join('L');
    for (const {points, colour, e} of curves) {
      if (!e || points.length < 2) continue;
      const upper = points.map(([px, py, error]) => [px, py + error]);
      const lower = points.map(([px, py, error]) => [px, logY ? Math.max(py - error, y[0]) : py - error]);
      svgElement('path', {class: 'band', d: path([...upper, ...lower.reverse()]) + 'Z',
        fill: `var(${colour})`, 'fill-opacity': 0.18}, drawing);
    }
    for (const {name, points, colour, dashes} of curves) {
      if (!points.length) continue;
      const line = svgElement('path', {class: 'curve', d: path(points), stroke: `var(${colour})`,
        'stroke-width': 2, 'stroke-linejoin': 'round', 'data-name': name}, drawing);
      if (dashes) line.setAttribute('stroke-dasharray', dashes);
      if (points.length > MOST_MARKED_POINTS) continue;
      for (const [px, py] of points) {
        svgElement('circle', {cx: short(toX(px)), cy: short(toY(py)), r: 2.5, fill: `var(${colour})`}, drawing);
      }
    }
  };

  // ---- Values under the pointer ----

  const nearestPoint = (points, x) => {
    let low = 0;
    let high = points.length - 1;
    while (high - low > 1) {
      const middle = low + high >> 1;
      if (points[middle][0] < x) low = middle; else high = middle;
    }
    return Math.abs(points[low][0] - x) <= Math.abs(points[high][0] - x) ? points[low] : points[high];
  };

  const digitsOf = (value, unit) => {
    if (unit === ' %') return value.toFixed(2);
    const magnitude = Math.abs(value);
    return magnitude !== 0 && (magnitude < 1e-4 || magnitude >= 1e5) ? value.toExponential(3)
      : String(Number(value.toPrecision(4)));
  };

  const positionWords = (axis, x) => {
    const tick = axis.ticks && axis.ticks.find(([position]) => position === x);
    return tick ? tick[1] : `${digitsOf(x, '')} ${axis.label}`;
  };

  class Figure {
    constructor(element) {
      this.element = element;
      this.data = JSON.parse(element.querySelector('script[type="application/json"]').textContent);
      this.data.series.forEach((series, i, all) => { series.x = series.x || all[i - 1].x; });
      this.choice = choiceOf(this.data);
      this.svg = element.querySelector('svg.plot');
      this.isDrawn = false;
      this.pointers = new Map();  // fingers and the mouse while they are down
      this.addTools();
      this.addLegend();
      this.addReadout();
      this.listen();
      if (!this.svg.childElementCount || this.isChanged()) this.draw();
    }

    isChanged() {
      const {data, choice} = this;
      return choice.view || choice.logX !== Boolean(data.x.log) || choice.logY !== Boolean(data.y.log) ||
        choice.smoothing !== (data.smoothing || 0) || data.series.some(({name}) => hidden.has(name));
    }

    draw() {
      this.isDrawn = true;
      this.curves = shownCurves(this.data, this.choice);
      this.layout = layOut(this.data, this.choice, this.curves);
      const svg = this.svg;
      svg.replaceChildren();
      drawAxes(svg, this.data, this.layout);
      drawCurves(svg, this.data.id, this.curves, this.layout, this.choice.logY);
      this.marks = svgElement('g', {class: 'marks'}, svg);
      this.resetButton.hidden = !this.choice.view;
      for (const {button, name} of this.legend) button.setAttribute('aria-pressed', String(!hidden.has(name)));
      this.showReadout(null);
    }

    change(changes) {
      Object.assign(this.choice, changes);
      this.draw();
    }

    // ---- What stands around the drawing ----

    addTools() {
      this.element.querySelector('.tools')?.remove();
      const tools = htmlElement('div', 'tools');
      this.element.querySelector('h3').after(tools);
      const addSwitch = (words, key) => {
        const button = htmlElement('button', '', words, tools);
        button.type = 'button';
        button.setAttribute('aria-pressed', String(this.choice[key]));
        button.addEventListener('click', () => {
          this.change({[key]: !this.choice[key], view: null});
          button.setAttribute('aria-pressed', String(this.choice[key]));
        });
      };
      if (!this.data.x.ticks) addSwitch('log x', 'logX');
      addSwitch('log y', 'logY');
      if (this.data.smoothing) this.addSmoothing(tools);
      this.resetButton = htmlElement('button', 'reset', 'reset zoom', tools);
      this.resetButton.type = 'button';
      this.resetButton.hidden = !this.choice.view;
      this.resetButton.addEventListener('click', () => this.change({view: null}));
    }

    addSmoothing(tools) {
      const holder = htmlElement('label', '', 'smoothing', tools);
      const slider = htmlElement('input', '', '', holder);
      const shown = htmlElement('output', '', '', holder);
      slider.type = 'range';
      slider.min = 0;
      slider.max = SMOOTHING.length - 1;
      slider.value = Math.max(0, SMOOTHING.indexOf(this.choice.smoothing));
      const say = () => { shown.textContent = `${100 * SMOOTHING[slider.value]} %`; };
      say();
      slider.addEventListener('input', () => {
        say();
        this.change({smoothing: SMOOTHING[slider.value]});
      });
    }

    addLegend() {
      this.legend = [...this.element.querySelectorAll('.legend li')].map(entry => {
        const name = entry.querySelector('span').textContent;
        let button = entry.querySelector('button');
        if (!button) {
          button = htmlElement('button', 'toggle');
          button.type = 'button';
          button.title = 'Click: hide or show. Shift and click: this one alone.';
          button.append(...entry.childNodes);
          entry.append(button);
        }
        button.setAttribute('aria-pressed', String(!hidden.has(name)));
        button.addEventListener('click', event => this.toggle(name, event.shiftKey));
        return {button, name};
      });
    }

    toggle(name, alone) {
      const names = this.data.series.map(series => series.name);
      if (alone) {
        const isAlone = !hidden.has(name) && names.every(each => each === name || hidden.has(each));
        for (const each of names) {
          if (isAlone || each === name) hidden.delete(each); else hidden.add(each);
        }
      } else if (!hidden.delete(name)) {
        hidden.add(name);
      }
      for (const figure of figures) {
        if (figure.data.series.some(series => names.includes(series.name))) figure.draw();
      }
    }

    addReadout() {
      const box = htmlElement('div', 'plot-box');
      this.svg.replaceWith(box);
      box.append(this.svg);
      this.readout = htmlElement('div', 'readout', '', box);
      this.readout.hidden = true;
    }

    // Of every curve the point nearest to x, a place on the axis; nothing where x is null.
    showReadout(x) {
      this.marks.replaceChildren();
      this.readout.hidden = true;
      if (x === null) return;
      const {box, toX, toY} = this.layout;
      const reach = Math.abs(this.layout.fromX(box.left + 12) - this.layout.fromX(box.left));
      const entries = [];
      for (const curve of this.curves) {
        if (!curve.points.length) continue;
        const point = nearestPoint(curve.points, x);
        const first = curve.points[0][0];
        const last = curve.points[curve.points.length - 1][0];
        if (x >= first - reach && x <= last + reach) entries.push({curve, point});
      }
      if (!entries.length) return;
      const nearest = entries.reduce((one, other) =>
        Math.abs(one.point[0] - x) <= Math.abs(other.point[0] - x) ? one : other).point[0];
      const pixel = short(toX(nearest));
      svgElement('line', {x1: pixel, x2: pixel, y1: box.top, y2: box.bottom, stroke: 'var(--plot-axis)',
        'stroke-dasharray': '2,2'}, this.marks);
      this.readout.replaceChildren();
      htmlElement('strong', '', positionWords(this.data.x, nearest), this.readout);
      const unit = this.data.y.unit || '';
      for (const {curve, point} of entries.sort((one, other) => other.point[1] - one.point[1])) {
        svgElement('circle', {cx: short(toX(point[0])), cy: short(toY(point[1])), r: 3.5,
          fill: `var(${curve.colour})`}, this.marks);
        const line = htmlElement('div', '', '', this.readout);
        const swatch = svgElement('svg', {class: 'swatch', viewBox: '0 0 28 12'}, line);
        const stroke = svgElement('line', {x1: 0, x2: 28, y1: 6, y2: 6, stroke: `var(${curve.colour})`}, swatch);
        if (curve.dashes) stroke.setAttribute('stroke-dasharray', curve.dashes);
        htmlElement('span', '', curve.name, line);
        const error = point[2] ? ` ± ${digitsOf(point[2], unit)}` : '';
        htmlElement('b', '', digitsOf(point[1], unit) + error + unit, line);
      }
      this.readout.classList.toggle('left', Number(pixel) > (box.left + box.right) / 2);
      this.readout.hidden = false;
    }

    // ---- The pointer ----

    // Where an event is, in the units of the drawing.
    placeOf(event) {
      const box = this.svg.getBoundingClientRect();
      return [(event.clientX - box.left) * WIDTH / box.width, (event.clientY - box.top) * HEIGHT / box.height];
    }

    isWithin([x, y]) {
      const {box} = this.layout;
      return x >= box.left - 2 && x <= box.right + 2 && y >= box.top - 6 && y <= box.bottom + 6;
    }

    listen() {
      const svg = this.svg;
      const awake = handle => event => {
        if (!this.isDrawn) this.draw();
        handle(event);
      };
      svg.addEventListener('pointerdown', awake(event => this.onDown(event)));
      svg.addEventListener('pointermove', awake(event => this.onMove(event)));
      svg.addEventListener('pointerup', event => this.onUp(event));
      svg.addEventListener('pointercancel', event => this.forget(event));
      svg.addEventListener('pointerleave', event => {
        if (!this.pointers.size && this.isDrawn) this.showReadout(null);
      });
      svg.addEventListener('dblclick', awake(() => this.change({view: null})));
      // Without Ctrl a wheel scrolls the page; a pinch of a touchpad comes with it.
      svg.addEventListener('wheel', awake(event => {
        if (!event.ctrlKey) return;
        event.preventDefault();
        this.zoomAround(this.placeOf(event)[0], Math.exp(event.deltaY * 0.005));
      }), {passive: false});
    }

    onDown(event) {
      const place = this.placeOf(event);
      if (!this.isWithin(place)) return;
      if (event.pointerType === 'mouse') event.preventDefault();  // it would begin to select text
      this.pointers.set(event.pointerId, {from: place, to: place});
      if (event.pointerType === 'mouse') this.svg.setPointerCapture(event.pointerId);
    }

    onMove(event) {
      const place = this.placeOf(event);
      const pointer = this.pointers.get(event.pointerId);
      if (pointer && this.pointers.size === 2) {
        this.pinch(pointer, place);
        return;
      }
      if (pointer && event.pointerType === 'mouse') {
        pointer.to = place;
        this.showSelection(pointer);
        return;
      }
      this.showReadout(this.isWithin(place) ? this.layout.fromX(place[0]) : null);
    }

    onUp(event) {
      const pointer = this.pointers.get(event.pointerId);
      this.forget(event);
      if (pointer && event.pointerType === 'mouse') this.select(pointer);
    }

    forget(event) {
      this.pointers.delete(event.pointerId);
    }

    selectionOf({from, to}) {
      const {box} = this.layout;
      const within = (value, low, high) => Math.min(Math.max(value, low), high);
      const sorted = (one, other, low, high) =>
        [within(Math.min(one, other), low, high), within(Math.max(one, other), low, high)];
      const [left, right] = sorted(from[0], to[0], box.left, box.right);
      const [top, bottom] = sorted(from[1], to[1], box.top, box.bottom);
      // A stroke along the axis means all of the height.
      return bottom - top < 12 ? {left, right, top: box.top, bottom: box.bottom, whole: true}
        : {left, right, top, bottom, whole: false};
    }

    showSelection(pointer) {
      this.showReadout(null);
      const {left, right, top, bottom} = this.selectionOf(pointer);
      svgElement('rect', {class: 'selection', x: left, y: top, width: right - left, height: bottom - top},
        this.marks);
    }

    select(pointer) {
      const {left, right, top, bottom, whole} = this.selectionOf(pointer);
      this.marks.replaceChildren();
      if (right - left < 8) return;
      const {fromX, fromY} = this.layout;
      this.change({view: {x: [fromX(left), fromX(right)], y: whole ? null : [fromY(bottom), fromY(top)]}});
    }

    // Two fingers: what was under each stays under it, along the x axis.
    pinch(pointer, place) {
      const other = [...this.pointers.values()].find(each => each !== pointer);
      const before = Math.abs(pointer.to[0] - other.to[0]);
      const now = Math.abs(place[0] - other.to[0]);
      pointer.to = place;
      if (before > 10 && now > 10) this.zoomAround((place[0] + other.to[0]) / 2, before / now);
    }

    zoomAround(pixel, factor) {
      const {box, fromX} = this.layout;
      const low = fromX(pixel - (pixel - box.left) * factor);
      const high = fromX(pixel + (box.right - pixel) * factor);
      const whole = rangeOf(this.data.x, this.curves.flatMap(({points}) => points.map(point => point[0])),
        this.choice.logX);
      const x = [Math.max(low, whole[0]), Math.min(high, whole[1])];
      if (!(x[1] > x[0])) return;
      const isWhole = x[0] <= whole[0] && x[1] >= whole[1];
      this.change({view: isWhole ? null : {x, y: null}});
    }
  }

  // ---- The page ----

  let figures = [];

  const awaken = () => {
    figures = [...document.querySelectorAll('figure')]
      .filter(figure => figure.querySelector('script[type="application/json"]'))
      .map(figure => new Figure(figure));
  };

  // Of a page that is served: takes the place of its content when there is something new.
  const follow = async () => {
    const sign = htmlElement('p', 'live', 'live', document.body);
    const say = (words, isLive) => {
      sign.textContent = words;
      sign.classList.toggle('gone', !isLive);
    };
    for (;;) {
      await new Promise(resolve => setTimeout(resolve, 1000 * SECONDS_BETWEEN_LOOKS));
      if (document.hidden) continue;
      try {
        const version = await (await fetch('version', {cache: 'no-store'})).text();
        say('live', true);
        if (version === document.body.dataset.version) continue;
        const text = await (await fetch('./', {cache: 'no-store'})).text();
        const page = new DOMParser().parseFromString(text, 'text/html');
        const open = new Set([...document.querySelectorAll('details[open]')].map(each => each.dataset.name));
        for (const each of page.querySelectorAll('details')) each.open = open.has(each.dataset.name);
        document.querySelector('main').replaceWith(page.querySelector('main'));
        document.title = page.title;
        document.body.dataset.version = page.body.dataset.version;
        awaken();
      } catch (error) {
        say('adaact report --watch has ended: this is how it was', false);
      }
    }
  };

  awaken();
  if ('version' in document.body.dataset) follow();
})();
