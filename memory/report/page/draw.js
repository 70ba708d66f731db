// What is drawn: the stack, the arena, their axes. A view says which part of the axis is shown, in how many pixels.

// hex reads "#rrggbb".
const hex = c => [1, 3, 5].map(i => parseInt(c.slice(i, i + 2), 16));

// shades are three variants of a colour, so that neighbours of one kind can be told apart, as the bytes of a picture.
function shades(c, dark) {
  const toward = dark ? 0 : 255;
  return [0, 0.14, 0.28].map(f => {
    const [r, g, b] = hex(c).map(v => Math.round(v + (toward - v) * f));
    return { css: `rgb(${r} ${g} ${b})`, pixel: (255 << 24 | b << 16 | g << 8 | r) >>> 0, edge: (255 << 24 | (b * 0.82) << 16 | (g * 0.82) << 8 | r * 0.82) >>> 0 };
  });
}

// Theme is the page's colours now.
class Theme {
  constructor(el, kinds) {
    const css = getComputedStyle(el), get = name => css.getPropertyValue(name).trim();
    this.dark = matchMedia("(prefers-color-scheme: dark)").matches;
    for (const name of ["ink", "soft", "line", "paper", "panel", "hole", "accent", "warn"]) this[name] = get("--" + name);
    this.kind = kinds.map(k => shades(get("--" + k), this.dark));
    this.phase = { forward: get("--forward"), backward: get("--backward"), recompute: get("--recompute"), step: get("--step") };
    this.font = `12px ${css.fontFamily}`;
  }

  shade(kind, t) { return this.kind[kind][t % 3]; }
}

// columns calls f for each pixel column with the state to show there: of those that fall into it, the one with the most bytes.
function columns(x, from, to, width, weight, f) {
  let s = stateAt(x, from);
  for (let c = 0; c < width; c++) {
    const end = from + (to - from) * (c + 1) / width;
    let best = s;
    while (s + 2 < x.length && x[s + 1] < end) if (weight[++s] > weight[best]) best = s;
    f(c, best);
  }
}

// stateAt is the state shown at a place of the axis.
function stateAt(x, at) {
  let lo = 0, hi = x.length - 1;
  while (lo + 1 < hi) {
    const m = (lo + hi) >> 1;
    if (x[m] <= at) lo = m; else hi = m;
  }
  return lo;
}

// stackPicture draws the stack pixel by pixel: a column for each state, a run of rows for each tensor.
function stackPicture(rec, view, shown, theme, width, height) {
  const canvas = new OffscreenCanvas(width, height), ctx = canvas.getContext("2d");
  const image = ctx.createImageData(width, height), pixels = new Uint32Array(image.data.buffer);
  const stack = new Stack(rec), bytes = rec.d.tensor.bytes, scale = height / view.top;
  columns(view.x, view.from, view.to, width, view.live, (c, s) => {
    stack.to(s);
    let y = 0, row = height; // bytes below, first row that is drawn
    for (const k of rec.byRank) {
      if (!shown[k]) continue;
      for (let t = stack.head[k]; t >= 0; t = stack.next[t]) {
        y += bytes[t];
        const end = Math.max(0, Math.round(height - y * scale));
        if (end >= row) continue;
        const shade = theme.shade(k, t);
        for (let r = end; r < row; r++) pixels[r * width + c] = shade.pixel;
        if (row - end > 3) pixels[end * width + c] = shade.edge;
        row = end;
      }
    }
  });
  ctx.putImageData(image, 0, 0);
  return canvas;
}

// mapPicture draws the arena: what was where, and white where nothing was below the highest buffer.
function mapPicture(rec, view, shown, theme, width, height) {
  const canvas = new OffscreenCanvas(width, height), ctx = canvas.getContext("2d");
  const { addr, bytes, born, died } = rec.d.tensor, scale = height / view.mapTop;
  const px = at => (at - view.from) / (view.to - view.from) * width;
  ctx.fillStyle = theme.hole;
  columns(view.x, view.from, view.to, width, rec.d.state.arena, (c, s) => {
    const h = rec.d.state.arena[s] * scale;
    ctx.fillRect(c, height - h, 1, h);
  });
  const piece = (t, s, e, k) => {
    const x0 = px(view.x[s]), x1 = px(view.x[e]);
    if (!shown[k] || x1 < 0 || x0 > width) return;
    const y0 = Math.round(height - addr[t] * scale), y1 = Math.round(height - (addr[t] + bytes[t]) * scale);
    ctx.fillStyle = theme.shade(k, t).css;
    ctx.fillRect(x0, y1, Math.max(x1 - x0, 0.5), Math.max(y0 - y1, 0.5));
  };
  const start = Int32Array.from(born), kind = Int8Array.from(rec.d.tensor.kind), change = rec.d.change;
  for (let i = 0; i < change.length; i += 3) {
    const [t, s, k] = change.slice(i, i + 3);
    piece(t, start[t], s, kind[t]);
    start[t] = s, kind[t] = k;
  }
  for (let t = 0; t < rec.count; t++) piece(t, start[t], died[t], kind[t]);
  return canvas;
}

// ticks gives about n round values from lo to hi.
function ticks(lo, hi, n, base = 10) {
  const raw = (hi - lo) / n, unit = base ** Math.floor(Math.log(raw) / Math.log(base));
  const step = [1, 2, 5, 10].map(f => f * unit).find(v => v >= raw) || raw;
  const list = [];
  for (let v = Math.ceil(lo / step) * step; v <= hi; v += step) list.push(v);
  return list;
}

// byteTicks gives round numbers of KiB, MiB or GiB.
function byteTicks(top) {
  const unit = 1024 ** Math.min(4, Math.max(0, Math.floor(Math.log(top / 2) / Math.log(1024))));
  return ticks(0, top / unit, 5).map(v => v * unit);
}

function size(n) {
  if (n < 1024) return n + " B";
  let unit = -1;
  do n /= 1024, unit++; while (n >= 1023.95);
  return n.toFixed(1) + " " + "KMGTPE"[unit] + "iB";
}

const number = n => n.toLocaleString("en-US");
