// The lifetimes of keys in a log: regions, windows and device memory as ranges of time, with their
// events.

const [CREATED, DESTROYED, CHANGED, OPENED, CLOSED, BOUND, UNBOUND] = [1, 2, 3, 4, 5, 6, 7];
const STEPS_IN_TEXT = 12;
const lifeTable = { rows: [] };

const isWindow = (life) => life.kind === 4 || life.kind === 5;
const lifeBegin = (life) => (life.begin >= 0 ? E.time[life.begin] : 0);
const lifeEnd = (life) => (life.end >= 0 ? E.time[life.end] : META.duration);

// The times when the key was usable: a window while it is bound, a region while it is open.
function usable(life) {
	const found = [];
	const opens = isWindow(life) ? [BOUND] : [OPENED, ...(life.kind === 2 ? [] : [CREATED, CHANGED])], closes = [UNBOUND, CLOSED, DESTROYED];
	let since = life.begin < 0 && !isWindow(life) && life.kind ? 0 : null;
	for (const [e, change] of life.steps) {
		if (opens.includes(change)) since ??= E.time[e];
		else if (closes.includes(change) && since !== null) {
			found.push([since, E.time[e]]);
			since = null;
		}
	}
	if (since !== null) found.push([since, lifeEnd(life)]);
	return found;
}

function stepText([e, change, key, addr, length, value, detail, qpn]) {
	const parts = [nameOf(NAMES.changes, change)];
	if (change === BOUND || change === OPENED || change === CREATED || change === CHANGED) {
		if (Number(length)) parts.push(`${addr}, ${bytesText(Number(length))}`);
		if (change === BOUND) parts.push(`as ${hex(key, 8)} of region ${hex(detail, 8)}`);
		if (value) parts.push(rightsText(value));
	}
	if (qpn) parts.push(`by QP ${hex(qpn)}`);
	return `${timeText(E.time[e], 1)} ${parts.join(", ")}`;
}

function buildLives() {
	const box = byId("lives"), { lives, total } = LOG.keys;
	if (!lives.length) {
		box.replaceChildren(el("p.empty", null, "The log has no key."));
		return;
	}
	lifeTable.rows = lives.map((life, k) => {
		const all = inGroup(E.byLife, k), granted = (e) => E.type[e] === TYPE.CHECK && !(E.shown[e] & WRONG);
		return { life, k, accesses: all.filter(granted), others: all.filter((e) => !granted(e)), canvas: el("canvas", { "aria-hidden": "true" }) };
	});
	const head = el("thead", null, el("tr", null, ...["Key", "What", "Adapter"].map((t) => el("th", { scope: "col" }, t)),
		...["Checks", "Refused"].map((t) => el("th.n", { scope: "col" }, t)), el("th", { scope: "col" }, "In the window"), el("th", { scope: "col" }, "Changes")));
	const table = el("table", null, head, el("tbody", null, ...lifeTable.rows.map(lifeLine)));
	box.replaceChildren(el("div.scroll", { tabindex: 0, role: "region", "aria-label": "Table of the lives of keys" }, table));
	if (total > lives.length) box.prepend(el("p.muted.small", null, `${count(total)} keys; the ${count(lives.length)} that were refused or used most are shown.`));
}

function lifeLine({ life, k, canvas }) {
	const first = life.steps[0], range = first && Number(first[4]) ? `, ${bytesText(Number(first[4]))}` : "";
	const what = life.kind ? `${nameOf(NAMES.kinds, life.kind)}${range}` : "nothing has this key";
	const go = () => zoomToEvent(lifeRefusal(k) ?? inGroup(E.byLife, k)[0]);
	return el("tr", null, el("td", null, el("button.link.mono", { type: "button", onclick: go }, life.kind === 6 ? `DM ${life.key}` : hex(life.key, 8))),
		el("td", null, what), el("td", null, logName(life.log)), el("td.n", null, life.uses ? count(life.uses) : ""), el("td.n.hot", null, life.refused ? count(life.refused) : ""),
		el("td.time", null, canvas), el("td.steps", null, ...lifeText(life, k)));
}

function lifeText(life, k) {
	const lines = life.steps.slice(0, STEPS_IN_TEXT).map((step) => el("li", null, stepText(step)));
	const more = life.steps.length - STEPS_IN_TEXT + life.left;
	if (more > 0) lines.push(el("li", null, `${count(more)} more`));
	const refused = inGroup(E.byLife, k).filter((e) => E.type[e] === TYPE.CHECK && E.shown[e] & WRONG);
	for (const e of refused.slice(0, 4)) {
		const line = el("li.hot", null, `${timeText(E.time[e], 1)} ${nameOf(NAMES.checks, E.code[e])} refused`);
		recordsOf([e]).then(([r]) => { line.textContent += r.index === 2 ? `, broken rule: ${ruleOf(r.detail).text} (${ruleOf(r.detail).source})` : `: ${nameOf(NAMES.results, r.index)}`; });
		lines.push(line);
	}
	if (!lines.length) return ["no change in the log"];
	return [el("details", null, el("summary", null, `${counted(life.steps.length + life.left, "change")}${life.refused ? `, ${count(life.refused)} refused` : ""}`), el("ul", null, ...lines))];
}

const lifeRefusal = (k) => inGroup(E.byLife, k).find((e) => E.type[e] === TYPE.CHECK && E.shown[e] & WRONG);

function drawLives() {
	for (const row of lifeTable.rows) drawLife(row);
}

// A line while the object exists, a bar while its key can be used, ticks for accesses, red ones for
// refusals.
function drawLife({ life, accesses, others, canvas }) {
	const width = Math.max(60, canvas.clientWidth), g = sized(canvas, width, 20);
	const at = (t) => (t - S.t0) / (S.t1 - S.t0) * width, within = (x) => Math.min(Math.max(x, 0), width);
	const bar = (from, to, y, height) => { const x0 = within(at(from)), x1 = within(at(to)); if (at(to) >= 0 && at(from) <= width) g.fillRect(x0, y, Math.max(1, x1 - x0), height); };
	g.fillStyle = palette.line;
	g.fillRect(0, 9.5, width, 1);
	if (life.kind) {
		g.fillStyle = palette.strong;
		bar(lifeBegin(life), lifeEnd(life), 8, 4);
		g.fillStyle = isWindow(life) ? palette.read : palette.write;
		g.globalAlpha = 0.45;
		for (const [from, to] of usable(life)) bar(from, to, 4, 12);
		g.globalAlpha = 1;
	}
	g.fillStyle = palette.accent;
	// One tick for each pixel.
	for (let n = eventBound(accesses, S.t0); n < accesses.length && E.time[accesses[n]] <= S.t1;) {
		const x = Math.floor(at(E.time[accesses[n]]));
		g.fillRect(x, 6, 1, 8);
		n = Math.max(n + 1, eventBound(accesses, S.t0 + (x + 1) / width * (S.t1 - S.t0), n));
	}
	for (let n = eventBound(others, S.t0); n < others.length && E.time[others[n]] <= S.t1; n++) {
		const wrong = E.type[others[n]] === TYPE.CHECK, x = Math.round(at(E.time[others[n]]));
		g.fillStyle = wrong ? palette.nak : palette.text;
		if (wrong) g.fillRect(x - 1, 0, 3, 20);
		else g.fillRect(x, 2, 1.5, 16);
	}
}
