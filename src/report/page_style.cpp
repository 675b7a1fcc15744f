#include "report/page_style.h"

#include "report/palette.h"

namespace adaact {
namespace {

constexpr char kColours[] = R"css(
:root {
  color-scheme: light dark;
  --page: #ffffff; --card: #ffffff; --tint: #f4f6f8; --line: #dfe3e8;
  --text: #1c2024; --muted: #5a626d; --link: #0b52c4;
  --plot-text: #3b424b; --plot-axis: #8a929c; --plot-grid: #e4e7eb;
  --right: 19 87 216; --wrong: 214 84 0; --heat: .45;
)css";

constexpr char kDarkColours[] = R"css(
  --page: #14171b; --card: #1a1e23; --tint: #20252b; --line: #323941;
  --text: #e6e9ed; --muted: #a3acb8; --link: #8db4ff;
  --plot-text: #c5ccd5; --plot-axis: #6d7783; --plot-grid: #2d333b;
  --right: 160 194 255; --wrong: 240 138 98; --heat: .35;
)css";

constexpr char kRules[] = R"css(
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; text-size-adjust: 100%; }
body {
  margin: 0 auto; padding: 2.5rem clamp(1rem, 4vw, 2.5rem) 3rem; max-width: 76rem;
  background: var(--page); color: var(--text);
  font: 1rem/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "DejaVu Sans", sans-serif;
  overflow-wrap: anywhere;
}
h1 { margin: 0 0 .5rem; font-size: clamp(1.6rem, 1.2rem + 1.6vw, 2.2rem); line-height: 1.2; letter-spacing: -.01em; }
h2 { margin: 3rem 0 1rem; font-size: 1.35rem; line-height: 1.3; }
h3 { margin: 0; font-size: 1rem; line-height: 1.4; }
p { margin: 0 0 1rem; max-width: 46rem; }
a { color: var(--link); }
.lead { color: var(--muted); font-size: 1.1rem; }
.notice { padding: .7rem 1rem; border-left: .3rem solid #b86e00; background: var(--tint); border-radius: .3rem; }
.note, figcaption { color: var(--muted); font-size: .875rem; }
code, pre { font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; font-size: .875em; }
pre { margin: 0 0 1rem; padding: .75rem 1rem; background: var(--tint); border-radius: .5rem; white-space: pre-wrap; }

.scroll { overflow-x: auto; margin: 0 0 1rem; border: 1px solid var(--line); border-radius: .6rem; background: var(--card); }
.scroll:focus-visible { outline: 2px solid var(--link); outline-offset: 2px; }
table { width: 100%; border-collapse: separate; border-spacing: 0; font-size: .9rem; font-variant-numeric: tabular-nums; }
caption { padding: .7rem .75rem .2rem; text-align: left; font-size: 1rem; font-weight: 600; }
th, td { padding: .55rem .75rem; text-align: left; vertical-align: baseline; overflow-wrap: normal; }
td { white-space: nowrap; }
thead th { color: var(--muted); font-size: .8rem; font-weight: 600; line-height: 1.3; vertical-align: bottom; }
tbody tr > * { border-top: 1px solid var(--line); }
th:first-child { position: sticky; left: 0; background: var(--card); min-width: 8rem; }
th[scope=row] { font-weight: 600; }
th code { font-weight: 400; }
/* As wide as the name, up to a limit; a table would break it at the first hyphen. */
.name { display: inline-flex; align-items: baseline; gap: .5rem; width: max-content; max-width: 14rem; overflow-wrap: anywhere; }
.number { text-align: right; }
.best { font-weight: 700; }
.state { display: block; color: var(--muted); font-size: .8rem; font-weight: 400; }
.wide { white-space: normal; overflow-wrap: anywhere; min-width: 9rem; }

.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 28rem), 1fr)); gap: 1.25rem; margin: 0 0 1.25rem; }
figure { margin: 0; padding: 1rem 1rem .8rem; border: 1px solid var(--line); border-radius: .6rem; background: var(--card); min-width: 0; display: flex; flex-direction: column; max-width: 44rem; }
figcaption { margin-top: auto; padding-top: .4rem; }
.legend { display: flex; flex-wrap: wrap; gap: .1rem 1rem; margin: .35rem 0 .5rem; padding: 0; list-style: none; font-size: .85rem; }
.legend li { display: flex; align-items: center; gap: .45rem; min-width: 0; }
.swatch { flex: none; width: 1.75rem; height: .75rem; }
.name .swatch { width: 1.4rem; }
.swatch line { stroke-width: 3; }
.plot { display: block; width: 100%; height: auto; margin: .25rem 0; }
.plot image { image-rendering: pixelated; }

.plot-box { position: relative; -webkit-user-select: none; user-select: none; }
.plot-box .plot { cursor: crosshair; touch-action: pan-y; }
.tools { display: flex; flex-wrap: wrap; align-items: center; gap: .3rem .5rem; margin: .35rem 0 .1rem; font-size: .8rem; color: var(--muted); }
.tools button, .toggle { font: inherit; color: inherit; background: none; border: 0; padding: 0; cursor: pointer; }
.tools button { padding: .1rem .5rem; border: 1px solid var(--line); border-radius: 1rem; }
.tools button[aria-pressed=true] { background: var(--tint); color: var(--text); border-color: var(--muted); }
.tools label { display: inline-flex; align-items: center; gap: .35rem; }
.tools input { width: 5.5rem; accent-color: var(--link); }
.tools output { min-width: 2.4em; }
.toggle { display: inline-flex; align-items: center; gap: .45rem; text-align: left; min-width: 0; }
.toggle[aria-pressed=false] span { text-decoration: line-through; color: var(--muted); }
.toggle[aria-pressed=false] .swatch { opacity: .25; }
button:focus-visible, summary:focus-visible { outline: 2px solid var(--link); outline-offset: 2px; }
.readout { position: absolute; top: .4rem; right: .4rem; z-index: 1; max-width: 70%; padding: .35rem .55rem; pointer-events: none; background: var(--card); border: 1px solid var(--line); border-radius: .4rem; box-shadow: 0 2px 8px rgb(0 0 0 / .15); font-size: .75rem; line-height: 1.35; font-variant-numeric: tabular-nums; }
.readout.left { right: auto; left: 3rem; }
.readout div { display: flex; align-items: center; gap: .4rem; }
.readout b { margin-left: auto; padding-left: .6rem; white-space: nowrap; }
.readout .swatch { width: 1.2rem; }
.selection { fill: var(--link); fill-opacity: .15; stroke: var(--link); }
.live { position: fixed; right: .8rem; bottom: .8rem; margin: 0; padding: .15rem .7rem; border-radius: 1rem; font-size: .8rem; color: var(--text); background: var(--tint); border: 1px solid #12916a; }
.live.gone { border-color: #b86e00; }

.matrix th, .matrix td { padding: .2rem .45rem; text-align: right; }
.matrix th:first-child { text-align: left; }
.matrix th[scope=row] { text-align: left; white-space: nowrap; font-weight: 400; min-width: 0; }
.matrix thead th { vertical-align: bottom; }
.matrix thead th:nth-child(n+3) > span { writing-mode: vertical-rl; transform: rotate(180deg); max-height: 9rem; }
.pictures { display: grid; grid-template-columns: repeat(auto-fill, minmax(9.5rem, 1fr)); gap: .8rem; margin: 0 0 1rem; padding: 0; list-style: none; font-size: .85rem; line-height: 1.35; }
.pictures img { display: block; width: 4.5rem; height: 4.5rem; object-fit: contain; object-position: left; image-rendering: pixelated; margin-bottom: .25rem; }
.of-run { margin: 0 0 1.5rem; }
.of-run h3 { margin: 0 0 .5rem; }
.of-run h4 { margin: 1rem 0 .5rem; font-size: .9rem; }

details { margin: 0 0 1rem; }
summary { cursor: pointer; color: var(--link); padding: .35rem 0; }
details[open] > summary { margin-bottom: .5rem; }
dl { display: grid; grid-template-columns: fit-content(40%) minmax(0, 1fr); gap: .2rem 1.25rem; margin: 0 0 1rem; font-size: .9rem; }
dt { color: var(--muted); }
dd { margin: 0; }

@media (min-width: 60rem) {
  /* Figures are drawn for a phone, where their letters are just large enough. */
  .plot [font-size] { font-size: 10px; }
}
@media (max-width: 40rem) {
  body { padding-top: 1.5rem; }
  h2 { margin-top: 2.25rem; }
  figure { padding: .8rem .6rem .7rem; }
  .name { max-width: 9rem; }
  th:first-child { min-width: 7rem; }
  th, td { padding: .5rem .6rem; }
}
@media print {
  .scroll { overflow: visible; }
  figure { break-inside: avoid; }
  .tools, .live { display: none; }
}
)css";

/// Backgrounds of cells in ten steps: .right-9, .wrong-3. As an image, over the colour of the card.
std::string heat_rules() {
  std::string rules;
  for (const std::string kind : {"right", "wrong"}) {
    for (int step = 1; step < 10; ++step) {
      const auto number = std::to_string(step);
      const auto colour = "rgb(var(--" + kind + ") / calc(var(--heat) * ." + number + "))";
      rules += "." + kind + "-" + number + " { background-image: linear-gradient(" + colour + ", " +
               colour + "); }\n";
    }
  }
  return rules;
}

std::string series_variables(const char* SeriesColour::*mode) {
  std::string variables = " ";
  for (std::size_t index = 0; index < kSeriesColours.size(); ++index) {
    variables += " " + colour_variable(index) + ": " + kSeriesColours[index].*mode + ";";
  }
  return variables + "\n";
}

}  // namespace

std::string page_style() {
  return kColours + series_variables(&SeriesColour::on_light) + "}\n" +
         "@media (prefers-color-scheme: dark) {\n:root {" + kDarkColours +
         series_variables(&SeriesColour::on_dark) + "}\n}" + kRules + heat_rules();
}

}  // namespace adaact
