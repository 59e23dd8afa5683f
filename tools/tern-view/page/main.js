// Puts the parts together.

function setFilter(change) {
	Object.assign(filter, change);
	byId("f-pair").value = String(filter.pair);
	byId("f-text").value = filter.text;
	byId("f-status").value = filter.status;
	byId("f-groups").querySelectorAll("input").forEach((box, k) => { box.checked = filter.groups[Number(box.value)]; });
	refilter();
}

function refilter() {
	applyFilter();
	byId("f-count").textContent = `${count(V.view.length)} of ${count(P.n)} packets, ${count(V.messages.length)} messages`;
	draw();
}

function showPair(k) {
	if (!V.version) return;
	setFilter({ pair: k });
	byId("ladder-title").scrollIntoView();
	if (V.view.length) zoomTo(V.view[0]);
}

// Fills the lists of the filters.
function fillFilters() {
	const used = GROUPS.map(() => false);
	for (const [code, n] of META.totals.operations) used[GROUP_OF[code]] ||= n > 0;
	used[6] = META.totals.negative.length > 0;
	const shown = new Set([...byId("f-groups").querySelectorAll("input")].map((box) => Number(box.value)));
	byId("f-pair").replaceChildren(el("option", { value: -1 }, "All"), ...META.pairs.slice(0, 500).map((pair, k) => el("option", { value: k }, pairText(pair))));
	byId("f-pair").value = String(filter.pair);
	GROUPS.forEach((name, k) => {
		if (used[k] && !shown.has(k)) byId("f-groups").append(el("label", null, el("input", { type: "checkbox", value: k, checked: "" }), name));
	});
}

function buildFilters() {
	fillFilters();
	byId("f-status").append(...Object.entries(STATUSES).map(([value, [text]]) => el("option", { value }, text)));
	const form = byId("filters");
	const read = () => {
		filter.pair = Number(byId("f-pair").value);
		filter.text = byId("f-text").value;
		filter.status = byId("f-status").value;
		byId("f-groups").querySelectorAll("input").forEach((box) => { filter.groups[Number(box.value)] = box.checked; });
		refilter();
	};
	form.addEventListener("input", read);
	form.addEventListener("submit", (event) => event.preventDefault());
	form.addEventListener("reset", (event) => {
		event.preventDefault();
		setFilter({ pair: -1, text: "", status: "all", groups: GROUPS.map(() => true) });
	});
}

function buildLegend() {
	const entries = [["SEND", "send"], ["WRITE", "write"], ["READ", "read"], ["ATOMIC, FLUSH", "atomic"], ["ACK", "ack"], ["NAK, refused", "nak"],
		["RNR NAK", "rnr"], ["CNP", "cnp"]];
	const items = entries.map(([text, colour]) => {
		const item = el("li", null, text);
		item.style.setProperty("--key", `var(--${colour})`);
		return item;
	});
	for (const [text, kind] of [["retransmitted", "dashed"], ["duplicate", "dotted"]]) {
		const item = el(`li.${kind}`, null, text);
		item.style.setProperty("--key", "var(--text)");
		items.push(item);
	}
	byId("legend").replaceChildren(...items, el("li.bar", null, LOG ? "vertical bars: work requests, from doorbell to CQE; pale before the first packet and behind the answer" : "vertical bars: messages, from first packet to answer"),
		...(LOG ? [el("li.event", null, "event of the device"), el("li.interrupt", null, "interrupt")] : []));
}

function followTools() {
	const acts = { in: () => zoom(0.5, around()), out: () => zoom(2, around()), whole: () => setWindow(...extent()), earlier: () => pan(-0.5), later: () => pan(0.5) };
	for (const [id, act] of Object.entries(acts)) byId(id).addEventListener("click", act);
}

// A small capture is shown whole, a large one from its beginning, where each packet has a row.
function firstWindow() {
	const shown = new Set(V.pairs.slice(0, lanesFitting(ladder.box.clientWidth))), some = [];
	const fit = Math.floor(rowsFitting(ladder.box.clientHeight) / (LOG ? 3 : 1));
	for (const i of V.view) {
		if (shown.has(P.pair[i])) some.push(i);
		if (some.length > fit) break;
	}
	if (some.length <= fit && !LOG) setWindow(...extent());
	else if (!some.length) setWindow(...extent());
	else if (some.length <= fit) setWindow(begins(some[0]) - SHORTEST / 2, P.time[some[some.length - 1]] + SHORTEST);
	else setWindow(begins(some[0]) - SHORTEST / 2, Math.max((P.time[some[fit - 1]] + P.time[some[fit]]) / 2, P.time[some[fit - 1]] + SHORTEST / 20));
}

// With a log, a packet's message begins with its doorbell.
function begins(packet) {
	const w = LOG && P.message[packet] !== NONE ? M.work[P.message[packet]] : NONE;
	return w === NONE || P.time[packet] - W.begin[w] > META.duration / 4 ? P.time[packet] : W.begin[w];
}

async function start() {
	followTheme(() => {
		readPalette();
		draw();
	}, () => {
		readPalette();
		for (const paint of S.painters) paint();
		document.querySelectorAll(".steps details:not([open])").forEach((node) => { node.open = node.forPrint = true; });
	});
	window.addEventListener("afterprint", () => {
		document.querySelectorAll(".steps details").forEach((node) => { if (node.forPrint) node.open = node.forPrint = false; });
	});
	showSummary();
	byId("stands").append(el("li.muted", null, "…"));
	// The summary is painted before the packets are unpacked.
	await new Promise((done) => requestAnimationFrame(() => setTimeout(done, 0)));
	await loadColumns((part) => { byId("loading").textContent = `Loading packets … ${Math.round(part * 100)} %`; });
	byId("tools").hidden = byId("views").hidden = false;
	byId("loading").hidden = true;
	buildFilters();
	buildLegend();
	buildCurves();
	if (LOG) {
		byId("log-views").hidden = byId("show-events-label").hidden = false;
		buildLives();
		buildStates();
	}
	followTools();
	refilter();
	S.t0 = -1;
	firstWindow();
	showStands();
	const packets = packetGrid(), messages = messageGrid(), work = LOG ? workGrid() : null, events = LOG ? eventGrid() : null;
	const span = () => { byId("span").textContent = spanText(); };
	S.painters.push(drawOverview, drawLadder, () => packets.paint(), () => messages.paint(), drawCurves, span, keysWhenDue);
	if (LOG) {
		S.painters.push(() => work.paint(), () => events.paint(), drawLives, drawStates);
		S.follow.push(() => work.reveal(Math.max(0, work.chosen())), () => S.event >= 0 && events.chosen() >= 0 && events.reveal(events.chosen()));
	}
	S.follow.push(followLane, showDetails, (p) => p >= 0 && packets.reveal(packets.chosen()), () => messages.reveal(Math.max(0, messages.chosen())));
	S.grids = { packets, messages, work, events };
	followOverview();
	followLadder();
	if (byId("live")) followLive();
	window.addEventListener("resize", () => { keysDrawn = -1; draw(); });
	draw();
	document.documentElement.dataset.ready = String(Math.round(performance.now()));
}

function spanText() {
	const size = (S.t1 - S.t0) / 100;
	return `${timeText(Math.max(0, S.t0), size)} to ${timeText(Math.min(S.t1, Math.max(META.duration, SHORTEST)), size)}: ${durationText(S.t1 - S.t0)}`;
}

let keysDrawn = -1, keysTheme = "";

function keysWhenDue() {
	if (keysDrawn === V.version && keysTheme === palette.bg) return;
	[keysDrawn, keysTheme] = [V.version, palette.bg];
	drawKeys();
}

// For tests, and for inspection in the browser's console.
window.ternView = { META, P, M, E, W, R, V, S, filter, setFilter, setWindow, select, zoomTo, zoomToEvent, recordsOf, barOf, ladder };

start().catch((error) => {
	byId("loading").textContent = `This page cannot be shown: ${error.message}`;
	throw error;
});
