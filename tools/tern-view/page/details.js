// The selected packet: its headers field by field, its message, and for a refusal the rules that
// can have caused it.

let detailsFor = -1;

async function showDetails(packet) {
	detailsFor = packet;
	const box = byId("details");
	if (packet < 0 && S.event >= 0) {
		showEvent(S.event);
		return;
	}
	if (packet < 0) {
		box.replaceChildren(el("p.muted", null, "Select a packet in the ladder or in a table."));
		return;
	}
	const head = await headOf(packet), op = opcodeOf(packet);
	const refusal = await refusalOf(packet), events = LOG ? eventsOfPacket(packet) : [], records = await recordsOf(events);
	if (detailsFor !== packet) return;
	box.replaceChildren(...[
		el("p.lead", null, opText(packet)),
		el("p", null, placeText(packet)),
		messageLine(packet),
		LOG && P.message[packet] !== NONE ? workLine(P.message[packet]) : null,
		refusal,
		el("div.row", null, el("button", { type: "button", onclick: () => zoomTo(packet) }, "Zoom to it"), ...answerButtons(packet)),
		...(LOG && events.length ? eventTable("In the device", events, records) : []),
		...(head.length ? decodeHead(head, op) : loggedFields(packet)).flatMap(headerPart),
		...payloadPart(packet),
		!head.length ? null : el("details", null, el("summary", null, "Bytes of the headers"), el("pre.hex", null, hexDump(head))),
	].filter(Boolean));
}

// A page without a capture: the header fields that the log has.
function loggedFields(i) {
	const fields = [["opcode", `${hex(P.op[i], 2)}  ${opcodeOf(i)?.name ?? "unknown"}`], ["destination", destination(i)], ["PSN", `${hex(P.psn[i])}  (${P.psn[i]})`]];
	if (P.key[i]) fields.push(["rkey", hex(P.key[i], 8)]);
	if (opcodeOf(i)?.headers.includes("AETH")) fields.push(["syndrome", `${hex(P.syndrome[i], 2)}  ${syndromeText(P.syndrome[i])}`]);
	return [{ name: "From the log", fields }];
}

function placeText(i) {
	const marks = marksOf(i), file = META.files.length > 1 ? ` of ${META.files[P.file[i]].name}` : "";
	return `${directed(i)} (${META.pairs[P.pair[i]].class}), ${META.fromLogs ? "record" : "frame"} ${frameText(i)}${file}, ${timeText(P.time[i], 1)}${marks.length ? `: ${marks.join(", ")}` : ""}`;
}

function headerPart({ name, fields }) {
	const items = fields.map(([field, value]) => el(String(value).length > 21 ? "div.wide" : "div", null, el("dt", null, field), el("dd", null, String(value))));
	return [el("h4", null, name), el("dl.fields", null, ...items)];
}

function payloadPart(packet) {
	if (META.fromLogs) return [];
	const f = P.flags[packet], icrc = f & MARK.BAD_ICRC ? "wrong" : f & (MARK.CUT | MARK.MALFORMED) ? "not checked" : "not wrong";
	return headerPart({ name: "Behind the headers", fields: [["payload", `${count(P.length[packet])} B`], ["ICRC", icrc]] });
}

function hexDump(bytes) {
	return [...bytes].map((b) => b.toString(16).padStart(2, "0")).join(" ");
}

function messageLine(packet) {
	const m = P.message[packet];
	if (m === NONE) return null;
	const end = messageEnd(m), took = end === Infinity ? "" : `, ${durationText(end - P.time[M.first[m]])}`;
	const kind = META.kinds[M.kind[m]].replace("_", " "), packets = `${count(M.packets[m])} request packet${M.packets[m] === 1 ? "" : "s"}`;
	return el("p", null, `${kind} of ${bytesText(M.bytes[m])} in ${packets}: ${META.status[M.status[m]]}${took}`);
}

function answerButtons(packet) {
	const m = P.message[packet];
	if (m === NONE) return [];
	const places = [["Its first packet", M.first[m]], ["Its answer", M.answer[m]]];
	return places.filter(([, at]) => at !== NONE && at !== packet).map(([text, at]) => el("button", { type: "button", onclick: () => zoomTo(at) }, text));
}

// Given either of them, the refused request and the packet that reports the refusal.
function refusalPair(packet) {
	const m = P.message[packet];
	if (m === NONE) return null;
	if (M.status[m] < 3 || (!(P.flags[packet] & MARK.REFUSED) && packet !== M.answer[m])) return null;
	let request = P.flags[packet] & MARK.REFUSED ? packet : M.first[m];
	for (let i = M.answer[m]; i >= M.first[m]; i--) {
		if (P.message[i] === m && P.flags[i] & MARK.REFUSED) { request = i; break; }
	}
	return { request, nak: M.answer[m], message: m };
}

async function refusalOf(packet) {
	const f = P.flags[packet];
	if (f & MARK.BAD_ICRC) return refusalBox("Not processed: wrong ICRC", META.dropped.icrc.effect, [META.dropped.icrc], []);
	if (f & MARK.MALFORMED) return refusalBox("Not processed: malformed", META.dropped.malformed.effect, [META.dropped.malformed], []);
	const pair = refusalPair(packet);
	if (!pair) return packetNak(packet);
	const first = M.first[pair.message], op = opcodeOf(first), access = accessOf(await headOf(first), op), code = P.syndrome[pair.nak];
	const logged = LOG ? await loggedRule(pair.request) : null;
	const title = `Refused: ${META.syndromes[code].replace("NAK: ", "")} (NAK ${hex(code)})`;
	if (logged?.rule) return loggedBox(title, META.effects[code], logged, access ? evidence(pair, access) : []);
	return refusalBox(title, META.effects[code], rulesFor(code, op, access), access ? evidence(pair, access) : []);
}

// The device reports the rule.
function loggedBox(title, effect, { event, record, rule }, facts) {
	const source = rule.source.split(", ").map((s) => (/^[Co]?\d/.test(s) ? `IBTA ${s}` : s)).join(" · ");
	return el("div.refusal.logged", null, el("h4", null, title),
		el("p.rule", null, el("strong", null, "The rule that it broke: "), `${rule.text}. `, el("span.where", null, `${source ? `${source} · ` : ""}TERN_LOG_RULE_${rule.name}`)),
		el("p", null, `The check in ${logName(E.log[event])} at ${timeText(E.time[event], 1)}: ${nameOf(NAMES.checks, record.code)} by ${hex(record.key, 8)}, ${spanText64(record.addr, record.length)}, needs ${rightsText(record.value)}.`),
		...keyFacts(event), ...facts.map((f) => el("p", null, f)), effect ? el("p", null, effect) : null);
}

// The object of the key when it was refused.
function keyFacts(event) {
	const life = LOG.keys.lives[E.life[event]];
	if (!life) return [];
	const before = life.steps.filter(([e]) => e < event), last = before[before.length - 1];
	if (!last) return [el("p", null, "Nothing in the log has this key.")];
	return [el("p", null, `The key is that of a ${nameOf(NAMES.kinds, life.kind)}; the last change before: ${stepText(last)}.`)];
}

// NAKs that request a repetition instead of reporting a failure.
function packetNak(packet) {
	if (!(P.flags[packet] & MARK.NEGATIVE)) return null;
	const code = P.syndrome[packet];
	if (code >> 5 === 1) {
		return refusalBox(META.syndromes[code], "The requester waits that long, then repeats from this PSN on, rnr_retry times.",
			[{ rule: "SEND, WRITE with immediate: a receive WQE is available.", clause: "", page: "spec/wire, Checks of an expected request" }], []);
	}
	if (code !== 0x60) return refusalBox(META.syndromes[code], META.effects[code] || "", META.rules.filter((r) => r.code === code && r.kinds === null), []);
	const rule = { rule: "The PSN is the expected one: a packet before this one is missing.", clause: "", page: "spec/wire, PSN" };
	return refusalBox(META.syndromes[code], META.effects[code], [rule], []);
}

function rulesFor(code, op, access) {
	const fill = (rule) => rule.replace("{right}", META.rights[op.kind] || "-").replace("{range}", access ? rangeText(access) : "the range of the request");
	const fits = (r) => r.code === code && (r.kinds === null || r.kinds.includes(op.kind)) && (!r.rule.startsWith("XRC:") || op.name.startsWith("XRC"));
	return META.rules.filter(fits).map((r) => ({ ...r, rule: fill(r.rule) }));
}

function rangeText({ va, length }) {
	return length ? `${hex(va)} to ${hex(BigInt.asUintN(64, va + BigInt(length) - 1n))}, ${count(length)} bytes` : `${hex(va)}, no byte`;
}

// Evidence of the capture about the key: whether it worked before.
function evidence(pair, access) {
	const at = P.pair[pair.request], direction = backwards(pair.request), key = Number(access.key);
	let used = 0, good = 0, refused = 0, last = -1;
	for (let m = 0; m < pair.message; m++) {
		const first = M.first[m];
		if (P.key[first] !== key || P.pair[first] !== at || backwards(first) !== direction || META.kinds[M.kind[m]] === "SEND") continue;
		used++;
		if (M.status[m] === 1) [good, last] = [good + 1, M.answer[m]];
		if (M.status[m] >= 3) refused++;
	}
	const lines = [`The request: rkey ${access.key}, ${rangeText(access)}.`];
	if (!used) lines.push("The capture shows no earlier use of this key by this QP.");
	else lines.push(`Earlier uses of this key by this QP: ${count(used)}, ${count(good)} acknowledged, ${count(refused)} refused.`);
	if (last >= 0) lines.push(`The last one was acknowledged ${durationText(P.time[pair.nak] - P.time[last])} before the NAK.`);
	return lines;
}

function refusalBox(title, effect, rules, facts) {
	const lead = rules.length === 1 ? "The rule:"
		: "One of these rules does not hold. The responder checks them in this order, and its answer does not say which one it was:";
	const source = (r) => (r.clause ? `${r.clause.startsWith("ibv") ? "" : "IBTA "}${r.clause} · ` : "") + `Documentation/${r.page}`;
	return el("div.refusal", null, el("h4", null, title), ...facts.map((f) => el("p", null, f)),
		rules.length ? el("p", null, lead) : null,
		el("ol", null, ...rules.map((r) => el("li", null, r.rule, el("span.where", null, source(r))))),
		effect ? el("p", null, effect) : null);
}
