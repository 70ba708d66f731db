// A timeline on the page: figures, legend, the stack, the arena, what is largest at the peak.
const pad = { left: 74, right: 18, top: 34, bottom: 26 };

// el makes an element: el("p.note", "text", child, ...).
function el(name, ...inside) {
  const [tag, ...classes] = name.split("."), e = document.createElement(tag);
  e.className = classes.join(" ");
  e.append(...inside);
  return e;
}

// breaks lets a path be broken after its parts.
function breaks(path) {
  const span = el("span");
  path.split(/(?<=[/_.])/).forEach((part, i) => span.append(...(i ? [document.createElement("wbr"), part] : [part])));
  return span;
}

class Timeline {
  constructor(root, d) {
    this.root = root, this.rec = new Recording(d), this.shown = d.kinds.map(() => true);
    this.by = "op", this.pinned = -1, this.over = -1, this.at = this.rec.peakAt;
    this.build();
    this.setAxis("op");
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
    new ResizeObserver(() => this.draw()).observe(this.stack.box);
  }

  build() {
    const r = this.rec;
    this.root.append(this.figures(), this.controls());
    this.stack = this.plot("stack", 380);
    this.root.append(el("p.caption", "The arena: addresses from below, over the same axis. White is memory that is free but lies below a buffer: fragmentation."));
    this.map = this.plot("map", 240);
    this.tip = el("div.tip");
    this.tip.hidden = true;
    this.root.append(this.table(), this.tip);
    Object.assign(this.root.dataset, { peak: r.peak, arena: r.arenaPeak, states: r.n, tensors: r.count });
  }

  // figures are what one wants to know first.
  figures() {
    const r = this.rec, d = r.d, box = el("div.figures");
    const put = (name, value, note) => box.append(el("div.figure", el("span.name", name), el("strong", value), el("span.note", note)));
    put("peak of live bytes", size(r.peak), number(r.peak) + " bytes");
    put("arena at its highest", size(r.arenaPeak), r.peak ? (r.arenaPeak / r.peak).toFixed(3) + " × the peak" : "");
    if (d.limit) put("limit of the arena", size(d.limit), (100 * r.arenaPeak / d.limit).toFixed(1) + " % used");
    if (d.predicted) put("peak foretold", size(d.predicted), d.predicted === r.peak ? "exact" : `off by ${number(Math.abs(d.predicted - r.peak))} bytes`);
    put("buffers", number(r.count), `${number(r.largest(r.peakAt).length)} at the peak`);
    put("operations", number(r.n > 1 ? r.d.state.op[r.n - 1] - r.firstOp : 0), `${number(d.events)} events` + (d.dropped ? `, ${number(d.dropped)} older ones dropped` : ""));
    return box;
  }

  controls() {
    const bar = el("div.controls"), legend = el("div.legend");
    this.chips = [];
    for (const k of [...this.rec.byRank].reverse()) {
      if (!this.rec.bytes[k].some(b => b > 0)) continue;
      const dot = el("i"), bytes = el("b"), chip = el("button.chip", dot, this.rec.kinds[k], bytes);
      dot.style.background = `var(--${this.rec.kinds[k]})`;
      chip.title = "show or hide";
      chip.onclick = () => { this.shown[k] = !this.shown[k]; chip.classList.toggle("off", !this.shown[k]); this.draw(); };
      this.chips.push([k, bytes]);
      legend.append(chip);
    }
    const axes = el("div.group", el("span", "over"));
    this.axisButtons = {};
    for (const by of this.rec.d.state.time ? ["op", "event", "time"] : ["op", "event"]) {
      const b = this.axisButtons[by] = el("button", by + (by === "time" ? "" : "s"));
      b.onclick = () => this.setAxis(by);
      axes.append(b);
    }
    const zoom = el("div.group", el("span", "zoom"));
    for (const [name, f] of [["in", () => this.zoom(0.5)], ["out", () => this.zoom(2)], ["peak", () => this.zoomTo(this.rec.peakAt)], ["all", () => this.range(0, this.end)]]) {
      const b = el("button", name);
      b.onclick = f;
      zoom.append(b);
    }
    bar.append(legend, el("div.tools", this.where = el("span.where"), axes, zoom));
    return bar;
  }

  // plot makes a canvas with another above it, for what follows the mouse.
  plot(name, height) {
    const box = el("div.plot." + name), p = { box, height, name, back: el("canvas"), front: el("canvas") };
    box.style.height = height + "px";
    box.append(p.back, p.front);
    this.root.append(box);
    box.addEventListener("pointermove", e => this.move(p, e));
    box.addEventListener("pointerleave", () => { if (!this.drag) this.leave(); });
    box.addEventListener("pointerdown", e => { this.drag = { p, x: this.place(p, e).x, moved: false }; box.setPointerCapture(e.pointerId); });
    box.addEventListener("pointerup", e => this.drop(p, e));
    box.addEventListener("dblclick", () => this.range(0, this.end));
    box.addEventListener("wheel", e => this.wheel(p, e), { passive: false });
    return p;
  }

  setAxis(by) {
    const keep = this.x && [stateAt(this.x, this.from), stateAt(this.x, this.to)], whole = !this.x || this.from <= 0 && this.to >= this.end;
    this.by = by, this.x = this.rec.axis(by), this.end = this.x[this.rec.n];
    for (const [name, b] of Object.entries(this.axisButtons)) b.classList.toggle("on", name === by);
    this.range(...(whole ? [0, this.end] : [this.x[keep[0]], this.x[keep[1] + 1]]));
  }

  range(from, to) {
    const least = this.end / this.rec.n / 4, width = Math.min(this.end, Math.max(to - from, least));
    this.from = Math.max(0, Math.min(from, this.end - width)), this.to = this.from + width;
    this.draw();
  }

  zoom(f, around = (this.from + this.to) / 2) { this.range(around + (this.from - around) * f, around + (this.to - around) * f); }

  // zoomTo shows a state and what is around it.
  zoomTo(s) {
    const w = Math.max(this.end / 40, (this.x[s + 1] - this.x[s]) * 20);
    this.range(this.x[s] - w / 2, this.x[s] + w / 2);
  }

  // view is what is drawn now; of the stack, the highest thing that is shown gives the scale.
  view() {
    const live = this.rec.sum(this.shown), d = this.rec.d, all = this.shown.every(x => x);
    const reach = all ? Math.max(this.rec.arenaPeak, d.predicted) : live.reduce((a, b) => Math.max(a, b), 1);
    const near = all && d.limit && d.limit < 1.5 * reach;
    return { x: this.x, from: this.from, to: this.to, live, top: (near ? Math.max(reach, d.limit) : reach) * 1.07 || 1, mapTop: this.rec.arenaPeak * 1.04 || 1, all, near };
  }

  draw() {
    this.theme = new Theme(this.root, this.rec.kinds);
    this.v = this.view();
    for (const p of [this.stack, this.map]) this.paint(p);
    this.follow();
  }

  // paint draws what does not follow the mouse.
  paint(p) {
    const dpr = Math.min(2, devicePixelRatio || 1), w = p.box.clientWidth, h = p.height;
    if (w < pad.left + pad.right + 10) return;
    p.w = w - pad.left - pad.right, p.top = p === this.stack ? pad.top : 8, p.h = h - p.top - pad.bottom;
    p.scale = p === this.stack ? this.v.top : this.v.mapTop;
    for (const c of [p.back, p.front]) c.width = w * dpr, c.height = h * dpr;
    const ctx = p.ctx = p.back.getContext("2d");
    ctx.scale(dpr, dpr);
    if (p === this.map) ctx.fillStyle = this.theme.paper, ctx.fillRect(pad.left, p.top, p.w, p.h);
    this.phases(p, ctx);
    this.grid(p, ctx);
    const picture = p === this.stack ? stackPicture : mapPicture;
    ctx.drawImage(picture(this.rec, this.v, this.shown, this.theme, Math.round(p.w * dpr), Math.round(p.h * dpr)), pad.left, p.top, p.w, p.h);
    if (p === this.stack) this.lines(p, ctx);
    p.box.dataset.plot = JSON.stringify({ left: pad.left, top: p.top, width: p.w, height: p.h, from: this.from, to: this.to, bytes: p.scale });
  }

  px(at) { return pad.left + (at - this.from) / (this.to - this.from) * this.stack.w; }
  py(p, bytes) { return p.top + p.h * (1 - bytes / p.scale); }

  // phases shades the ground, and names what is above it: a backward pass with what it recomputes is one name; where a step
  // has several micro-batches they are numbered.
  phases(p, ctx) {
    const list = this.rec.d.phase, t = this.theme, groups = [], left = pad.left, right = pad.left + p.w;
    const edge = s => Math.min(right, Math.max(left, this.px(this.x[s])));
    list.forEach(([s, text], i) => {
      const name = this.rec.text(text), e = i + 1 < list.length ? list[i + 1][0] : this.rec.n;
      if (!t.phase[name] || e <= s) return;
      const last = groups[groups.length - 1], inner = name === "recompute" || name === "backward";
      if (last && last.e === s && inner && last.inner) last.e = e, last.again = true;
      else groups.push({ s, e, name: inner ? "backward" : name, inner });
      const x0 = edge(s), x1 = edge(e);
      if (x1 <= x0) return;
      ctx.fillStyle = t.phase[inner ? "backward" : name];
      ctx.globalAlpha = 0.1;
      ctx.fillRect(x0, p.top, x1 - x0, p.h);
      ctx.globalAlpha = 1;
      ctx.fillStyle = t.phase[name];
      if (p === this.stack) ctx.fillRect(x0, p.top - 6, Math.max(0.5, x1 - x0 - (x1 - x0 > 3 ? 1 : 0)), 4);
    });
    if (p !== this.stack) return;
    const many = groups.filter(g => g.name === "forward").length > 1;
    let batch = 0;
    ctx.font = t.font, ctx.fillStyle = t.soft, ctx.textAlign = "center";
    for (const g of groups) {
      if (g.name === "forward") batch++;
      const label = g.name + (g.again ? ", recompute" : "") + (many && g.name !== "step" ? " " + batch : ""), x0 = edge(g.s), x1 = edge(g.e);
      if (ctx.measureText(label).width + 8 < x1 - x0) ctx.fillText(label, (x0 + x1) / 2, p.top - 13);
    }
  }

  grid(p, ctx) {
    const t = this.theme;
    ctx.font = t.font, ctx.fillStyle = t.soft, ctx.strokeStyle = t.line, ctx.lineWidth = 1;
    ctx.textAlign = "right", ctx.textBaseline = "middle";
    for (const b of byteTicks(p.scale)) {
      const y = Math.round(this.py(p, b)) + 0.5;
      ctx.beginPath(), ctx.moveTo(pad.left, y), ctx.lineTo(pad.left + p.w, y), ctx.stroke();
      ctx.fillText(b ? size(b) : "0", pad.left - 8, y);
    }
    ctx.textAlign = "center", ctx.textBaseline = "alphabetic";
    const every = Math.max(3, Math.round(p.w / 120));
    for (const v of ticks(this.from, this.to, every)) {
      const x = this.px(v);
      ctx.beginPath(), ctx.moveTo(x, p.top + p.h), ctx.lineTo(x, p.top + p.h + 4), ctx.stroke();
      ctx.fillText(this.axisText(v), x, p.top + p.h + 17);
    }
  }

  axisText(v) {
    if (this.by !== "time") return number(Math.round(v * 100) / 100);
    return this.to - this.from > 3000 ? (v / 1000).toLocaleString("en-US", { maximumFractionDigits: 2 }) + " ms" : number(Math.round(v * 10) / 10) + " µs";
  }

  // lines are the end of the arena, the limit, what was foretold, and the peak.
  lines(p, ctx) {
    const t = this.theme, d = this.rec.d, right = pad.left + p.w;
    ctx.save();
    ctx.beginPath(), ctx.rect(pad.left, 0, p.w, p.top + p.h), ctx.clip();
    ctx.font = t.font, ctx.textAlign = "right";
    const rule = (bytes, text, color, dash) => {
      const y = this.py(p, bytes);
      ctx.strokeStyle = color, ctx.setLineDash(dash), ctx.lineWidth = 1.2;
      ctx.beginPath(), ctx.moveTo(pad.left, y), ctx.lineTo(right, y), ctx.stroke();
      ctx.setLineDash([]);
      return { y, text, color };
    };
    if (this.v.all) {
      ctx.strokeStyle = t.ink, ctx.globalAlpha = 0.55, ctx.lineWidth = 1;
      ctx.beginPath();
      let last = -1;
      columns(this.x, this.from, this.to, Math.round(p.w), d.state.arena, (c, s) => {
        const y = this.py(p, d.state.arena[s]);
        if (last >= 0) ctx.lineTo(pad.left + c, last);
        ctx.lineTo(pad.left + c, y);
        last = y;
      });
      ctx.stroke(), ctx.globalAlpha = 1;
    }
    const labels = [], ends = stateAt(this.x, this.to - 0.03 * (this.to - this.from));
    if (this.v.all && d.state.arena[ends] > 1.02 * this.v.live[ends]) labels.push({ y: this.py(p, d.state.arena[ends]), text: "end of the arena", color: t.soft });
    if (this.v.near) labels.push(rule(d.limit, "limit " + size(d.limit), t.warn, []));
    if (this.v.all && d.predicted) labels.push(rule(d.predicted, d.predicted === this.rec.peak ? "peak, as foretold " + size(d.predicted) : "foretold " + size(d.predicted), t.accent, [6, 4]));
    if (this.v.all && d.predicted !== this.rec.peak) labels.push(rule(this.rec.peak, "peak " + size(this.rec.peak) + ": no placement needs less", t.ink, [2, 3]));
    let below = -1;
    for (const l of labels.sort((a, b) => a.y - b.y)) {
      const y = Math.max(l.y - 5, below + 15);
      ctx.lineWidth = 3.5, ctx.strokeStyle = t.panel, ctx.lineJoin = "round", ctx.fillStyle = l.color;
      ctx.strokeText(l.text, right - 6, y), ctx.fillText(l.text, right - 6, y);
      below = y;
    }
    const s = this.rec.peakAt, x = this.px((this.x[s] + this.x[s + 1]) / 2), y = this.py(p, this.v.live[s]);
    ctx.beginPath(), ctx.arc(x, y, 4, 0, 7), ctx.fillStyle = t.panel, ctx.fill();
    ctx.lineWidth = 2, ctx.strokeStyle = t.ink, ctx.stroke();
    ctx.restore();
  }

  // place gives where an event is: on the axis and in bytes.
  place(p, e) {
    const r = p.box.getBoundingClientRect(), x = e.clientX - r.left, y = e.clientY - r.top;
    return { x: this.from + (x - pad.left) / p.w * (this.to - this.from), bytes: (1 - (y - p.top) / p.h) * p.scale, inside: x >= pad.left && x <= pad.left + p.w && y >= p.top && y <= p.top + p.h };
  }

  move(p, e) {
    const at = this.place(p, e);
    if (this.drag) {
      this.drag.to = at.x;
      this.drag.moved = this.drag.moved || Math.abs(this.px(at.x) - this.px(this.drag.x)) > 4;
      if (this.drag.moved) this.tip.hidden = true;
      return this.follow();
    }
    if (!at.inside) return this.leave();
    this.at = stateAt(this.x, at.x);
    this.over = p === this.stack ? new Stack(this.rec).to(this.at).find(at.bytes, this.shown) : this.owner(at.bytes);
    this.hovering = p;
    this.describe(p, at.bytes, e);
    this.follow();
  }

  // owner is who lies at an address in the state under the mouse.
  owner(a) {
    const { addr, bytes } = this.rec.d.tensor;
    for (let t = 0; t < this.rec.count; t++) if (addr[t] <= a && a < addr[t] + bytes[t] && this.rec.alive(t, this.at) && this.shown[this.rec.kindAt(t, this.at)]) return t;
    return -1;
  }

  leave() {
    this.over = -1, this.at = this.rec.peakAt, this.hovering = null, this.tip.hidden = true;
    this.follow();
  }

  drop(p, e) {
    const g = this.drag;
    this.drag = null;
    if (g && g.moved) this.range(Math.min(g.x, g.to), Math.max(g.x, g.to));
    else if (g) {
      this.move(p, e);
      this.pinned = this.over === this.pinned ? -1 : this.over;
      this.follow();
    }
  }

  // wheel zooms with ctrl (and on touchpads, where pinching says ctrl), and moves sideways; otherwise the page scrolls.
  wheel(p, e) {
    if (e.ctrlKey || e.metaKey) {
      e.preventDefault();
      this.zoom(Math.exp(e.deltaY / 250), this.place(p, e).x);
    } else if (Math.abs(e.deltaX) > Math.abs(e.deltaY) && this.to - this.from < this.end) {
      e.preventDefault();
      const d = e.deltaX / p.w * (this.to - this.from);
      this.range(this.from + d, this.to + d);
    }
  }

  // follow draws what follows the mouse: the state, the tensor in both pictures, the range that is being chosen.
  follow() {
    if (!this.stack.w || !this.map.w) return;
    const s = this.at, d = this.rec.d, dpr = this.stack.back.width / this.stack.box.clientWidth;
    for (const [k, b] of this.chips) b.textContent = size(this.rec.bytes[k][s]);
    const ran = this.rec.ran(s);
    this.where.textContent = `${this.hovering ? "" : "at the peak: "}${size(this.rec.live[s])} live, arena ${size(d.state.arena[s])}, op ${number(ran.op)}${ran.name ? " " + ran.name : ""}`;
    for (const p of [this.stack, this.map]) {
      const ctx = p.front.getContext("2d");
      ctx.setTransform(dpr, 0, 0, dpr, 0, 0);
      ctx.clearRect(0, 0, p.box.clientWidth, p.height);
      ctx.beginPath(), ctx.save(), ctx.rect(pad.left, p.top - 6, p.w, p.h + 6), ctx.clip();
      if (this.hovering) {
        const x = this.px((this.x[s] + this.x[s + 1]) / 2);
        ctx.strokeStyle = this.theme.soft, ctx.lineWidth = 1;
        ctx.beginPath(), ctx.moveTo(x, p.top), ctx.lineTo(x, p.top + p.h), ctx.stroke();
      }
      for (const t of new Set([this.pinned, this.over])) if (t >= 0) p === this.stack ? this.outline(ctx, t) : this.frame(ctx, t);
      if (this.drag && this.drag.moved) {
        const x0 = this.px(this.drag.x), x1 = this.px(this.drag.to);
        ctx.fillStyle = this.theme.accent, ctx.globalAlpha = 0.18;
        ctx.fillRect(Math.min(x0, x1), p.top, Math.abs(x1 - x0), p.h);
        ctx.globalAlpha = 1;
      }
      ctx.restore();
    }
    this.rows.forEach((row, t) => row.classList.toggle("on", t === this.over || t === this.pinned));
  }

  mark(ctx) {
    ctx.lineJoin = "round";
    for (const [color, width] of [[this.theme.panel, 4], [this.theme.ink, 1.8]]) ctx.strokeStyle = color, ctx.lineWidth = width, ctx.stroke();
  }

  // outline marks a tensor in the stack, over its whole life.
  outline(ctx, t) {
    const p = this.stack, list = band(this.rec, t, this.shown), bytes = this.rec.d.tensor.bytes[t];
    ctx.beginPath();
    const upper = [];
    let open = false;
    const close = () => {
      if (!open) return;
      for (const [x, y] of upper.reverse()) ctx.lineTo(x, y);
      ctx.closePath();
      upper.length = 0, open = false;
    };
    list.forEach(([s, y], i) => {
      if (y < 0) return close();
      const x0 = this.px(this.x[s]), x1 = this.px(this.x[i + 1 < list.length ? list[i + 1][0] : this.rec.d.tensor.died[t]]);
      const lo = this.py(p, y), hi = this.py(p, y + bytes);
      open ? ctx.lineTo(x0, lo) : ctx.moveTo(x0, lo);
      ctx.lineTo(x1, lo);
      upper.push([x0, hi], [x1, hi]);
      open = true;
    });
    close();
    this.mark(ctx);
  }

  // frame marks a tensor in the arena.
  frame(ctx, t) {
    const p = this.map, { addr, bytes, born, died } = this.rec.d.tensor;
    const x0 = this.px(this.x[born[t]]), x1 = this.px(this.x[died[t]]), y0 = this.py(p, addr[t]), y1 = this.py(p, addr[t] + bytes[t]);
    ctx.beginPath(), ctx.rect(x0, y1, Math.max(1, x1 - x0), Math.max(1, y0 - y1));
    this.mark(ctx);
  }

  // describe fills and places the box beside the mouse.
  describe(p, bytes, e) {
    const t = this.over, tip = this.tip;
    if (t < 0) {
      const hole = p === this.map && bytes < this.rec.d.state.arena[this.at];
      tip.hidden = !hole;
      if (!hole) return;
      tip.replaceChildren(el("div.title", "free memory"), el("div.scope", `a hole below the end of the arena: ${size(this.rec.d.state.arena[this.at] - this.rec.live[this.at])} in all`));
    } else {
      tip.replaceChildren(...this.facts(t));
    }
    tip.dataset.tensor = t < 0 ? "" : this.rec.d.tensor.id[t];
    tip.hidden = false;
    const w = tip.offsetWidth, h = tip.offsetHeight, x = e.clientX + 18, y = e.clientY + 18;
    tip.style.left = Math.max(8, x + w > innerWidth - 8 ? e.clientX - w - 18 : x) + "px";
    tip.style.top = Math.max(8, Math.min(y, innerHeight - h - 8)) + "px";
  }

  facts(t) {
    const r = this.rec, d = r.d.tensor, k = r.kindAt(t, this.at), dot = el("i");
    dot.style.background = `var(--${r.kinds[k]})`;
    const list = el("dl"), put = (name, ...value) => list.append(el("dt", name), el("dd", ...value));
    put("bytes", number(d.bytes[t]), el("span.note", " " + size(d.bytes[t])));
    const { dtype, shape } = this.spec(t);
    if (dtype) put("tensor", `${dtype} ${shape}`);
    put("kind", dot, " " + r.kinds[k]);
    const why = r.reasons(t, this.at);
    put("alive because", ...why.filter(w => !w.later).map(w => el("div", breaks(w.text))));
    if (why.some(w => w.later)) put("later", ...why.filter(w => w.later).map(w => el("div.note", breaks(w.text))));
    put("born", breaks(this.moment(d.born[t])));
    put("dies", breaks(this.moment(d.died[t])));
    put("address", number(d.addr[t]));
    return [el("div.title", r.text(d.op[t]) || "no op"), el("div.scope", breaks(r.text(d.scope[t]) || "no scope")), list];
  }

  spec(t) {
    const [, dtype, shape] = this.rec.text(this.rec.d.tensor.spec[t]).match(/^([^\[]*)(.*)$/);
    return { dtype, shape: shape.replace(/^\[|\]$/g, "").trim().split(" ").join(" × ") || (dtype ? "scalar" : "") };
  }

  // moment says when state s began.
  moment(s) {
    if (s <= 0) return "before the recording";
    if (s >= this.rec.n) return "after the recording";
    const ran = this.rec.ran(s), phase = this.rec.phaseAt(s);
    return `op ${number(ran.op)}` + (ran.name ? `, ${ran.name}` : "") + (ran.scope ? ` in ${ran.scope}` : "") + (phase ? `; ${phase}` : "");
  }

  // ends is the cell that says when t dies.
  ends(t) {
    const s = this.rec.d.tensor.died[t], ran = this.rec.ran(s);
    if (s >= this.rec.n) return el("td.dies", "lives on");
    const cell = el("td.dies", `op ${number(ran.op)}`, el("div", el("span.op", breaks(ran.name)), " " + this.rec.phaseAt(s)));
    cell.title = this.moment(s);
    return cell;
  }

  // table lists the largest tensors at the peak.
  table() {
    const r = this.rec, all = r.largest(r.peakAt), body = el("tbody"), few = 20;
    this.rows = new Map();
    const fill = list => {
      for (const t of list) {
        const d = r.d.tensor, k = r.kindAt(t, r.peakAt), bar = el("span.bar"), dot = el("i"), { dtype, shape } = this.spec(t);
        bar.style.width = 100 * d.bytes[t] / d.bytes[all[0]] + "%", bar.style.background = dot.style.background = `var(--${r.kinds[k]})`;
        const row = el("tr", el("td.bytes", size(d.bytes[t])), el("td.share", el("div", bar), (100 * d.bytes[t] / r.peak).toFixed(1) + " %"), el("td.kind", dot, r.kinds[k]),
          el("td.spec", el("span", dtype), " " + shape), el("td", el("span.op", breaks(r.text(d.op[t]))), " ", breaks(r.text(d.scope[t]))), el("td.why", ...r.reasons(t, r.peakAt).filter(w => !w.later).map(w => el("div", breaks(w.text)))),
          this.ends(t));
        row.onmouseenter = () => { this.over = t; this.follow(); };
        row.onmouseleave = () => { this.over = -1; this.follow(); };
        row.onclick = () => { this.pinned = this.pinned === t ? -1 : t; this.follow(); };
        this.rows.set(t, row);
        body.append(row);
      }
    };
    fill(all.slice(0, few));
    const head = el("tr", ...["bytes", "of the peak", "kind", "tensor", "asked for by", "alive because", "dies"].map(h => el("th", h)));
    const box = el("div.largest", el("h3", "The largest at the peak"), el("div.scroll", el("table", el("thead", head), body)));
    if (all.length > few) {
      const more = el("button.more", `all ${number(all.length)}`);
      more.onclick = () => { fill(all.slice(few)); more.remove(); this.follow(); };
      box.append(more);
    }
    return box;
  }
}

const timelines = [...document.querySelectorAll("div.timeline")].map(root => new Timeline(root, JSON.parse(document.getElementById(root.dataset.of).textContent)));
document.documentElement.dataset.ready = performance.now().toFixed(0); // milliseconds since the page was asked for
