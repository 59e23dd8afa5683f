// Tables of a log: work requests from doorbell to CQE, and all events.

const sinceText = (from, to) => (to === undefined || to === Infinity || to < from ? "" : durationText(to - from));
const eventTime = (e) => (e === NONE ? undefined : E.time[e]);

// When the first packet of a request's message left, and when the answer came.
function messageTimes(w) {
	const m = W.message[w];
	if (m === NONE || W.flags[w] & RECEIVES) return [eventTime(W.sent[w]), undefined];
	return [P.time[M.first[m]], M.answer[m] === NONE ? undefined : P.time[M.answer[m]]];
}

const workName = (w) => (W.flags[w] & RECEIVES ? "receive" : W.flags[w] & UNSEEN && W.code[w] >= NAMES.work.length ? "not fetched" : spaced(nameOf(NAMES.work, W.code[w])));

function workStatus(w) {
	if (W.flags[w] & IMPLIED) return "no CQE, complete";
	return W.status[w] === NO_STATUS ? "no CQE" : statusText(W.status[w]);
}

function workEnds(w) {
	const adapter = LOG.logs.length > 1 || META.files.length ? `${logName(W.log[w])} ` : "";
	return `${adapter}QP ${hex(W.qpn[w])}`;
}

// Shows the neighbourhood of a row of the table.
function zoomToWork(w) {
	const m = W.message[w], e = [W.cqe[w], W.wqe[w], W.posted[w]].find((at) => at !== NONE);
	if (m !== NONE && placeOfMessage(m) >= 0) zoomTo(M.first[m]);
	else if (e !== undefined) zoomToEvent(e);
	S.work = w;
	draw();
}

function workGrid() {
	const w = (row) => V.work[row], bad = (row) => (W.status[w(row)] && W.status[w(row)] !== NO_STATUS ? "hot" : "");
	const grid = new Grid(byId("work"), "Work requests", [
		["Begins", "minmax(100px, 1fr)", "n", (row) => timeText(W.begin[w(row)], 1)],
		["QP", "minmax(110px, 1.2fr)", "", (row) => workEnds(w(row))],
		["WQE", "54px", "n", (row) => count(W.index[w(row)])],
		["Operation", "minmax(120px, 1.4fr)", "", (row) => workName(w(row))],
		["Length", "72px", "n", (row) => (W.wqe[w(row)] === NONE ? "" : bytesText(W.length[w(row)]))],
		["To fetch", "72px", "n", (row) => (W.wqe[w(row)] === NONE ? "" : sinceText(W.begin[w(row)], eventTime(W.wqe[w(row)])))],
		["To 1st packet", "84px", "n", (row) => sinceText(eventTime(W.wqe[w(row)]) ?? Infinity, messageTimes(w(row))[0])],
		["To answer", "76px", "n", (row) => { const [first, answer] = messageTimes(w(row)); return first === undefined ? "" : sinceText(first, answer); }],
		["To CQE", "72px", "n", (row) => sinceText(messageTimes(w(row))[1] ?? eventTime(W.wqe[w(row)]) ?? Infinity, eventTime(W.cqe[w(row)]))],
		["Total", "72px", "n", (row) => (W.flags[w(row)] & IMPLIED ? "" : sinceText(W.begin[w(row)], W.end[w(row)]))],
		["Completion", "minmax(130px, 1.4fr)", "", (row) => workStatus(w(row)), bad],
	], () => V.work.length, () => chosenWork(), (row) => zoomToWork(w(row)));
	grid.root.classList.add("tall");
	return grid;
}

function chosenWork() {
	const m = S.selected >= 0 ? P.message[S.selected] : NONE, own = m === NONE ? NONE : M.work[m];
	const wanted = S.work !== undefined && (S.event >= 0 ? [W.cqe[S.work], W.wqe[S.work], W.posted[S.work]].includes(S.event) : W.message[S.work] === m && m !== NONE) ? S.work : own;
	if (wanted === NONE) return -1;
	const row = lowerIndex(V.work, wanted);
	return V.work[row] === wanted ? row : -1;
}

// ---- all events ----

const eventList = { type: "-1", items: new Uint32Array(0), version: 0 };

function chooseEvents() {
	const type = Number(byId("e-type").value), shownOnly = type === -2;
	const found = new Uint32Array(E.n);
	let n = 0;
	for (let e = 0; e < E.n; e++) {
		if (type === -1 || (shownOnly ? E.shown[e] & WRONG : E.type[e] === type)) found[n++] = e;
	}
	eventList.items = found.subarray(0, n);
	eventList.version++;
	byId("e-count").textContent = `${count(n)} of ${count(E.n)} events`;
}

// The types of events to choose from: those that occur.
function fillTypes() {
	const box = byId("e-type"), shown = new Set([...box.options].map((option) => Number(option.value)));
	for (const type of new Set(LOG.totals.map(([kind]) => kind))) if (!shown.has(type)) box.append(el("option", { value: type }, nameOf(NAMES.types, type)));
}

function eventGrid() {
	byId("e-type").append(el("option", { value: -1 }, "All"), el("option", { value: -2 }, "What went wrong"));
	fillTypes();
	chooseEvents();
	const at = (row) => eventList.items[row];
	let grid = null;
	const text = (row) => {
		const record = recordOf(at(row), () => { grid.state = null; grid.paint(); });
		return record ? eventText(record) : "…";
	};
	grid = new Grid(byId("events"), "Events of the device", [
		["Time", "minmax(104px, .8fr)", "n", (row) => timeText(E.time[at(row)], 1)],
		["Adapter", "minmax(80px, .7fr)", "", (row) => logName(E.log[at(row)])],
		["QP", "72px", "", (row) => (E.qpn[at(row)] ? hex(E.qpn[at(row)]) : "")],
		["Event", "minmax(90px, .8fr)", "", (row) => typeText(at(row))],
		["What", "minmax(320px, 6fr)", "", text, (row) => (E.shown[at(row)] & WRONG ? "hot" : "")],
	], () => eventList.items.length, () => {
		if (S.event < 0) return -1;
		const row = lowerIndex(eventList.items, S.event);
		return eventList.items[row] === S.event ? row : -1;
	}, (row) => zoomToEvent(at(row)));
	grid.root.classList.add("tall");
	byId("e-type").addEventListener("input", () => {
		chooseEvents();
		grid.state = null;
		grid.body.scrollTop = 0;
		grid.paint();
	});
	return grid;
}

function lowerIndex(list, wanted) {
	let from = 0, to = list.length;
	while (from < to) {
		const mid = (from + to) >>> 1;
		if (list[mid] < wanted) from = mid + 1;
		else to = mid;
	}
	return from;
}

// ---- details ----

// The events of a packet: its own, and those of its work request.
function eventsOfPacket(packet) {
	const found = new Set(inGroup(E.byPacket, packet).subarray(0, 200));
	const m = P.message[packet];
	if (m !== NONE) for (const w of [M.work[m], M.receive[m]]) if (w !== NONE) eventsOfWork(w).forEach((e) => found.add(e));
	return [...found].sort((a, b) => a - b);
}

const eventsOfWork = (w) => [W.doorbell[w], W.posted[w], W.wqe[w], W.check[w], W.sent[w], W.cqe[w], W.interrupt[w]].filter((e) => e !== NONE);

function eventTable(title, events, records) {
	const rows = events.map((e, k) => el(E.shown[e] & WRONG ? "tr.hot" : "tr", null,
		el("td.n", null, el("button.link", { type: "button", onclick: () => zoomToEvent(e) }, timeText(E.time[e], 1))),
		el("td", null, LOG.logs.length > 1 ? `${logName(E.log[e])}: ${typeText(e)}` : typeText(e)), el("td", null, eventText(records[k]))));
	const head = el("tr", null, ...["Time", "Event", "What"].map((t) => el("th", { scope: "col" }, t)));
	return [el("h4", null, title), el("table.events", null, el("thead", null, head), el("tbody", null, ...rows))];
}

// The times of a message's work request, step by step.
function workLine(m) {
	const w = M.work[m];
	if (w === NONE) return null;
	const [first, answer] = messageTimes(w), steps = [["doorbell", eventTime(W.doorbell[w])], ["read by the device", eventTime(W.posted[w])],
		["WQE fetched", eventTime(W.wqe[w])], ["first packet", first], ["answer", answer], ["CQE", W.flags[w] & IMPLIED ? undefined : eventTime(W.cqe[w])]].filter(([, t]) => t !== undefined);
	const text = steps.map(([name, t], k) => (k ? `+${durationText(t - steps[k - 1][1])} ${name}` : name)).join(", ");
	return el("p.request", null, `Work request ${workName(w)} ${W.index[w]} of ${workEnds(w)}: ${text}. ${workStatus(w)}.`);
}

// The log's reason for a refused packet: the rule that it broke.
async function loggedRule(packet) {
	const denied = [...inGroup(E.byPacket, packet)].find((e) => E.type[e] === TYPE.CHECK && E.shown[e] & WRONG);
	if (denied === undefined) return null;
	const [record] = await recordsOf([denied]);
	return record.index === 2 ? { event: denied, record, rule: ruleOf(record.detail) } : { event: denied, record, rule: null };
}

async function showEvent(e) {
	const box = byId("details"), [record] = await recordsOf([e]);
	if (S.event !== e) return;
	const p = E.packet[e], fields = [["adapter", logName(E.log[e])], ["QP", record.qpn ? hex(record.qpn) : "none"], ["code", record.code], ["flags", hex(record.flags, 4)],
		["addr", hex(record.addr)], ["length", String(record.length)], ["key", hex(record.key, 8)], ["index", record.index], ["value", record.value],
		["detail", record.detail]];
	box.replaceChildren(el("p.lead", null, `${typeText(e)}${E.shown[e] & WRONG ? " (unusual)" : ""}`), el("p", null, eventText(record)),
		el("p", null, `${logName(E.log[e])} ${qpText(E.qpn[e])}, record ${count(e + 1)} of the page, ${timeText(E.time[e], 1)}`),
		el("div.row", null, el("button", { type: "button", onclick: () => zoomToEvent(e) }, "Zoom to it"),
			p === NONE ? null : el("button", { type: "button", onclick: () => zoomTo(p) }, "Its packet")),
		...headerPart({ name: "Members of the record", fields }));
}
