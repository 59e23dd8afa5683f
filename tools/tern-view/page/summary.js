// The summary needs no packet: it is there before they are unpacked.

function showSummary() {
	const t = META.totals, mark = (name) => t.marks[Math.log2(MARK[name])];
	byId("when").textContent = `From ${META.start}${META.files.length > 1 ? `; ${META.files.length} files` : ""}`;
	const naks = t.negative.filter(([code]) => code >> 5 === 3).reduce((sum, [, n]) => sum + n, 0);
	const waits = t.negative.filter(([code]) => code >> 5 === 1).reduce((sum, [, n]) => sum + n, 0);
	const cnps = t.operations.filter(([code]) => META.opcodes[code]?.kind === "CNP").reduce((sum, [, n]) => sum + n, 0);
	const refused = t.kinds.reduce((sum, [[, status], n]) => sum + (status >= 3 ? n : 0), 0);
	const figures = [["Packets", count(t.packets)], ["Messages", count(t.messages)], ["Payload", bytesText(t.bytes)], ["Duration", durationText(META.duration)],
		["Retransmitted", mark("RETRANSMITTED"), "warm"], ["Duplicates", mark("DUPLICATE"), "warm"], ["Missing", t.missing, "hot"], ["NAKs", naks, "hot"],
		["RNR NAKs", waits, "warm"], ["Refused", refused, "hot"], ["CE marks", mark("CE"), ""], ["CNPs", cnps, ""]];
	byId("figures").replaceChildren(...figures.map(([name, value, tone]) => el(value && tone ? `div.${tone}` : "div", null, el("dt", null, name),
		el("dd", null, typeof value === "number" ? count(value) : value))));
	showNotices();
	showPairs();
}

function showNotices() {
	const lines = META.troubles.map((t) => `${t}: the page has the frames before it.`);
	const others = META.files.reduce((sum, f) => sum + f.others, 0), cut = META.files.reduce((sum, f) => sum + f.cut, 0);
	if (cut) lines.push(`${count(cut)} frames are not whole in the capture; their ICRC is not checked.`);
	byId("notices").replaceChildren(...lines.map((line) => el("p.notice", null, line)));
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

// Status of the filter, marks, what they mean: "1 gap in the PSNs".
const STANDS = [["refused", MARK.REFUSED, "request", "refused"], ["gap", MARK.GAP, "gap", "in the PSNs"], ["retransmitted", MARK.RETRANSMITTED, "packet", "retransmitted"],
	["duplicate", MARK.DUPLICATE, "duplicate", "of what was acknowledged"], ["broken", MARK.BAD_ICRC | MARK.MALFORMED, "frame", "with a wrong ICRC, or malformed"],
	["congestion", MARK.CE | MARK.BECN, "packet", "with a CE mark, or CNP"]];

// Needs the packets: the places where something unusual begins.
function showStands() {
	const lines = META.refusals.slice(0, SHOWN_REFUSALS).map(([request, nak]) => el("li", null,
		link(`${opText(request)} at ${timeText(P.time[request], 1)}`, () => zoomTo(request)), ` was refused: ${META.syndromes[P.syndrome[nak]].replace("NAK: ", "")}`));
	const first = STANDS.map(() => -1), sums = STANDS.map(() => 0);
	for (let i = 0; i < P.n; i++) {
		if (!P.flags[i]) continue;
		STANDS.forEach(([, bits], k) => {
			if (!(P.flags[i] & bits)) return;
			sums[k]++;
			if (first[k] < 0) first[k] = i;
		});
	}
	STANDS.forEach(([status, , what, how], k) => {
		if (!sums[k] || (status === "refused" && META.refusals.length <= SHOWN_REFUSALS)) return;
		const show = () => { setFilter({ status }); zoomTo(first[k]); };
		lines.push(el("li", null, link(`${count(sums[k])} ${what}${sums[k] === 1 ? "" : "s"} ${how}`, show), `, the first at ${timeText(P.time[first[k]], 1)}`));
	});
	const open = META.totals.kinds.reduce((sum, [[, status], n]) => sum + (status === 0 ? n : 0), 0);
	if (open) lines.push(el("li", null, link(`${count(open)} message${open === 1 ? "" : "s"}`, () => setFilter({ status: "open" })), " without an answer in the capture"));
	if (!lines.length) lines.push(el("li.muted", null, "Nothing: no retransmission, no gap, no NAK."));
	byId("stands").replaceChildren(...lines);
}
