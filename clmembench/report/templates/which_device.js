// The panel "Which device for my code?": predicts the time of a workload on each device by the formula of analysis/kernel_time.py.
// A rate or time is [value, low, high], null where it was not measured. Without this script the page has a table of kernels.
"use strict";

const inverse = ([value, low, high]) => [1 / value, 1 / high, 1 / low];
const times = (one, factor) => one.map((end) => end * factor);
const plus = (one, other) => one.map((end, at) => end + other[at]);

/** The bandwidth of a working set and its level, or the key of what would have measured it. */
function bandwidth(device, setBytes) {
  const levels = device.bandwidths;
  if (!levels.length) return "memory";
  const [name, , memory] = levels.at(-1);
  if (levels.length === 1) return setBytes >= device.memory_from ? [memory, name] : "cache";
  const [cacheName, capacity, cache] = levels[0];
  if (setBytes <= capacity) return [cache, cacheName];
  const share = capacity / setBytes, mixed = (end) => 1 / (share / cache[end] + (1 - share) / memory[end]);
  const [value, high] = [mixed(0), mixed(2)];
  return [[value, Math.min(memory[1], value), Math.max(value, high)], name];
}

/** The latency of a dependent load in a working set, and its level. */
function latency(levels, setBytes) {
  let before = null;
  for (const [name, first, last, ns] of levels) {
    if (before && setBytes < first && setBytes > before.last) {
      const at = Math.log(setBytes / before.last) / Math.log(first / before.last);
      const middle = before.ns[0] ** (1 - at) * ns[0] ** at, ends = [before.ns[1], before.ns[2], ns[1], ns[2], middle];
      return [[middle, Math.min(...ends), Math.max(...ends)], name];
    }
    if (setBytes <= last) return [ns, name];
    before = { last, ns };
  }
  return [levels.at(-1)[3], levels.at(-1)[0]];
}

/** The parts of the time of a workload in ns, their sum, what takes most of it, and what was not measured. */
function predict(device, work) {
  const parts = {}, missing = [], kernel = {}, flops = work.flop_per_byte * work.nbytes;
  if (work.launches > 0) {
    if (!device.round_trip) missing.push("round_trip");
    if (!device.dispatch && work.launches > 1) missing.push("dispatch");
    if (!missing.length) {
      parts.launch = work.launches > 1 ? plus(device.round_trip, times(device.dispatch, work.launches - 1)) : device.round_trip;
    }
  }
  if (work.link_bytes > 0 && device.has_link) {
    if (!device.link_ns || !device.link_gb_s) missing.push("link");
    else parts.link = plus(device.link_ns, times(inverse(device.link_gb_s), work.link_bytes));
  }
  if (flops > 0) {
    const kind = work.product ? "product" : "vector";
    if (!device[kind]) missing.push(kind);
    else kernel.compute = [times(inverse(device[kind]), flops), device.sources[kind]];
  }
  if (work.nbytes > 0) {
    const found = bandwidth(device, work.set_bytes);
    if (typeof found === "string") missing.push(found);
    else kernel.memory = [times(inverse(found[0]), work.nbytes), found[1]];
  }
  if (work.loads > 0) {
    if (!device.latencies.length) missing.push("latency");
    else {
      const [ns, level] = latency(device.latencies, work.set_bytes);
      kernel.latency = [times(ns, work.loads), level];
    }
  }
  const largest = (of, value) => Object.keys(of).reduce((most, name) => (most && value(most) >= value(name) ? most : name), "");
  const longest = largest(kernel, (name) => kernel[name][0][0]);
  let by = "", rate = 0;
  if (longest) {
    [parts[longest], by] = kernel[longest];
    rate = work.nbytes / parts[longest][0];
  }
  const last = longest === "latency" ? device.latencies.at(-1) : null;
  let remark = longest === "memory" && device.bandwidths.length === 1 ? "no_cache" : "";
  if (last && last[0] === "largest set" && work.set_bytes > last[2]) remark = "beyond";
  const all = Object.values(parts), ns = missing.length || !all.length ? null : all.reduce(plus);
  return { parts, ns, bound: largest(parts, (name) => parts[name][0]), by, gflop_s: work.flop_per_byte * rate, gb_s: rate, missing, remark };
}

const digits = (value, most = 3) => Math.max(0, most - 1 - Math.floor(Math.log10(value)));
const grouped = (value, places) => value.toLocaleString("en-US", { minimumFractionDigits: places, maximumFractionDigits: places });
const number = (value) => (value === 0 ? "0" : value >= 1e7 || value < 1e-3 ? exponent(value) : grouped(value, digits(value)));

/** A value as 1.23e+07, which report.units writes where a value cannot be read without an exponent. */
function exponent(value) {
  const [mantissa, power] = value.toExponential(2).split("e");
  return `${mantissa}e${power[0]}${power.slice(1).padStart(2, "0")}`;
}

function scale(ns) {
  return [[1e9, "s"], [1e6, "ms"], [1e3, "us"]].find(([factor]) => ns >= 0.9995 * factor) ?? [1, "ns"];
}

function timeText(ns) {
  const [factor, unit] = scale(ns);
  return `${number(ns / factor)} ${unit}`;
}

function spanText([, low, high]) {
  const [factor, unit] = scale(high);
  return `${number(low / factor)} to ${number(high / factor)} ${unit}`;
}

function bytesText(value) {
  const power = [4, 3, 2, 1].find((one) => value >= 1024 ** one) ?? 0;
  return `${Number((value / 1024 ** power).toFixed(power ? 1 : 0))} ${["B", "KiB", "MiB", "GiB", "TiB"][power]}`;
}

/** What takes most of a predicted time. */
function boundText({ bound, by }, names) {
  if (bound === "memory") return by;
  return (bound === "compute" || bound === "latency") && by ? `${names[bound]} (${by})` : names[bound];
}

function detailText(found, data, shortest) {
  if (!found.ns) {
    const needed = found.missing.map((name) => `suite ${data.hints[name][0]}, benchmark ${data.hints[name][1]}`);
    return `not measured, or by an older version: ${needed.join("; ")}`;
  }
  const parts = Object.entries(found.parts);
  const each = parts.map(([name, ns]) => `${data.names[name]} ${timeText(ns[0])}`).join(", ");
  const details = [spanText(found.ns), ...(parts.length > 1 ? [each] : [])];
  const reached = [[found.gflop_s, "GFLOP/s"], [found.gb_s, "GB/s"]].filter(([rate]) => rate);
  const rate = reached.length ? [reached.map(([value, unit]) => `${number(value)} ${unit}`).join(", ")] : [];
  const remark = found.remark ? [data.remarks[found.remark]] : [];
  const ratio = found.ns[0] > shortest ? [`${number(found.ns[0] / shortest)} times the shortest`] : [];
  return [...ratio, `bound by ${boundText(found, data.names)}`, ...details, ...rate, ...remark].join("; ");
}

/** Points of the roofs of all devices in the picture, as report/which_device.py places them. */
function roofs(data, work) {
  const { left, right, top, bottom, x: [first, last], y: [low, high] } = data.box;
  const x = (at) => left + (Math.min(Math.max(Math.log10(at), first), last) - first) / (last - first) * (right - left);
  const y = (rate) => bottom - (Math.max(Math.log10(rate), low) - low) / (high - low) * (bottom - top);
  return { x, lines: data.devices.map((device) => {
    const peak = device[work.product ? "product" : "vector"], found = bandwidth(device, work.set_bytes);
    if (!peak || typeof found === "string") return null;
    const rate = (at) => Math.min(peak[0], at * found[0][0]), ends = [10 ** first, 10 ** last], ridge = peak[0] / found[0][0];
    const corners = [ends[0], ...(ends[0] < ridge && ridge < ends[1] ? [ridge] : []), ends[1]];
    return { points: corners.map((at) => [x(at), y(rate(at))]), mark: work.flop_per_byte > 0 ? y(rate(work.flop_per_byte)) : null };
  }) };
}

function start(panel) {
  const data = JSON.parse(panel.dataset.model), part = (name) => document.getElementById(`which-${name}`);
  const sliders = [...panel.querySelectorAll("input[type=range]")], product = part("product"), select = part("kernel");
  let work = { ...data.kernels[0] }, title = part("title").textContent;
  const text = (field, value) => {
    if (field === "flop_per_byte") return `${number(value)} FLOP/B`;
    return field.endsWith("bytes") ? bytesText(value) : grouped(value, 0);
  };
  const element = (tag, kind, inner) => {
    const made = document.createElement(tag);
    made.className = kind;
    made.append(...[inner].flat());
    return made;
  };

  function showControls() {
    for (const slider of sliders) {
      const [low, , hasZero] = data.controls[slider.name], value = work[slider.name];
      slider.value = value > 0 ? Math.log2(value) : low - hasZero;
      showText(slider);
    }
    product.checked = work.product;
  }

  function showText(slider) {
    const shown = text(slider.name, work[slider.name]);
    slider.setAttribute("aria-valuetext", shown);
    slider.nextElementSibling.textContent = shown;
  }

  function show() {
    part("title").textContent = title;
    const found = data.devices.map((device, at) => ({ device, at, ...predict(device, work) }));
    const ends = found.filter((one) => one.ns).map((one) => one.ns[0]), longest = Math.max(...ends), shortest = Math.min(...ends);
    found.sort((a, b) => (a.ns?.[0] ?? Infinity) - (b.ns?.[0] ?? Infinity) || a.at - b.at);
    part("results").replaceChildren(...found.map((one) => {
      const item = element("li", "", [
        element("span", "name", [element("span", `swatch look${one.at % 8}`, []), one.device.name]),
        element("span", "time", one.ns ? timeText(one.ns[0]) : ""),
        element("span", "bar", one.ns ? Object.entries(one.parts).map(([name, ns]) => {
          const bar = element("span", `part-${name}`, []);
          bar.style.width = `${100 * ns[0] / longest}%`;
          return bar;
        }) : []),
        element("span", "muted", detailText(one, data, shortest)),
      ]);
      item.children[2].setAttribute("aria-hidden", "true");
      return item;
    }));
    draw();
  }

  function draw() {
    const { left, top, bottom } = data.box, { x, lines } = roofs(data, work), at = work.flop_per_byte > 0 ? x(work.flop_per_byte) : null;
    part("at").setAttribute("d", at === null ? "" : `M${at} ${top}V${bottom}`);
    const groups = [...part("chart").querySelectorAll("g")];
    groups.forEach((group, number) => {
      const line = lines[number], [roof, mark] = group.children;
      roof.setAttribute("points", line ? line.points.map((point) => point.join(",")).join(" ") : "");
      mark.setAttribute("cx", at ?? left);
      mark.setAttribute("cy", line?.mark ?? bottom);
      mark.setAttribute("visibility", line?.mark == null ? "hidden" : "visible");
    });
    let last = bottom + data.label_gap;
    const order = groups.map((_, number) => number).filter((number) => lines[number] && data.are_labelled);
    const end = (number) => lines[number].points.at(-1)[1];
    for (const group of groups) group.lastElementChild.setAttribute("visibility", "hidden");
    for (const number of order.sort((a, b) => end(b) - end(a))) {
      last = Math.min(end(number), last - data.label_gap);
      groups[number].lastElementChild.setAttribute("y", last + 4);
      groups[number].lastElementChild.setAttribute("visibility", "visible");
    }
  }

  panel.addEventListener("input", ({ target }) => {
    if (target === select) {
      work = { ...data.kernels[select.value] };
      title = select.selectedOptions[0].textContent;
      showControls();
    } else {
      title = "Your kernel";
      if (target === product) work.product = product.checked;
      else {
        const [low] = data.controls[target.name], place = Number(target.value);
        work[target.name] = place < low ? 0 : target.name === "flop_per_byte" ? 2 ** place : Math.round(2 ** place);
        showText(target);
      }
    }
    show();
  });
  part("controls").hidden = false;
}

const whichPanel = document.getElementById("which-panel");
if (whichPanel) start(whichPanel);
