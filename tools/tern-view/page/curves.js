// Rates, queue depth and congestion over the window, of what passes the filters.

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
	{ title: "Messages outstanding", unit: "", rate: false, lines: [["mean", "write", null]] },
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

function buildCurves() {
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
function depths(bins) {
	const size = (S.t1 - S.t0) / bins, partial = new Float64Array(bins), change = new Float64Array(bins + 1);
	for (const m of V.messages) {
		const begin = Math.max(P.time[M.first[m]], S.t0), end = Math.min(messageEnd(m), S.t1);
		if (begin > S.t1) break;
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
	return [partial];
}

function amount(n, unit) {
	const [size, prefix] = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"], [1, ""]].find(([s]) => n >= s) || [1, ""];
	const value = n / size;
	return `${Number.isInteger(value) ? value : value.toFixed(value < 10 ? 2 : 1)} ${prefix}${unit}`.trim();
}

function drawCurve(curve) {
	const width = Math.max(80, curve.canvas.clientWidth), height = 150, left = 72, base = height - 18, top = 8;
	const bins = Math.max(10, Math.min(300, Math.floor((width - left) / 2)));
	const values = curve.lines[0][2] ? sums(curve, bins) : depths(bins);
	const most = Math.max(...values.map((line) => line.reduce((a, b) => Math.max(a, b), 0)));
	const g = sized(curve.canvas, width, height), scale = ticks(0, most || 1, 3), limit = Math.max(most * 1.05, scale.step, most ? 0 : 1);
	const y = (v) => base - v / limit * (base - top), x = (k) => left + (k + 0.5) / bins * (width - left);
	g.font = `11px ${palette.sans}`;
	g.textBaseline = "middle";
	g.textAlign = "right";
	for (const v of scale.at) {
		g.fillStyle = palette.line;
		g.fillRect(left, Math.round(y(v)), width - left, 1);
		g.fillStyle = palette.muted;
		g.fillText(amount(v, curve.rate ? curve.unit : ""), left - 6, y(v));
	}
	curve.lines.forEach(([, colour], line) => drawLine(g, values[line], palette[colour], x, y, base));
	g.save();
	g.translate(left, 0);
	drawTimes(g, S.t0, S.t1, width - left, base + 1);
	g.restore();
	const summary = most ? `highest ${amount(most, curve.unit)}` : "none";
	curve.most.textContent = summary;
	curve.canvas.setAttribute("aria-label", `${curve.title} from ${timeText(Math.max(0, S.t0), S.t1 - S.t0)} for ${durationText(S.t1 - S.t0)}: ${summary}`);
}

function drawLine(g, values, colour, x, y, base) {
	if (!values.some((v) => v > 0)) return;
	g.beginPath();
	values.forEach((v, k) => (k ? g.lineTo(x(k), y(v)) : g.moveTo(x(k), y(v))));
	g.strokeStyle = colour;
	g.lineWidth = 1.5;
	g.lineJoin = "round";
	g.stroke();
	g.lineTo(x(values.length - 1), base);
	g.lineTo(x(0), base);
	g.globalAlpha = 0.1;
	g.fillStyle = colour;
	g.fill();
	g.globalAlpha = 1;
}

// Curves cost the most of a frame: a window that moves draws them a few times a second.
let curvesDue = 0;

function drawCurves() {
	curvesDue ||= setTimeout(() => {
		curvesDue = 0;
		CURVES.forEach(drawCurve);
	}, 150);
}
