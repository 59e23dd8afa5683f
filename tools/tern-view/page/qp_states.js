// The states of each QP over time, from a log.

const STATE_COLOURS = { RESET: "strong", INIT: "atomic", RTR: "read", RTS: "write", SQD: "send", SQE: "rnr", ERR: "nak" };
const stateTable = { rows: [] };

// [from, to, state] of a QP, until it is destroyed or the device is reset.
function stateSpans(qp) {
	const spans = [], resets = (LOG.qps.resets[qp.log] ?? []).map((e) => E.time[e]);
	const until = (from, to) => Math.min(to, ...resets.filter((t) => t >= from));
	const { steps } = qp;
	if (steps.length && steps[0][2] !== 0xff) spans.push([0, E.time[steps[0][0]], steps[0][2]]);
	steps.forEach(([e, state], k) => {
		if (state !== 0xff) spans.push([E.time[e], until(E.time[e], k + 1 < steps.length ? E.time[steps[k + 1][0]] : META.duration), state]);
	});
	return spans;
}

function buildStates() {
	const box = byId("states"), { qps, total } = LOG.qps;
	if (!qps.length) {
		box.replaceChildren(el("p.empty", null, "No QP changes its state in the log."));
		return;
	}
	stateTable.rows = qps.map((qp) => ({ qp, spans: stateSpans(qp), canvas: el("canvas", { "aria-hidden": "true" }) }));
	const head = el("thead", null, el("tr", null, ...["QP", "Adapter", "Last state", "In the window", "Changes"].map((t) => el("th", { scope: "col" }, t))));
	const table = el("table", null, head, el("tbody", null, ...stateTable.rows.map(stateLine)));
	const used = new Set(stateTable.rows.flatMap((row) => row.spans.map(([, , state]) => stateText(state))));
	const keys = NAMES.states.filter((name) => used.has(name)).map((name) => {
		const key = el("li", null, name);
		key.style.setProperty("--key", `var(--${STATE_COLOURS[name]})`);
		return key;
	});
	box.replaceChildren(el("ul.legend", { "aria-label": "Colours of the states" }, ...keys),
		el("div.scroll", { tabindex: 0, role: "region", "aria-label": "Table of QP states" }, table));
	if (total > qps.length) box.prepend(el("p.muted.small", null, `${count(total)} QPs; ${count(qps.length)} are shown.`));
}

function stateLine({ qp, canvas }) {
	const last = qp.steps[qp.steps.length - 1], text = stateText(last[1]) === "none" ? "destroyed" : stateText(last[1]);
	const lines = qp.steps.slice(0, 24).map(([e, state, old, cause, event]) => el(cause ? "li.hot" : "li", null,
		`${timeText(E.time[e], 1)} ${stateText(old)} to ${stateText(state)}, by ${cause ? "the device" : "software"}${event ? `, event ${nameOf(NAMES.events, event)}` : ""}`));
	return el("tr", null, el("td", null, el("button.link.mono", { type: "button", onclick: () => zoomToEvent(last[0]) }, hex(qp.qpn))), el("td", null, logName(qp.log)),
		el(last[1] === 6 || last[1] === 5 ? "td.hot" : "td", null, text), el("td.time", null, canvas),
		el("td.steps", null, el("details", null, el("summary", null, counted(qp.steps.length, "change")), el("ul", null, ...lines))));
}

function drawStates() {
	for (const { spans, canvas } of stateTable.rows) {
		const width = Math.max(60, canvas.clientWidth), g = sized(canvas, width, 20), at = (t) => (t - S.t0) / (S.t1 - S.t0) * width;
		g.fillStyle = palette.line;
		g.fillRect(0, 9.5, width, 1);
		for (const [from, to, state] of spans) {
			const x0 = Math.max(0, at(from)), x1 = Math.min(width, at(to)), name = stateText(state);
			if (x1 < 0 || x0 > width) continue;
			g.fillStyle = palette[STATE_COLOURS[name] ?? "muted"];
			g.fillRect(x0, 3, Math.max(1, x1 - x0), 14);
			g.font = `600 10.5px ${palette.sans}`;
			g.textBaseline = "middle";
			g.textAlign = "left";
			if (x1 - x0 < g.measureText(name).width + 8) continue;
			g.fillStyle = name === "RESET" ? palette.text : palette.bg;
			g.fillText(name, x0 + 4, 10.5);
		}
	}
}
