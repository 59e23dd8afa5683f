// The summary needs no packets: it is shown before they are unpacked.

function showSummary() {
	const t = META.totals, mark = (name) => t.marks[Math.log2(MARK[name])];
	const logs = LOG ? `; ${LOG.logs.length === 1 ? "event log" : "event logs"} of ${LOG.logs.map((l) => `${l.name} (${l.mac})`).join(", ")}` : "";
	byId("when").textContent = `From ${META.start}${META.files.length > 1 && !META.fromLogs ? `; ${META.files.length} files` : ""}${logs}`;
	const naks = t.negative.filter(([code]) => code >> 5 === 3).reduce((sum, [, n]) => sum + n, 0);
	const waits = t.negative.filter(([code]) => code >> 5 === 1).reduce((sum, [, n]) => sum + n, 0);
	const cnps = t.operations.filter(([code]) => META.opcodes[code]?.kind === "CNP").reduce((sum, [, n]) => sum + n, 0);
	const refused = t.kinds.reduce((sum, [[, status], n]) => sum + (status >= 3 ? n : 0), 0);
	const figures = [["Packets", count(t.packets)], ["Messages", count(t.messages)], ["Payload", bytesText(t.bytes)], ["Duration", durationText(META.duration)],
		["Retransmitted", mark("RETRANSMITTED"), "warm"], ["Duplicates", mark("DUPLICATE"), "warm"], ["Missing", t.missing, "hot"], ["NAKs", naks, "hot"],
		["RNR NAKs", waits, "warm"], ["Refused", refused, "hot"], ["CE marks", mark("CE"), ""], ["CNPs", cnps, ""], ...logFigures()];
	byId("figures").replaceChildren(...figures.map(([name, value, tone]) => el(value && tone ? `div.${tone}` : "div", null, el("dt", null, name),
		el("dd", null, typeof value === "number" ? count(value) : value))));
	showNotices();
	showPairs();
}

const logged = (type, code) => LOG.totals.reduce((sum, [t, c, n]) => sum + (t === type && (code === undefined || c === code) ? n : 0), 0);
const failedCqes = () => logged(TYPE.CQE) - logged(TYPE.CQE, 0);

function logFigures() {
	if (!LOG) return [];
	return [["Events", LOG.all], ["Doorbells", logged(TYPE.DOORBELL)], ["CQEs", logged(TYPE.CQE)], ["CQEs with an error", failedCqes(), "hot"], ["Interrupts", logged(TYPE.INTERRUPT)],
		["Page faults", logged(TYPE.PAGE_FAULT, 1), "warm"], ["Refused checks", LOG.refused, "hot"], ["Retries", logged(TYPE.RETRY), "warm"],
		["Dropped", logged(TYPE.DROPPED), "hot"], ["Injected faults", logged(TYPE.FAULT), "warm"], ["QPs to ERR", logged(TYPE.QP_STATE, 6), "hot"], ["Events lost", LOG.logs.reduce((sum, l) => sum + l.lost, 0), "hot"]];
}

function logNotices() {
	const lines = [];
	for (const log of LOG.logs) {
		if (log.lost) lines.push(`${log.name}: the device lost ${count(log.lost)} events, which its file was too slow for. What follows from them is missing.`);
		const later = log.after ? `: ${count(log.after)} packets of its QPs came later` : "";
		if (log.full || later) lines.push(`The log of ${log.name} ends at ${timeText(log.end, 1)}${log.full ? ", at its limit" : ""}${later}.`);
	}
	return lines;
}

function logNotes() {
	const lines = LOG.logs.filter((log) => log.shift).map((log) => `The times of ${log.name} are moved by ${durationText(log.shift)}, to agree with the captures.`);
	if (LOG.events < LOG.all) lines.push(`${count(LOG.all - LOG.events)} of ${count(LOG.all)} events are not in the page: granted checks of keys, and records of packets that it shows.`);
	return lines;
}

function showNotices() {
	const lines = META.troubles.map((t) => `${t}: the page has what is before it.`);
	const others = META.files.reduce((sum, f) => sum + f.others, 0), cut = META.files.reduce((sum, f) => sum + f.cut, 0);
	if (cut) lines.push(`${count(cut)} frames are not whole in the capture; their ICRC is not checked.`);
	if (LOG) lines.push(...logNotices());
	byId("notices").replaceChildren(...lines.map((line) => el("p.notice", null, line)), ...(LOG ? logNotes() : []).map((line) => el("p.muted", null, line)));
	if (others) byId("when").textContent += `; ${count(others)} frame${others === 1 ? "" : "s"} of other protocols`;
}

const SHOWN_PAIRS = 200;
const link = (text, act) => el("button.link", { type: "button", onclick: act }, text);

function showPairs() {
	const head = el("thead", null, el("tr", null, ...["Class", "Ends"].map((t) => el("th", { scope: "col" }, t)),
		...["Packets", "Messages", "Repeated", "NAK, RNR", "Refused"].map((t) => el("th.n", { scope: "col" }, t))));
	const number = (n) => el("td.n", null, n ? count(n) : "");
	const rows = META.pairs.slice(0, SHOWN_PAIRS).map((pair, k) => el("tr", null, el("td", null, pair.class),
		el("td", null, link(`${endText(pair.a)} ↔ ${endText(pair.b)}`, () => showPair(k))),
		number(pair.packets), number(pair.messages), number(pair.retransmitted + pair.duplicates), number(pair.negative), number(pair.refused)));
	const more = META.pairs.length - SHOWN_PAIRS;
	if (more > 0) rows.push(el("tr", null, el("td", { colspan: 7 }, `${count(more)} more: filter by QP or address`)));
	byId("pairs").replaceChildren(head, el("tbody", null, ...rows));
}

const SHOWN_REFUSALS = 6;

const marked = (bits) => (i) => P.flags[i] & bits;

// Status of the filter, the packets, their meaning: "1 gap in the PSNs".
const STANDS = [["refused", marked(MARK.REFUSED), "request", "refused"], ["gap", marked(MARK.GAP), "gap", "in the PSNs"],
	["retransmitted", marked(MARK.RETRANSMITTED), "packet", "retransmitted"], ["duplicate", marked(MARK.DUPLICATE), "duplicate", "of what was acknowledged"],
	["negative", (i) => P.flags[i] & MARK.NEGATIVE && P.syndrome[i] >> 5 === 1, "RNR NAK", "of a receiver without a buffer"],
	["broken", marked(MARK.BAD_ICRC | MARK.MALFORMED), "frame", "with a wrong ICRC, or malformed"],
	["congestion", marked(MARK.CE | MARK.BECN), "packet", "with a CE mark, or CNP"]];

// Unusual events of the log, with the first position of each.
function logStands() {
	const lines = [], first = new Map();
	for (let e = 0; e < E.n; e++) {
		if (E.type[e] === TYPE.PAGE_FAULT ? E.code[e] !== 1 : !(E.shown[e] & WRONG)) continue;
		const key = E.type[e] === TYPE.CQE ? `${E.type[e]} ${E.code[e]}` : `${E.type[e]}`, known = first.get(key);
		if (known) known.n++;
		else first.set(key, { e, n: 1 });
	}
	const say = { [TYPE.CHECK]: ["check of a key", "checks of keys", "refused"], [TYPE.PAGE_FAULT]: ["page fault", "page faults", ""], [TYPE.FAULT]: ["injected fault", "injected faults", ""],
		[TYPE.DROPPED]: ["packet", "packets", "dropped by the device"], [TYPE.RETRY]: ["retry", "retries", ""], [TYPE.QP_STATE]: ["QP", "QPs", "to ERR or SQE by the device"],
		[TYPE.DOORBELL]: ["doorbell", "doorbells", "refused"], [TYPE.LOST]: ["gap", "gaps", "in the log, where events were lost"] };
	for (const { e, n } of first.values()) {
		const [one, many, how] = say[E.type[e]] ?? ["CQE", "CQEs", `with ${spaced(statusText(E.code[e]))}`];
		lines.push(el("li", null, link(`${count(n)} ${n === 1 ? one : many} ${how}`.trim(), () => zoomToEvent(e)), `, the first at ${timeText(E.time[e], 1)}`));
	}
	return lines;
}

// Positions where something unusual begins. Needs the packets.
function showStands() {
	const lines = META.refusals.slice(0, SHOWN_REFUSALS).map(([request, nak]) => {
		const rule = el("span");
		if (LOG) loggedRule(request).then((found) => { if (found?.rule) rule.textContent = `; broken rule: ${found.rule.text} (${found.rule.source})`; });
		return el("li", null, link(`${opText(request)} at ${timeText(P.time[request], 1)}`, () => zoomTo(request)),
			` was refused: ${META.syndromes[P.syndrome[nak]].replace("NAK: ", "")}`, rule);
	});
	const first = STANDS.map(() => -1), sums = STANDS.map(() => 0);
	for (let i = 0; i < P.n; i++) {
		if (!P.flags[i]) continue;
		STANDS.forEach(([, stands], k) => {
			if (!stands(i)) return;
			sums[k]++;
			if (first[k] < 0) first[k] = i;
		});
	}
	STANDS.forEach(([status, , what, how], k) => {
		if (!sums[k] || (status === "refused" && META.refusals.length <= SHOWN_REFUSALS)) return;
		const show = () => { setFilter({ status }); zoomTo(first[k]); };
		lines.push(el("li", null, link(`${count(sums[k])} ${what}${sums[k] === 1 ? "" : "s"} ${how}`, show), `, the first at ${timeText(P.time[first[k]], 1)}`));
	});
	if (LOG) lines.push(...logStands());
	const open = META.totals.kinds.reduce((sum, [[, status], n]) => sum + (status === 0 ? n : 0), 0);
	if (open) lines.push(el("li", null, link(`${count(open)} message${open === 1 ? "" : "s"}`, () => setFilter({ status: "open" })), " without an answer in the capture"));
	if (!lines.length) lines.push(el("li.muted", null, "Nothing: no retransmission, no gap, no NAK."));
	byId("stands").replaceChildren(...lines);
}
