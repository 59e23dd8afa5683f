// One QP pair of the ladder: two ends, packets between them, a bar for each message.

const HEAD = 46;          // height of the ends' names
const MOST_ARROWS = 1500; // more packets in a window become densities
const BAR = 5, BARS = 4;

class Lane {
	constructor(g, pair, left, width, height) {
		Object.assign(this, { g, pair, left, width, height });
		this.a = left + 40;
		this.b = left + width - 40;
	}

	y(t) { return HEAD + (t - S.t0) / (S.t1 - S.t0) * (this.height - HEAD); }

	place(packet) { return ladder.rows ? rowY(packet, this.height) : this.y(P.time[packet]); }

	draw() {
		const [from, to] = pairBounds(this.pair, S.t0, S.t1);
		this.lines();
		this.bars();
		this.events();
		if (to - from > MOST_ARROWS) this.densities(from, to);
		else this.arrows(from, to);
		this.ends();
	}

	lines() {
		const { g } = this;
		g.strokeStyle = palette.strong;
		g.lineWidth = 1.5;
		for (const x of [this.a, this.b]) {
			g.beginPath();
			g.moveTo(x, HEAD);
			g.lineTo(x, this.height);
			g.stroke();
		}
	}

	ends() {
		const { g } = this, pair = META.pairs[this.pair];
		g.fillStyle = palette.surface;
		g.fillRect(this.left, 0, this.width, HEAD - 1);
		g.fillStyle = palette.line;
		g.fillRect(this.left, HEAD - 1, this.width, 1);
		g.textBaseline = "alphabetic";
		for (const [end, x, align] of [[pair.a, this.left + 12, "left"], [pair.b, this.left + this.width - 12, "right"]]) {
			g.textAlign = align;
			g.font = `600 12.5px ${palette.sans}`;
			g.fillStyle = palette.text;
			g.fillText(end.qp === null ? "QP unknown" : `QP ${hex(end.qp)}`, x, 19);
			g.font = `11.5px ${palette.sans}`;
			g.fillStyle = palette.muted;
			g.fillText(fitted(g, end.address, this.width / 2 - 30), x, 36);
		}
		g.textAlign = "center";
		g.font = `600 11.5px ${palette.sans}`;
		g.fillText(pair.class, this.left + this.width / 2, 19);
	}

	// Bars of A's messages are left of its line, B's right of it. Where many overlap they share the
	// last slot.
	bars() {
		const from = V.messageStarts[this.pair], to = V.messageStarts[this.pair + 1];
		let at = from, high = to;
		while (at < high) {
			const mid = (at + high) >>> 1;
			if (V.latest[mid] < S.t0) at = mid + 1;
			else high = mid;
		}
		const used = [new Array(BARS).fill(-1), new Array(BARS).fill(-1)];
		if (LOG) this.workBars(used);
		for (; at < to; at++) {
			const m = V.messagesByPair[at], begin = P.time[M.first[m]];
			if (begin > S.t1) break;
			if (messageEnd(m) >= S.t0 && !(LOG && M.work[m] !== NONE)) this.bar(m, used[backwards(M.first[m]) ? 1 : 0]);
		}
	}

	bar(m, used) {
		const { g } = this, end = messageEnd(m), answer = M.answer[m] === NONE ? M.last[m] : M.answer[m];
		const y0 = Math.max(HEAD, this.place(M.first[m])), y1 = Math.max(y0 + 3, Math.min(this.height, end === Infinity ? this.height : this.place(answer)));
		const x = this.slot(used, y0, y1, backwards(M.first[m]));
		if (x === null) return;
		g.fillStyle = M.status[m] >= 3 ? palette.nak : colourOf(M.first[m]);
		g.globalAlpha = end === Infinity ? 0.35 : 0.85;
		g.fillRect(x, y0, BAR, y1 - y0);
		g.globalAlpha = 1;
		if (S.selected >= 0 && P.message[S.selected] === m) this.frame(x, y0, y1);
	}

	// The slot of a bar from y0 to y1, or null if other bars cover it.
	slot(used, y0, y1, right) {
		let k = used.findIndex((y) => y < y0);
		if (k < 0) k = BARS - 1;
		if (y1 <= used[k] + 0.5) return null;
		used[k] = y1;
		return right ? this.b + 7 + k * (BAR + 2) : this.a - 7 - BAR - k * (BAR + 2);
	}

	frame(x, y0, y1) {
		this.g.strokeStyle = palette.text;
		this.g.lineWidth = 1;
		this.g.strokeRect(x - 0.5, y0 - 0.5, BAR + 1, y1 - y0 + 1);
	}

	arrows(from, to) {
		let last = -Infinity;
		const selected = S.selected;
		if (selected >= 0 && P.pair[selected] === this.pair) this.band(this.place(selected));
		const labels = [];
		for (let k = from; k < to; k++) {
			const i = V.byPair[k], y = this.place(i);
			if (y < HEAD) continue;
			this.arrow(i, y);
			if (y - last >= 15 && y > HEAD + 12) {
				labels.push([i, y]);
				last = y;
			} else if (i === selected) {
				labels.push([i, y]);
			}
		}
		for (const [i, y] of labels) {
			if (i === selected || selected < 0 || Math.abs(this.place(selected) - y) >= 15 || P.pair[selected] !== this.pair) this.label(i, y);
		}
	}

	band(y) {
		this.g.fillStyle = palette.band;
		this.g.fillRect(this.left, y - 15, this.width, 19);
	}

	arrow(i, y) {
		const { g } = this, back = backwards(i), f = P.flags[i];
		const from = back ? this.b : this.a, to = back ? this.a : this.b, towards = back ? -1 : 1;
		const bad = f & (MARK.BAD_ICRC | MARK.MALFORMED);
		g.strokeStyle = g.fillStyle = f & MARK.REFUSED || bad ? palette.nak : colourOf(i);
		g.lineWidth = i === S.selected ? 2.5 : 1.4;
		g.setLineDash(f & MARK.RETRANSMITTED ? [6, 4] : f & MARK.DUPLICATE ? [1.5, 4] : []);
		g.beginPath();
		g.moveTo(from, y);
		g.lineTo(to - towards * 6, y);
		g.stroke();
		g.setLineDash([]);
		g.beginPath();
		if (bad) {
			const x = to - towards * 14;
			g.moveTo(x - 4, y - 4); g.lineTo(x + 4, y + 4);
			g.moveTo(x - 4, y + 4); g.lineTo(x + 4, y - 4);
			g.stroke();
		} else {
			g.moveTo(to, y); g.lineTo(to - towards * 8, y - 3.5); g.lineTo(to - towards * 8, y + 3.5);
			g.fill();
		}
		if (f & MARK.GAP) this.gap(y);
	}

	gap(y) {
		const { g } = this, x = (this.a + this.b) / 2;
		g.strokeStyle = palette.nak;
		g.lineWidth = 1.4;
		g.beginPath();
		for (let k = -3; k <= 3; k++) {
			g.moveTo(x + k * 8 - 3, y - 2);
			g.lineTo(x + k * 8 + 3, y - 7);
		}
		g.stroke();
	}

	label(i, y) {
		const { g } = this, length = P.length[i], marks = marksOf(i), room = this.b - this.a - 24;
		const main = `${opText(i)}  ${hex(P.psn[i])}${length ? `  ${count(length)} B` : ""}`;
		const tail = marks.length ? `  ${marks.join(", ")}` : "";
		g.font = `12px ${palette.sans}`;
		g.textBaseline = "alphabetic";
		g.textAlign = "left";
		const text = fitted(g, main + tail, room), wide = g.measureText(text).width;
		const x = backwards(i) ? this.b - 12 - wide : this.a + 12;
		g.fillStyle = i === S.selected ? palette.band : palette.bg;
		g.fillRect(x - 3, y - 14, wide + 6, 12);
		g.fillStyle = palette.text;
		g.fillText(text, x, y - 4);
		if (tail && text.startsWith(main)) {
			const at = x + g.measureText(main).width, rest = text.slice(main.length);
			g.fillStyle = i === S.selected ? palette.band : palette.bg;
			g.fillRect(at, y - 14, wide - (at - x) + 3, 12);
			g.fillStyle = palette[P.flags[i] & (MARK.REFUSED | MARK.GAP | MARK.BAD_ICRC | MARK.MALFORMED) ? "nak" : "repeat"];
			g.fillText(rest, at, y - 4);
		}
	}

	// Packets in rows of three pixels: those of A from the left, those of B from the right, by group.
	densities(from, to) {
		const rows = Math.ceil((this.height - HEAD) / 3), groups = GROUPS.length;
		const bins = [new Uint32Array(rows * groups), new Uint32Array(rows * groups)], hot = new Uint8Array(rows);
		const scale = rows / (S.t1 - S.t0);
		let most = 1;
		const sums = new Uint32Array(rows * 2);
		for (let k = from; k < to; k++) {
			const i = V.byPair[k], row = Math.min(rows - 1, Math.floor((P.time[i] - S.t0) * scale)), back = backwards(i) ? 1 : 0;
			bins[back][row * groups + groupOf(i)]++;
			most = Math.max(most, ++sums[row * 2 + back]);
			if (P.flags[i] & UNUSUAL) hot[row] = 1;
		}
		for (let row = 0; row < rows; row++) {
			for (const back of [0, 1]) this.density(bins[back].subarray(row * groups, row * groups + groups), sums[row * 2 + back], most, row, back);
			if (hot[row]) {
				this.g.fillStyle = palette.nak;
				this.g.fillRect((this.a + this.b) / 2 - 5, HEAD + row * 3, 10, 3);
			}
		}
		this.caption(`${count(to - from)} packets: zoom in`);
	}

	density(bins, sum, most, row, back) {
		if (!sum) return;
		const { g } = this, room = (this.b - this.a) / 2 - 12, wide = Math.max(2, Math.log1p(sum) / Math.log1p(most) * room);
		let at = 0;
		bins.forEach((n, group) => {
			if (!n) return;
			const w = wide * n / sum;
			g.fillStyle = palette[GROUP_COLOURS[group]];
			g.fillRect(back ? this.b - at - w : this.a + at, HEAD + row * 3, w, 2.5);
			at += w;
		});
	}

	caption(text) {
		const { g } = this;
		g.font = `12px ${palette.sans}`;
		g.textAlign = "center";
		g.textBaseline = "alphabetic";
		const fit = fitted(g, text, this.b - this.a - 20), wide = g.measureText(fit).width, x = (this.a + this.b) / 2;
		g.fillStyle = palette.bg;
		g.fillRect(x - wide / 2 - 8, this.height - 30, wide + 16, 20);
		g.strokeStyle = palette.line;
		g.lineWidth = 1;
		g.strokeRect(x - wide / 2 - 7.5, this.height - 29.5, wide + 15, 19);
		g.fillStyle = palette.text;
		g.fillText(fit, x, this.height - 15);
	}

	// The packet nearest to y, -2 - e for an event that has a row, or -1.
	hit(y) {
		let [from, to] = pairBounds(this.pair, S.t0, S.t1), best = -1, least = 14;
		if (!ladder.rows) {
			const at = lowerBound(V.byPair, from, to, S.t0 + (y - HEAD) / (this.height - HEAD) * (S.t1 - S.t0));
			[from, to] = [Math.max(from, at - 2), Math.min(to, at + 2)];
		}
		for (let k = from; k < to; k++) {
			// The label is above its line.
			const d = Math.abs(this.place(V.byPair[k]) - 4 - y);
			if (d < least) [best, least] = [V.byPair[k], d];
		}
		for (const item of ladder.rows?.list ?? []) {
			const d = Math.abs(rowY(item, this.height) - y);
			if (item < 0 && E.lane[-item - 1] >>> 1 === this.pair && d < least) [best, least] = [item - 1, d];
		}
		return best;
	}
}

// The text, shortened to a width.
function fitted(g, text, width) {
	if (g.measureText(text).width <= width) return text;
	let low = 0, high = text.length;
	while (low < high) {
		const mid = (low + high + 1) >>> 1;
		if (g.measureText(text.slice(0, mid) + "…").width <= width) low = mid;
		else high = mid - 1;
	}
	return low > 2 ? text.slice(0, low).trimEnd() + "…" : "";
}
