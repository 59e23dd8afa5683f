// Additions of a log to a QP pair of the ladder: bars from doorbell to CQE, and the events at the
// two ends.

const MOST_DRAWN = 4000;    // with more events of a pair in a window, only the wrong ones are drawn
const LOOK_AHEAD = 64;      // WQEs are fetched in this order, but a doorbell may be rung before an earlier fetch

// [time, darkness of the bar from there on] of a work request, and its end.
function barOf(w) {
	const m = W.flags[w] & RECEIVES ? NONE : W.message[w], steps = [];
	const add = (e, alpha) => { if (e !== NONE) steps.push([E.time[e], alpha, e, NONE]); };
	add(W.doorbell[w] !== NONE ? W.doorbell[w] : W.posted[w], 0.3);
	add(W.wqe[w], W.flags[w] & RECEIVES || m === NONE ? 0.75 : 0.5);
	if (m !== NONE) {
		steps.push([P.time[M.first[m]], 0.9, NONE, M.first[m]]);
		const answer = M.answer[m] !== NONE ? M.answer[m] : M.status[m] ? M.last[m] : NONE;
		if (answer !== NONE) steps.push([P.time[answer], 0.3, NONE, answer]);
	}
	return { steps, end: W.cqe[w] };
}

// Work requests by pair, with the latest end so far, like V.latest for messages.
function groupWork() {
	const pairOf = (w) => (W.lane[w] === NONE ? NONE : W.lane[w] >>> 1);
	V.workByPair = index(V.work.length, META.pairs.length, (k) => pairOf(V.work[k]));
	V.workByPair.items = V.workByPair.items.map((k) => V.work[k]);
	V.workLatest = new Float64Array(V.workByPair.items.length);
	for (let k = 0; k < META.pairs.length; k++) {
		let latest = -Infinity;
		for (let at = V.workByPair.starts[k]; at < V.workByPair.starts[k + 1]; at++) {
			V.workLatest[at] = latest = Math.max(latest, workEnd(V.workByPair.items[at]));
		}
	}
}

// Without a CQE of its own a request ends with its message.
function workEnd(w) {
	if (W.end[w] !== Infinity || W.message[w] === NONE) return W.end[w];
	return messageEnd(W.message[w]);
}

Object.assign(Lane.prototype, {
	workBars(used) {
		const { starts, items } = V.workByPair, to = starts[this.pair + 1];
		let at = starts[this.pair], high = to;
		while (at < high) {
			const mid = (at + high) >>> 1;
			if (V.workLatest[mid] < S.t0) at = mid + 1;
			else high = mid;
		}
		for (let late = 0; at < to && late < LOOK_AHEAD; at++) {
			const w = items[at];
			if (W.begin[w] > S.t1) late++;
			else if (workEnd(w) >= S.t0) this.workBar(w, used[W.lane[w] & 1]);
		}
	},

	stepPlace([time, , event, packet]) {
		if (!ladder.rows) return this.y(time);
		return event !== NONE ? rowY(-event - 1, this.height) : rowY(packet, this.height);
	},

	workBar(w, used) {
		const { steps, end } = barOf(w);
		if (!steps.length) return;
		const y = steps.map((step) => Math.max(HEAD, Math.min(this.height, this.stepPlace(step))));
		const last = end !== NONE ? this.stepPlace([E.time[end], 0, end, NONE]) : workEnd(w) === Infinity ? this.height : y[y.length - 1];
		const bottom = Math.max(y[0] + 3, Math.min(this.height, last));
		const x = this.slot(used, y[0], bottom, W.lane[w] & 1);
		if (x === null) return;
		const { g } = this, failed = W.status[w] !== 0 && W.status[w] !== NO_STATUS, m = W.message[w];
		g.fillStyle = failed ? palette.nak : W.flags[w] & RECEIVES ? palette.ack : m !== NONE ? colourOf(M.first[m]) : palette.accent;
		steps.forEach(([, alpha], k) => {
			g.globalAlpha = alpha;
			g.fillRect(x, y[k], BAR, Math.max(0, (k + 1 < y.length ? y[k + 1] : bottom) - y[k]));
		});
		g.globalAlpha = 1;
		// Marks the beginning and the end, also where the bar is pale.
		g.fillRect(x, y[0], BAR, 1.5);
		if (end !== NONE) g.fillRect(x, bottom - 1.5, BAR, 1.5);
		if (m !== NONE && S.selected >= 0 && P.message[S.selected] === m) this.frame(x, y[0], bottom);
	},

	events() {
		if (!LOG || !S.events) return;
		const all = inGroup(E.byPair, this.pair), from = eventBound(all, S.t0), to = eventBound(all, S.t1, from);
		const wrongOnly = to - from > MOST_DRAWN, lastY = [-9, -9];
		for (let k = from; k < to; k++) {
			const e = all[k], end = E.lane[e] & 1, wrong = (E.shown[e] & WRONG) !== 0;
			if (wrongOnly && !wrong) continue;
			const row = ladder.rows?.rank.get(-e - 1), y = ladder.rows ? rowY(-e - 1, this.height) : this.y(E.time[e]);
			if (y < HEAD || (!wrong && row === undefined && y - lastY[end] < 2)) continue;
			lastY[end] = y;
			if (E.shown[e] & (ROW_OF_ITS_OWN | WRONG)) this.event(e, end, y, wrong);
			else this.interrupt(end, y);
			if (row !== undefined) this.eventLabel(e, end, y, wrong);
		}
	},

	event(e, end, y, wrong) {
		const { g } = this, x = end ? this.b : this.a, size = wrong ? 4.5 : 3.5;
		if (e === S.event) this.band(y + 4);
		g.fillStyle = wrong ? palette.nak : palette.text;
		g.beginPath();
		g.moveTo(x - size, y); g.lineTo(x, y - size); g.lineTo(x + size, y); g.lineTo(x, y + size);
		g.fill();
	},

	interrupt(end, y) {
		const { g } = this, x = end ? this.b : this.a, out = end ? 1 : -1;
		g.fillStyle = palette.muted;
		g.beginPath();
		g.moveTo(x + out * 1, y); g.lineTo(x + out * 6, y - 3); g.lineTo(x + out * 6, y + 3);
		g.fill();
	},

	eventLabel(e, end, y, wrong) {
		const { g } = this;
		g.font = `italic 11.5px ${palette.sans}`;
		g.textBaseline = "middle";
		g.textAlign = end ? "right" : "left";
		const text = fitted(g, shortText(e), this.b - this.a - 24), x = end ? this.b - 12 : this.a + 12, wide = g.measureText(text).width;
		g.fillStyle = e === S.event ? palette.band : palette.bg;
		g.fillRect(end ? x - wide - 3 : x - 3, y - 7, wide + 6, 14);
		g.fillStyle = wrong ? palette.nak : palette.muted;
		g.fillText(text, x, y + 0.5);
	},
});

// A few words for the ladder. The members that are not columns may arrive later.
function shortText(e) {
	const code = E.code[e], r = [TYPE.CHECK, TYPE.KEY, TYPE.QP_STATE, TYPE.RETRY, TYPE.DROPPED].includes(E.type[e]) ? recordOf(e, draw) : null;
	switch (E.type[e]) {
	case TYPE.DOORBELL: return `doorbell${E.shown[e] & WRONG ? ": refused" : ""}`;
	case TYPE.CQE: return `CQE: ${spaced(statusText(code))}`;
	case TYPE.PAGE_FAULT: return `page fault ${nameOf(NAMES.page_faults, code)}`;
	case TYPE.FAULT: return `injected: ${nameOf(NAMES.faults, code)}`;
	case TYPE.QP_STATE: return r ? `${stateText(r.index)} → ${stateText(code)}` : `QP to ${stateText(code)}`;
	case TYPE.RETRY: return r ? `retry from PSN ${hex(r.index)}` : "retry";
	case TYPE.DROPPED: return r ? `dropped: ${nameOf(NAMES.drops, r.key)}` : "dropped";
	case TYPE.KEY: return r ? `${nameOf(NAMES.kinds, r.index)} ${nameOf(NAMES.changes, code)} ${hex(r.key, 8)}` : `key ${nameOf(NAMES.changes, code)}`;
	case TYPE.CHECK: return r ? `${nameOf(NAMES.checks, code)} ${hex(r.key, 8)}: ${r.index === 2 ? `denied, broken rule: ${ruleOf(r.detail).text}` : nameOf(NAMES.results, r.index)}` : "key check";
	default: return typeText(e);
	}
}
