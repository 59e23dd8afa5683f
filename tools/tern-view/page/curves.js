// Rates, queue depth and congestion over the window, for everything that passes the filters.

const CURVES = [
	{
		title: "Payload", unit: "bit/s", rate: true,
		lines: [
			["SEND, WRITE", "send", (i) => (GROUP_OF[P.op[i]] < 2 ? P.length[i] * 8 : 0)],
			["READ responses", "read", (i) => (GROUP_OF[P.op[i]] === 2 ? P.length[i] * 8 : 0)],
		],
	},
	{
		title: "Packets", unit: "/s", rate: true,
		lines: [["all", "ack", () => 1], ["retransmitted", "repeat", (i) => (P.flags[i] & MARK.RETRANSMITTED ? 1 : 0)]],
	},
	{ title: "Messages outstanding", unit: "", rate: false, compute: (bins) => depths(bins), lines: [["mean", "write"]] },
	{
		title: "Congestion and refusals", unit: "per interval", rate: false,
		lines: [
			["CE marks", "atomic", (i) => (P.flags[i] & MARK.CE ? 1 : 0)],
			["CNPs", "cnp", (i) => (GROUP_OF[P.op[i]] === 7 ? 1 : 0)],
			["NAKs", "nak", (i) => (P.flags[i] & MARK.NEGATIVE && P.syndrome[i] >> 5 === 3 ? 1 : 0)],
			["RNR NAKs", "rnr", (i) => (P.flags[i] & MARK.NEGATIVE && P.syndrome[i] >> 5 === 1 ? 1 : 0)],
		],
	},
];

// Curves that need the device's log.
const LOG_CURVES = [
	{ title: "Work requests outstanding, doorbell to CQE", unit: "", compute: (bins) => [queued(bins, 0), queued(bins, RECEIVES)],
		lines: [["send queues", "write"], ["receives fetched", "ack"]] },
	{ title: "Doorbells, CQEs, interrupts", unit: "/s", rate: true, compute: (bins) => eventRates(bins, [TYPE.DOORBELL, TYPE.CQE, TYPE.INTERRUPT]),
		lines: [["doorbells", "send"], ["CQEs", "write"], ["interrupts", "cnp"]] },
	{ title: "Mean wait of a request", time: true, compute: (bins) => waits(bins), lines: [["doorbell to fetch", "send"], ["fetch to first packet: queue, pacing", "atomic"],
		["answer to CQE", "read"]] },
	{ title: "Rate that the pacer allows", unit: "bit/s", rate: true, compute: (bins) => paced(bins), lines: [["mean of the QPs with a limit", "send"], ["lowest", "nak"]] },
	{ title: "Faults and refusals in the device", unit: "per interval", compute: (bins) => eventCounts(bins, [TYPE.CHECK, TYPE.PAGE_FAULT, TYPE.FAULT, TYPE.RETRY, TYPE.DROPPED]),
		lines: [["refused checks", "nak"], ["page faults", "read"], ["injected", "cnp"], ["retries", "rnr"], ["dropped", "atomic"]] },
];

function buildCurves() {
	if (LOG) CURVES.push(...LOG_CURVES);
	for (const curve of CURVES) {
		const keys = curve.lines.map(([name, colour]) => {
			const key = el("span.key", null, name);
			key.style.setProperty("--key", `var(--${colour})`);
			return key;
		});
		curve.most = el("span");
		curve.canvas = el("canvas", { role: "img" });
		byId("curves").append(el("figure", null, el("figcaption", null, curve.title, ...keys, curve.most), curve.canvas));
	}
}

// Values of each line in `bins` intervals of the window.
function sums(curve, bins) {
	const from = lowerBound(V.view, 0, V.view.length, S.t0), to = lowerBound(V.view, from, V.view.length, S.t1), scale = bins / (S.t1 - S.t0);
	const values = curve.lines.map(() => new Float64Array(bins));
	for (let k = from; k < to; k++) {
		const i = V.view[k], bin = Math.min(bins - 1, Math.floor((P.time[i] - S.t0) * scale));
		for (let line = 0; line < values.length; line++) values[line][bin] += curve.lines[line][2](i);
	}
	const factor = curve.rate ? 1e9 / ((S.t1 - S.t0) / bins) : 1;
	if (factor !== 1) for (const line of values) for (let k = 0; k < bins; k++) line[k] *= factor;
	return values;
}

// The mean number of messages between first packet and answer, in each interval.
const depths = (bins) => [overlaps(bins, V.messages, (m) => P.time[M.first[m]], messageEnd)];

// The same for work requests, of send queues or of receives.
const queued = (bins, receives) => overlaps(bins, V.work, (w) => ((W.flags[w] & RECEIVES) === receives ? W.begin[w] : Infinity), workEnd);

function overlaps(bins, items, beginOf, endOf) {
	const size = (S.t1 - S.t0) / bins, partial = new Float64Array(bins), change = new Float64Array(bins + 1);
	for (const item of items) {
		const begin = Math.max(beginOf(item), S.t0), end = Math.min(endOf(item), S.t1);
		if (end <= begin) continue;
		const first = Math.min(bins - 1, Math.floor((begin - S.t0) / size)), last = Math.min(bins - 1, Math.floor((end - S.t0) / size));
		if (first === last) {
			partial[first] += (end - begin) / size;
			continue;
		}
		partial[first] += (S.t0 + (first + 1) * size - begin) / size;
		partial[last] += (end - S.t0 - last * size) / size;
		change[first + 1]++;
		change[last]--;
	}
	for (let k = 0, whole = 0; k < bins; k++) partial[k] += whole += change[k];
	return partial;
}

// Events of some types in each interval; of checks, only refused ones. The filter by QP pair
// applies to events that have one.
function eventCounts(bins, types) {
	const values = types.map(() => new Float64Array(bins)), line = new Int8Array(256).fill(-1), scale = bins / (S.t1 - S.t0);
	types.forEach((type, k) => { line[type] = k; });
	const allowed = pairsAllowed(), all = allowed.every(Boolean);
	for (let e = eventAfter(S.t0); e < E.n && E.time[e] < S.t1; e++) {
		const k = line[E.type[e]];
		if (k < 0 || (E.type[e] === TYPE.CHECK && !(E.shown[e] & WRONG))) continue;
		if (!all && (E.lane[e] === NONE || !allowed[E.lane[e] >>> 1])) continue;
		values[k][Math.min(bins - 1, Math.floor((E.time[e] - S.t0) * scale))]++;
	}
	return values;
}

function eventAfter(t) {
	let from = 0, to = E.n;
	while (from < to) {
		const mid = (from + to) >>> 1;
		if (E.time[mid] < t) from = mid + 1;
		else to = mid;
	}
	return from;
}

function eventRates(bins, types) {
	const values = eventCounts(bins, types), factor = 1e9 / ((S.t1 - S.t0) / bins);
	for (const line of values) for (let k = 0; k < bins; k++) line[k] *= factor;
	return values;
}

// Time that requests waited, in the interval in which the wait ended.
function waits(bins) {
	const sums = [0, 1, 2].map(() => new Float64Array(bins)), counts = [0, 1, 2].map(() => new Float64Array(bins)), scale = bins / (S.t1 - S.t0);
	const add = (k, from, to) => {
		if (from === undefined || to === undefined || to < from || to < S.t0 || to >= S.t1) return;
		const bin = Math.min(bins - 1, Math.floor((to - S.t0) * scale));
		sums[k][bin] += to - from;
		counts[k][bin]++;
	};
	for (const w of V.work) {
		if (W.flags[w] & RECEIVES || W.end[w] < S.t0 || W.begin[w] > S.t1 || W.wqe[w] === NONE) continue;
		const [first, answer] = messageTimes(w), fetched = E.time[W.wqe[w]];
		add(0, W.begin[w], fetched);
		add(1, fetched, first);
		if (!(W.flags[w] & IMPLIED)) add(2, answer, eventTime(W.cqe[w]));
	}
	sums.forEach((line, k) => line.forEach((v, bin) => { if (counts[k][bin]) line[bin] = v / counts[k][bin]; }));
	return sums;
}

// Rates of the QPs that have a limit; NaN if none has.
function paced(bins) {
	const size = (S.t1 - S.t0) / bins, rates = new Float64Array(bins), times = new Float64Array(bins), lowest = new Float64Array(bins).fill(NaN);
	const allowed = pairsAllowed(), all = allowed.every(Boolean);
	for (let k = 0; k < R.n && E.time[R.event[k]] < S.t1; k++) {
		const lane = E.lane[R.event[k]], begin = Math.max(E.time[R.event[k]], S.t0), end = Math.min(R.next[k] === NONE ? Infinity : E.time[R.next[k]], S.t1);
		if (end <= begin || (!all && (lane === NONE || !allowed[lane >>> 1]))) continue;
		const rate = R.rate[k] * 1000, last = Math.min(bins - 1, Math.floor((end - S.t0) / size));
		for (let bin = Math.min(bins - 1, Math.floor((begin - S.t0) / size)); bin <= last; bin++) {
			const part = Math.min(end, S.t0 + (bin + 1) * size) - Math.max(begin, S.t0 + bin * size);
			if (part <= 0) continue;
			rates[bin] += rate * part;
			times[bin] += part;
			if (!(lowest[bin] <= rate)) lowest[bin] = rate;
		}
	}
	return [rates.map((sum, bin) => sum / times[bin]), lowest];
}

function amount(n, unit) {
	const [size, prefix] = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"], [1, ""]].find(([s]) => n >= s) || [1, ""];
	const value = n / size;
	return `${Number.isInteger(value) ? value : value.toFixed(value < 10 ? 2 : 1)} ${prefix}${unit}`.trim();
}

function drawCurve(curve) {
	const width = Math.max(80, curve.canvas.clientWidth), height = 150, left = 72, base = height - 18, top = 8;
	const bins = Math.max(10, Math.min(300, Math.floor((width - left) / 2)));
	const values = curve.compute ? curve.compute(bins) : sums(curve, bins);
	const most = Math.max(...values.map((line) => line.reduce((a, b) => (b > a ? b : a), 0)));
	const g = sized(curve.canvas, width, height), scale = ticks(0, most || 1, 3), limit = Math.max(most * 1.05, scale.step, most ? 0 : 1);
	const y = (v) => base - v / limit * (base - top), x = (k) => left + (k + 0.5) / bins * (width - left);
	g.font = `11px ${palette.sans}`;
	g.textBaseline = "middle";
	g.textAlign = "right";
	for (const v of curve.time && !most ? [0] : scale.at) {
		g.fillStyle = palette.line;
		g.fillRect(left, Math.round(y(v)), width - left, 1);
		g.fillStyle = palette.muted;
		g.fillText(curve.time ? durationText(v) : amount(v, curve.rate ? curve.unit : ""), left - 6, y(v));
	}
	curve.lines.forEach(([, colour], line) => drawLine(g, values[line], palette[colour], x, y, base));
	g.save();
	g.translate(left, 0);
	drawTimes(g, S.t0, S.t1, width - left, base + 1);
	g.restore();
	const summary = most ? `highest ${curve.time ? durationText(most) : amount(most, curve.unit)}` : "none";
	curve.most.textContent = summary;
	curve.canvas.setAttribute("aria-label", `${curve.title} from ${timeText(Math.max(0, S.t0), S.t1 - S.t0)} for ${durationText(S.t1 - S.t0)}: ${summary}`);
}

function drawLine(g, values, colour, x, y, base) {
	if (!values.some((v) => v > 0)) return;
	g.strokeStyle = g.fillStyle = colour;
	g.lineWidth = 1.5;
	g.lineJoin = "round";
	for (let from = 0, to; from < values.length; from = to) {
		for (to = from + 1; to < values.length && !Number.isNaN(values[to - 1]) && !Number.isNaN(values[to]);) to++;
		if (Number.isNaN(values[from])) continue;
		// A single interval keeps its width.
		const left = to - from > 1 ? x(from) : x(from - 0.5), right = to - from > 1 ? x(to - 1) : x(from + 0.5);
		g.beginPath();
		g.moveTo(left, y(values[from]));
		for (let k = from + 1; k < to; k++) g.lineTo(x(k), y(values[k]));
		g.lineTo(right, y(values[to - 1]));
		g.stroke();
		g.lineTo(right, base);
		g.lineTo(left, base);
		g.globalAlpha = 0.1;
		g.fill();
		g.globalAlpha = 1;
	}
}

// Curves are the most expensive part of a frame: while the window moves, draw them a few times a
// second.
let curvesDue = 0;

function drawCurves() {
	curvesDue ||= setTimeout(() => {
		curvesDue = 0;
		CURVES.forEach(drawCurve);
	}, 150);
}
