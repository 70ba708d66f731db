// A recording as the page gets it (htmldata.go): columns of numbers, texts by their index in one list.
//
// A state is what lies between two changes: state 0 is before the first, and change s (an allocation, an end, another
// kind) leads from state s-1 to state s.
class Recording {
  constructor(d) {
    this.d = d;
    this.n = d.state.op.length; // states
    this.count = d.tensor.id.length;
    this.kinds = d.kinds;
    this.rank = []; // place of each kind in the stack, from below: what lives long comes first
    for (const name of Recording.order) this.rank[d.kinds.indexOf(name)] = this.rank.filter(x => x !== undefined).length;
    this.byRank = d.kinds.map((_, k) => k).sort((a, b) => this.rank[a] - this.rank[b]);
    this.readChanges();
    this.addUp();
  }

  text(i) { return this.d.text[i]; }

  // readChanges makes one line of all changes: which tensor, from which kind (-1: it was not there) to which (-1: it ends).
  readChanges() {
    const { born, died, kind } = this.d.tensor, change = this.d.change;
    this.who = new Int32Array(this.n).fill(-1);
    this.from = new Int8Array(this.n).fill(-1);
    this.to = new Int8Array(this.n).fill(-1);
    this.held = [];
    const last = Int8Array.from(kind);
    for (let t = 0; t < this.count; t++) {
      if (born[t] === 0) this.held.push(t);
      else this.who[born[t]] = t, this.to[born[t]] = kind[t];
    }
    for (let i = 0; i < change.length; i += 3) {
      const [t, s, k] = change.slice(i, i + 3);
      this.who[s] = t, this.from[s] = last[t], this.to[s] = k;
      last[t] = k;
    }
    for (let t = 0; t < this.count; t++) if (died[t] < this.n) this.who[died[t]] = t, this.from[died[t]] = last[t];
  }

  // addUp gives live bytes by kind in each state, and the peak.
  addUp() {
    const bytes = this.d.tensor.bytes;
    this.bytes = this.kinds.map(() => new Float64Array(this.n));
    for (const t of this.held) this.bytes[this.d.tensor.kind[t]][0] += bytes[t];
    for (let s = 1; s < this.n; s++) {
      for (const b of this.bytes) b[s] = b[s - 1];
      const t = this.who[s];
      if (this.from[s] >= 0) this.bytes[this.from[s]][s] -= bytes[t];
      if (this.to[s] >= 0) this.bytes[this.to[s]][s] += bytes[t];
    }
    this.live = this.sum(this.kinds.map(() => true));
    this.firstOp = this.n > 1 ? this.d.state.op[1] - 1 : 0; // operations are counted from the recording's first
    this.peakAt = 0;
    for (let s = 1; s < this.n; s++) if (this.live[s] > this.live[this.peakAt]) this.peakAt = s;
    this.peak = this.live[this.peakAt];
    this.arenaPeak = this.d.state.arena.reduce((a, b) => Math.max(a, b), 0);
  }

  // sum gives the live bytes of the kinds that are shown.
  sum(shown) {
    const all = new Float64Array(this.n);
    this.bytes.forEach((b, k) => { if (shown[k]) for (let s = 0; s < this.n; s++) all[s] += b[s]; });
    return all;
  }

  // kindAt is the kind of tensor t in state s.
  kindAt(t, s) {
    let k = this.d.tensor.kind[t];
    const c = this.d.change;
    for (let i = 0; i < c.length; i += 3) if (c[i] === t && c[i + 1] <= s) k = c[i + 2];
    return k;
  }

  alive(t, s) { return this.d.tensor.born[t] <= s && s < this.d.tensor.died[t]; }

  // axis gives where each state begins, by "op", "event" or "time", and behind the last one where it ends. The events of one
  // operation share its width.
  axis(by) {
    const x = new Float64Array(this.n + 1), { op, time } = this.d.state;
    if (by === "event") return x.map((_, s) => s);
    if (by === "time") {
      for (let s = 1; s < this.n; s++) x[s] = Math.max(x[s - 1], time[s]);
      x[this.n] = this.d.end;
      return x;
    }
    for (let s = 1; s < this.n;) {
      let e = s;
      while (e < this.n && op[e] === op[s]) e++;
      for (let i = s; i < e; i++) x[i] = op[s] - this.firstOp + (i - s) / (e - s);
      s = e;
    }
    x[this.n] = this.n > 1 ? op[this.n - 1] - this.firstOp + 1 : 1;
    return x;
  }

  // largest lists the tensors alive in state s, the largest first.
  largest(s) {
    const list = [], bytes = this.d.tensor.bytes;
    for (let t = 0; t < this.count; t++) if (this.alive(t, s)) list.push(t);
    return list.sort((a, b) => bytes[b] - bytes[a] || a - b);
  }

  // ran gives the operation that ran when state s began: its number, name and scope.
  ran(s) {
    const by = this.d.by;
    let lo = 0, hi = by.length;
    while (lo < hi) {
      const m = (lo + hi) >> 1;
      if (by[m][0] <= s) lo = m + 1; else hi = m;
    }
    return lo > 0 ? { op: by[lo - 1][1] - this.firstOp, name: this.text(by[lo - 1][2]), scope: this.text(by[lo - 1][3]) } : { op: 0, name: "", scope: "" };
  }

  // reasons says why t is held in state s, and for what else later.
  reasons(t, s) {
    const list = [], why = this.d.tensor.why[t];
    for (let i = 0; i < why.length; i += 2) {
      const [, who, what] = this.text(why[i + 1]).match(/^(saved by .*?: )?(.*)$/), later = why[i] > s, last = list[list.length - 1];
      if (who && last && last.who === who && last.later === later) last.text += "; " + what; // views of one buffer, read by one op
      else list.push({ who, text: (who || "") + what, later });
    }
    return list;
  }

  phaseAt(s) {
    let name = "";
    for (const [from, text] of this.d.phase) if (from <= s) name = this.text(text);
    return name;
  }
}

Recording.order = ["param", "optstate", "other", "input", "staging", "grad", "activation", "castcopy", "temporary", "scratch"];

// Stack is the tensors of one state as they lie on each other: kind on kind, within a kind in the order in which they
// became of it. Lists are linked, so that going on to the next state costs next to nothing.
class Stack {
  constructor(rec) {
    this.rec = rec;
    this.next = new Int32Array(rec.count).fill(-1);
    this.prev = new Int32Array(rec.count).fill(-1);
    this.head = new Int32Array(rec.kinds.length).fill(-1);
    this.tail = new Int32Array(rec.kinds.length).fill(-1);
    this.kind = new Int8Array(rec.count).fill(-1);
    this.since = new Int32Array(rec.count); // when each became of its kind
    this.at = 0;
    for (const t of rec.held) this.add(t, rec.d.tensor.kind[t], 0);
  }

  add(t, k, s) {
    this.prev[t] = this.tail[k], this.next[t] = -1;
    if (this.tail[k] >= 0) this.next[this.tail[k]] = t; else this.head[k] = t;
    this.tail[k] = t, this.kind[t] = k, this.since[t] = s;
  }

  remove(t) {
    const k = this.kind[t], p = this.prev[t], n = this.next[t];
    if (p >= 0) this.next[p] = n; else this.head[k] = n;
    if (n >= 0) this.prev[n] = p; else this.tail[k] = p;
    this.kind[t] = -1;
  }

  // to goes forward to state s.
  to(s) {
    const { who, from, to } = this.rec;
    while (this.at < s) {
      const i = ++this.at;
      if (from[i] >= 0) this.remove(who[i]);
      if (to[i] >= 0) this.add(who[i], to[i], i);
    }
    return this;
  }

  // find gives the tensor at that height, in bytes; -1: above the stack.
  find(height, shown) {
    for (const k of this.rec.byRank) {
      if (!shown[k]) continue;
      const all = this.rec.bytes[k][this.at];
      if (height >= all) { height -= all; continue; }
      for (let t = this.head[k]; t >= 0; t = this.next[t]) {
        height -= this.rec.d.tensor.bytes[t];
        if (height < 0) return t;
      }
    }
    return -1;
  }

  // offset is what lies below t, in bytes.
  offset(t, shown) {
    let y = 0;
    for (const k of this.rec.byRank) {
      if (k === this.kind[t]) break;
      if (shown[k]) y += this.rec.bytes[k][this.at];
    }
    for (let u = this.prev[t]; u >= 0; u = this.prev[u]) y += this.rec.d.tensor.bytes[u];
    return y;
  }
}

// band gives where tensor t lies in the stack, state by state: pairs of state and offset, the offset only where it changes.
function band(rec, t, shown) {
  const { born, died, bytes } = rec.d.tensor, stack = new Stack(rec).to(born[t]);
  const list = [], put = (s, y) => { if (!list.length || list[list.length - 1][1] !== y) list.push([s, y]); };
  const below = (k, since) => shown[k] && (rec.rank[k] < rec.rank[stack.kind[t]] || k === stack.kind[t] && since < stack.since[t]);
  let y = stack.offset(t, shown);
  put(born[t], shown[stack.kind[t]] ? y : -1);
  for (let s = born[t] + 1; s < died[t]; s++) {
    const u = rec.who[s];
    if (u === t) y = stack.to(s).offset(t, shown);
    else {
      if (rec.from[s] >= 0 && below(rec.from[s], stack.since[u])) y -= bytes[u];
      stack.to(s);
      if (rec.to[s] >= 0 && below(rec.to[s], s)) y += bytes[u];
    }
    put(s, shown[stack.kind[t]] ? y : -1);
  }
  return list;
}
