// Draws the charts of a page from the numbers beside them, in the colours of the page, and answers to keys and buttons.
"use strict";
(() => {
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");
  const coarse = matchMedia("(pointer: coarse)").matches;
  const figures = [];
  let chosen = null; // the reader's own choice of light or dark, for as long as the page is open

  const plain = (text) => String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;").replace(/%\{/g, "% {");
  const colour = (name) => getComputedStyle(root).getPropertyValue("--" + name).trim();
  const shade = (k) => colour("c" + (k % 8));
  const faint = (hex) => hex + "2e";

  function number(value) {
    if (typeof value !== "number") return String(value ?? "");
    const size = Math.abs(value);
    return size && (size < 1e-3 || size >= 1e7) ? String(value.toExponential(3)) : String(Number(value.toPrecision(6)));
  }

  // --- from numbers to Plotly's traces ---------------------------------------------------------------------------

  const mistake = (curve, i, j) => `${curve.names[i]} taken for ${curve.names[j]}: ${curve.counts[i][j]}`;

  // what hovering shows, for each point
  function labels(view, curve) {
    if (curve.kind === "heat") return curve.counts.map((row, i) => row.map((_, j) => plain(mistake(curve, i, j))));
    if (curve.kind === "bars") return curve.x.map((x, k) => `${plain(curve.notes[k])}<br>${plain(curve.name)} ${number(x)}`);
    const name = view.curves.length > 1 ? `<b>${plain(curve.name)}</b><br>` : "";
    const more = (k) => (curve.error ? ` ± ${number(curve.error[k])}` : "");
    return curve.x.map((x, k) => `${name}${plain(view.x.title)} ${number(x)}<br>${plain(view.y.title)} ${number(curve.y[k])}${more(k)}`);
  }

  function trace(view, curve) {
    const hue = shade(curve.colour);
    const base = { name: plain(curve.name), x: curve.x, y: curve.y, showlegend: false };
    base.customdata = labels(view, curve);
    base.hovertemplate = "%{customdata}<extra></extra>";
    if (curve.kind === "heat") {
      const scale = [[0, colour("paper")], [1, shade(0)]];
      return { ...base, type: "heatmap", z: curve.z, colorscale: scale, showscale: false, xgap: 1, ygap: 1 };
    }
    if (curve.kind === "bars") {
      const hues = curve.x.map((value) => shade(value >= 0 ? 0 : 1));
      return { ...base, type: "bar", orientation: "h", marker: { color: hues } };
    }
    const line = { color: hue, dash: curve.dash || "solid", width: 2.2 };
    const marker = { color: hue, size: curve.size || (curve.kind === "marks" ? 9 : 5), symbol: curve.symbol || "circle", line: { width: curve.symbol ? 2.5 : 0 } };
    const drawn = { ...base, type: "scatter", line, marker };
    if (curve.kind === "marks") return { ...drawn, mode: "markers" };
    if (curve.kind === "steps") {
      const filled = curve.fill ? { fill: "tozeroy", fillcolor: faint(hue) } : {};
      return { ...drawn, mode: "lines", line: { ...line, shape: "hvh", width: 1.8 }, ...filled };
    }
    if (curve.error) drawn.error_y = { type: "data", array: curve.error, color: hue, thickness: 1, width: 3 };
    return { ...drawn, mode: curve.x.length > 80 ? "lines" : "lines+markers" };
  }

  function axis(spec, narrow) {
    const made = {
      type: spec.log ? "log" : "linear",
      title: { text: plain(spec.title || ""), standoff: 8, font: { size: 13, color: colour("quiet") } },
      gridcolor: colour("line"), linecolor: colour("edge"), zerolinecolor: colour("edge"), zeroline: !spec.log && !spec.ticks,
      tickfont: { size: 12, color: colour("quiet") }, exponentformat: "power", automargin: true, nticks: narrow ? 5 : 9,
    };
    if (spec.decades > 2) made.dtick = Math.ceil(spec.decades / (narrow ? 4 : 7)); // powers of ten, nothing between them
    if (spec.range) made.range = spec.range;
    if (spec.reversed) made.autorange = "reversed";
    if (spec.ticks) {
      made.tickvals = spec.ticks.map((_, k) => k);
      made.ticktext = spec.ticks.map(plain);
      made.showgrid = false;
      delete made.nticks;
    }
    return made;
  }

  function rules(view) {
    const shapes = [], annotations = [];
    for (const rule of view.rules || []) {
      const upright = rule.axis === "x";
      const at = upright ? { x0: rule.at, x1: rule.at, y0: 0, y1: 1, yref: "paper" } : { y0: rule.at, y1: rule.at, x0: 0, x1: 1, xref: "paper" };
      shapes.push({ type: "line", ...at, line: { color: colour("quiet"), width: 1.3, dash: "dot" } });
      const place = upright
        ? { x: rule.at, y: 1, yref: "paper", yanchor: "top", xanchor: rule.side || "left", xshift: rule.side === "right" ? -3 : 3 }
        : { x: 0, xref: "paper", xanchor: "left", y: (view.y.log ? Math.log10(rule.at) : rule.at), yanchor: "bottom" };
      annotations.push({ ...place, text: plain(rule.text), showarrow: false, font: { size: 12, color: colour("quiet") } });
    }
    return { shapes, annotations };
  }

  function layout(view, width) {
    const narrow = width < 520;
    const family = getComputedStyle(document.body).fontFamily;
    const height = view.height || (narrow ? 300 : 370);
    return {
      height, hovermode: "closest", hoverdistance: 30, dragmode: coarse ? false : "zoom", bargap: 0.25,
      margin: { l: narrow ? 46 : 62, r: 14, t: 30, b: 46 }, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { family, size: 13, color: colour("ink") },
      hoverlabel: { bgcolor: colour("panel"), bordercolor: colour("edge"), font: { color: colour("ink"), size: 13, family }, align: "left" },
      modebar: { bgcolor: "rgba(0,0,0,0)", color: colour("edge"), activecolor: colour("accent"), orientation: "h" },
      xaxis: axis(view.x, narrow), yaxis: axis(view.y, narrow), ...rules(view),
    };
  }

  // the buttons by name: Plotly's own list has one that would share the chart with its company
  const config = {
    displaylogo: false, displayModeBar: true, responsive: true, scrollZoom: false, doubleClick: "reset",
    modeBarButtons: [["toImage"], ["zoom2d", "pan2d"], ["zoomIn2d", "zoomOut2d", "resetScale2d"]],
  };

  // --- a figure --------------------------------------------------------------------------------------------------

  class Figure {
    constructor(element) {
      this.element = element;
      this.chart = element.querySelector(".chart");
      this.keys = element.querySelector(".keys");
      this.live = element.querySelector(".live");
      this.views = JSON.parse(element.querySelector("script").textContent);
      this.hidden = new Set(); // names of curves, so that the choice holds in the other views
      for (const view of this.views) for (const key of view.keys) if (key.off) this.hidden.add(key.name);
      this.show(0);
      element.addEventListener("change", (event) => {
        if (!event.target.matches(".switch input, select")) return;
        this.show(Number(event.target.value));
        this.draw();
      });
      this.chart.addEventListener("keydown", (event) => this.press(event));
      element.querySelector("details").addEventListener("toggle", () => this.fill());
    }

    show(k) {
      this.view = this.views[k];
      this.at = null;
      this.legend();
      this.fill();
    }

    async draw() {
      const view = this.view;
      const traces = view.curves.map((curve) => ({ ...trace(view, curve), visible: this.visible(curve) }));
      await Plotly.react(this.chart, traces, layout(view, this.chart.clientWidth), config);
      for (const part of this.chart.querySelectorAll(".main-svg")) part.setAttribute("aria-hidden", "true");
    }

    visible(curve) {
      return curve.key === undefined || !this.hidden.has(this.view.keys[curve.key].name);
    }

    legend() {
      const keys = this.view.keys;
      this.keys.replaceChildren();
      this.keys.hidden = keys.length < 2;
      this.keys.classList.toggle("many", keys.length > 14);
      for (const key of keys) {
        const swatch = document.createElement("i");
        swatch.className = key.kind === "marks" ? "marks" : { dash: "dash", dot: "dot", dashdot: "dash", longdash: "dash" }[key.dash] || "";
        swatch.style.setProperty("--key", `var(--c${key.colour % 8})`);
        this.button(key.name, !this.hidden.has(key.name), () => {
          if (!this.hidden.delete(key.name)) this.hidden.add(key.name);
        }).prepend(swatch);
      }
      if (keys.length > 4) {
        const all = keys.some((key) => this.hidden.has(key.name));
        const button = this.button(all ? "show all" : "hide all", null, () => {
          this.hidden = all ? new Set() : new Set(keys.map((key) => key.name));
        });
        button.classList.add("all");
        this.keys.prepend(button);
      }
    }

    button(text, pressed, act) {
      const button = document.createElement("button");
      button.type = "button";
      button.append(text);
      if (pressed !== null) button.setAttribute("aria-pressed", pressed);
      button.addEventListener("click", () => {
        const place = [...this.keys.children].indexOf(button);
        act();
        this.legend();
        this.keys.children[place].focus();
        this.draw();
      });
      this.keys.append(button);
      return button;
    }

    // --- keys: from point to point, from curve to curve, in and out

    press(event) {
      const steps = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
      const zooms = { "+": 0.6, "=": 0.6, "-": 1 / 0.6 };
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      if (steps[event.key]) this.step(...steps[event.key]);
      else if (zooms[event.key]) this.zoom(zooms[event.key]);
      else if (event.key === "0" || event.key === "Escape") this.draw();
      else return;
      event.preventDefault();
    }

    step(curves, points) {
      const shown = this.view.curves.map((curve, k) => k).filter((k) => this.visible(this.view.curves[k]) && this.view.curves[k].x.length);
      if (!shown.length || this.view.curves[shown[0]].kind === "heat") return;
      let { curve, point } = this.at || { curve: shown[0], point: points > 0 ? -1 : 0 };
      const place = Math.max(0, shown.indexOf(curve));
      curve = shown[(place + curves + shown.length) % shown.length];
      const { x, y, name, notes } = this.view.curves[curve];
      point = Math.min(Math.max(point + points, 0), x.length - 1);
      this.at = { curve, point };
      Plotly.Fx.hover(this.chart, [{ curveNumber: curve, pointNumber: point }]);
      const where = notes ? `${notes[point]}: ${number(x[point])}` : `${this.view.x.title} ${number(x[point])}, ${this.view.y.title} ${number(y[point])}`;
      this.live.textContent = `${notes ? "" : name + ": "}${where}`;
    }

    zoom(factor) {
      const changed = {};
      for (const name of ["xaxis", "yaxis"]) {
        const [low, high] = this.chart._fullLayout[name].range;
        const middle = (low + high) / 2, half = ((high - low) / 2) * factor;
        changed[`${name}.range`] = [middle - half, middle + half];
      }
      Plotly.relayout(this.chart, changed);
    }

    // --- the numbers as a table, made when it is opened

    fill() {
      const details = this.element.querySelector("details");
      const body = details.querySelector("tbody");
      body.replaceChildren();
      if (!details.open) return;
      const cells = (tag, words) => {
        const row = document.createElement("tr");
        for (const [k, word] of words.entries()) {
          const cell = document.createElement(k ? tag : "th");
          if (tag === "th" || !k) cell.scope = tag === "th" ? "col" : "row";
          if (k) cell.className = "number";
          cell.textContent = word;
          row.append(cell);
        }
        return row;
      };
      const view = this.view;
      details.querySelector("thead").replaceChildren(cells("th", view.curves[0]?.kind === "heat" ? ["true", "predicted", "rows"] : ["", view.x.title || "x", view.y.title || "y"]));
      for (const curve of view.curves) {
        if (curve.kind === "heat") {
          curve.counts.forEach((row, i) => row.forEach((count, j) => count && body.append(cells("td", [curve.names[i], curve.names[j], count]))));
        } else curve.x.forEach((x, k) => body.append(cells("td", curve.notes ? [curve.notes[k], number(x), ""] : [curve.name, number(x), number(curve.y[k])])));
      }
    }
  }

  // --- light and dark --------------------------------------------------------------------------------------------

  const button = document.querySelector(".theme");

  function dress(theme) {
    root.dataset.theme = theme;
    button.setAttribute("aria-pressed", theme === "dark");
    return Promise.all(figures.map((figure) => figure.draw()));
  }

  const current = () => chosen ?? (system.matches ? "dark" : "light");
  root.dataset.theme = current();
  button.setAttribute("aria-pressed", current() === "dark");
  button.hidden = false;
  button.addEventListener("click", () => dress((chosen = current() === "dark" ? "light" : "dark")));
  system.addEventListener("change", () => chosen ?? dress(current()));
  addEventListener("beforeprint", () => dress("light"));
  addEventListener("afterprint", () => dress(current()));

  for (const element of document.querySelectorAll("figure.plot")) {
    element.querySelector(".controls").hidden = false;
    figures.push(new Figure(element));
  }
  dress(current()).then(() => (root.dataset.drawn = figures.length));
})();
