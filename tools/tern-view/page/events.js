// Events of the device, from its logs: columns of all of them, and the other members of each record
// in pieces. E.n is 0 without a log.

let LOG = META.log, NAMES = LOG?.names;
const E = { n: LOG ? LOG.events : 0 };  // events
const W = { n: LOG ? LOG.work : 0 };    // work requests
const R = { n: LOG ? LOG.rates : 0 };   // spans in which the pacer lets a QP send at one rate
const TYPE = {};
["LOST", "EPOCH", "RESET", "DOORBELL", "POSTED", "WQE", "SENT", "RECEIVED", "DROPPED", "RETRY", "CHECK", "KEY", "PAGE_FAULT", "CQE", "INTERRUPT",
	"FAULT", "QP_STATE", "FULL", "RATE"].forEach((name, k) => { TYPE[name] = k + 1; });
const ROW_OF_ITS_OWN = 1, WRONG = 2;    // E.shown
const RECEIVES = 1, IMPLIED = 2, UNSEEN = 4;    // W.flags
const NO_STATUS = 255;
const EVENT_COLUMNS = ["delta", "log", "type", "code", "qpn", "lane", "shown", "packet", "place", "life"];
const WORK_COLUMNS = ["log", "qpn", "index", "flags", "code", "status", "length", "doorbell", "posted", "wqe", "sent", "cqe", "interrupt", "check",
	"message", "lane"];

const RATE_COLUMNS = ["event", "next", "rate"];

const LOG_COLUMNS = [...EVENT_COLUMNS.map((name) => `e-${name}`), ...WORK_COLUMNS.map((name) => `w-${name}`), ...RATE_COLUMNS.map((name) => `r-${name}`)];

function takeEvents(found) {
	E.n = LOG.events;
	W.n = LOG.work;
	R.n = LOG.rates;
	for (const name of EVENT_COLUMNS) E[name] = found[`e-${name}`];
	for (const name of WORK_COLUMNS) W[name] = found[`w-${name}`];
	for (const name of RATE_COLUMNS) R[name] = found[`r-${name}`];
	E.time = timesOf(E.delta, LOG.jumps);
	E.delta = null;
	W.begin = new Float64Array(W.n);
	W.end = new Float64Array(W.n);
	for (let w = 0; w < W.n; w++) {
		const first = [W.doorbell[w], W.posted[w], W.wqe[w], W.cqe[w]].find((e) => e !== NONE);
		W.begin[w] = first === undefined ? 0 : E.time[first];
		W.end[w] = W.cqe[w] === NONE ? Infinity : E.time[W.cqe[w]];
	}
	linkMessages();
	E.byPacket = index(E.n, P.n, (e) => E.packet[e]);
	const ofLane = (e) => (E.shown[e] && E.lane[e] !== NONE ? E.lane[e] >>> 1 : NONE);
	E.byPair = index(E.n, META.pairs.length, ofLane);
	E.byLife = index(E.n, LOG.keys.lives.length, (e) => E.life[e]);
}

// The send request of each message, and the receive request that it filled.
function linkMessages() {
	M.work = new Uint32Array(M.n).fill(NONE);
	M.receive = new Uint32Array(M.n).fill(NONE);
	for (let w = 0; w < W.n; w++) {
		const m = W.message[w];
		if (m !== NONE) (W.flags[w] & RECEIVES ? M.receive : M.work)[m] = w;
	}
}

// {starts, items}: the numbers below n by group, those of group k from starts[k] on; groupOf
// returns NONE for some.
function index(n, groups, groupOf) {
	const starts = new Uint32Array(groups + 1);
	for (let i = 0; i < n; i++) {
		const k = groupOf(i);
		if (k !== NONE) starts[k + 1]++;
	}
	for (let k = 1; k <= groups; k++) starts[k] += starts[k - 1];
	const next = starts.slice(), items = new Uint32Array(starts[groups]);
	for (let i = 0; i < n; i++) {
		const k = groupOf(i);
		if (k !== NONE) items[next[k]++] = i;
	}
	return { starts, items };
}

const inGroup = ({ starts, items }, k) => items.subarray(starts[k], starts[k + 1]);

// The first index in `items`, which are events, whose time is not before t.
function eventBound(items, t, from = 0, to = items.length) {
	while (from < to) {
		const mid = (from + to) >>> 1;
		if (E.time[items[mid]] < t) from = mid + 1;
		else to = mid;
	}
	return from;
}

// ---- records ----

const eventPieces = new Map();

// A piece with its members as columns; null while it is unpacked, and then `whenThere` is called.
function eventPiece(which, whenThere) {
	const found = eventPieces.get(which);
	if (found && !found.then) return found;
	if (!found) {
		const unpacking = inflate(byId(`events-${which}`).textContent).then((bytes) => {
			eventPieces.set(which, membersOf(bytes, Math.min(META.chunk, E.n - which * META.chunk)));
			if (eventPieces.size > 24) eventPieces.delete(eventPieces.keys().next().value);
		});
		eventPieces.set(which, unpacking);
	}
	if (whenThere) eventPieces.get(which).then(whenThere);
	return null;
}

function membersOf(bytes, n) {
	const members = { n };
	let at = 0;
	for (const [name, size] of LOG.piece) {
		const from = at, plane = (k, i) => bytes[from + k * n + i];
		members[name] = size === 8
			? (i) => { let v = 0n; for (let k = 7; k >= 0; k--) v = v << 8n | BigInt(plane(k, i)); return v; }
			: (i) => { let v = 0; for (let k = size - 1; k >= 0; k--) v = v * 256 + plane(k, i); return v; };
		at += size * n;
	}
	return members;
}

// The whole record of an event, or null while its piece is unpacked.
function recordOf(e, whenThere) {
	const members = eventPiece(Math.floor(e / META.chunk), whenThere), i = e % META.chunk;
	if (!members) return null;
	const record = { type: E.type[e], code: E.code[e], qpn: E.qpn[e] };
	for (const [name] of LOG.piece) record[name] = members[name](i);
	return record;
}

async function recordsOf(events) {
	const found = [];
	for (const e of events) {
		while (!recordOf(e)) await eventPieces.get(Math.floor(e / META.chunk));
		found.push(recordOf(e));
	}
	return found;
}

// ---- text ----

const nameOf = (names, n) => names[n] ?? `${n}`;
const spaced = (name) => name.replaceAll("_", " ");
const typeText = (e) => nameOf(NAMES.types, E.type[e]);
const statusText = (code) => nameOf(NAMES.status, code);
const stateText = (code) => (code === 0xff ? "none" : nameOf(NAMES.states, code));
const qpText = (qpn) => (qpn ? `QP ${hex(qpn)}` : "");
const logName = (which) => LOG.logs[which].name;

function rightsText(bits) {
	const names = NAMES.access.filter((_, k) => bits >> k & 1);
	return names.length ? names.join(", ") : "no right";
}

// The last byte of a range, which may wrap.
function spanText64(addr, length) {
	return length ? `${hex(addr)} to ${hex(BigInt.asUintN(64, addr + length - 1n))}, ${bytesText(Number(length))}` : `${hex(addr)}, no byte`;
}

function ruleOf(number) {
	const found = NAMES.rules[number];
	return found ? { name: found[0], text: found[1], source: found[2] } : { name: `${number}`, text: "this tool does not know the rule", source: "" };
}

const OPCODE_NAMES = (code) => META.opcodes[code]?.name ?? `opcode ${hex(code, 2)}`;

const EVENT_TEXTS = {
	LOST: (r) => `${count(Number(r.length))} events lost`,
	EPOCH: () => "the clock has a new epoch: the machine was stopped or continued",
	RESET: () => "all objects and keys are gone",
	DOORBELL: (r) => `${nameOf(NAMES.doorbells, r.code)}${r.code ? ` ${hex(r.index)}` : ""}, page ${r.key}${r.flags & 0x200 ? ": refused, the page has no such queue" : ""}`,
	POSTED: (r) => `producer index ${r.value} to ${r.index}`,
	WQE: (r) => (r.flags & 1 ? `receive ${r.index}${r.detail ? ` of SRQ ${hex(r.detail)}` : ""}: room for ${bytesText(Number(r.length))}`
		: `${spaced(nameOf(NAMES.work, r.code))} ${r.index}: ${bytesText(Number(r.length))}${r.key ? `, rkey ${hex(r.key, 8)} at ${hex(r.addr)}` : ""}${r.value ? `; wrong: ${statusText(r.value)}` : ""}`),
	SENT: (r) => packetRecord(r), RECEIVED: (r) => packetRecord(r),
	DROPPED: (r) => `${OPCODE_NAMES(r.code)} PSN ${hex(r.index)}: ${nameOf(NAMES.drops, r.key)}`,
	RETRY: (r) => `back to PSN ${hex(r.index)}, ${r.value} retries left`,
	CHECK: (r) => `${nameOf(NAMES.checks, r.code)} by ${hex(r.key, 8)}, ${spanText64(r.addr, r.length)}: ${resultText(r)}`,
	KEY: (r) => `${nameOf(NAMES.kinds, r.index)} ${nameOf(NAMES.changes, r.code)}, ${r.index === 6 ? `number ${r.key}` : hex(r.key, 8)}, ${spanText64(r.addr, r.length)}${rightsOfKey(r)}`,
	PAGE_FAULT: (r) => `${nameOf(NAMES.page_faults, r.code)}, ${r.flags & 0x100 ? "responder" : "requester"}, key ${hex(r.key, 8)}, ${spanText64(r.addr, r.length)}`,
	CQE: (r) => `${r.flags & 1 ? "receive" : "send"} ${r.index}: ${statusText(r.code)}, ${bytesText(Number(r.length))}, wr_id ${hex(r.addr)}, CQ ${hex(r.key)}`,
	INTERRUPT: (r) => `vector ${r.index}${r.value || r.key ? `, ${nameOf(NAMES.events, r.value)} of ${hex(r.key)}` : ""}`,
	FAULT: (r) => `${nameOf(NAMES.faults, r.code)}, rule ${r.key}${r.code < 7 ? `: ${OPCODE_NAMES(r.value)} PSN ${hex(r.index)}, ${r.flags & 1 ? "incoming" : "outgoing"}` : r.code === 8 ? `: ${spanText64(r.addr, r.length)}` : `: command ${hex(r.value, 2)}`}`,
	RATE: (r) => (r.length ? `${amount(Number(r.length), "bit/s")}${r.addr ? `: congestion control, target ${amount(Number(r.addr), "bit/s")}, alpha ${(r.value / (1 << 20)).toFixed(3)}` : ""}`
		: "no limit"),
	FULL: () => "the file is at its limit: what happened later is not in it",
	QP_STATE: (r) => `${stateText(r.index)} to ${stateText(r.code)}, by ${r.value ? "the device" : "software"}${r.detail ? `, event ${nameOf(NAMES.events, r.detail)}` : ""}`,
};

const TYPE_NAMES = Object.keys(TYPE);
const eventText = (record) => EVENT_TEXTS[TYPE_NAMES[record.type - 1]]?.(record) ?? "a type that this tool does not know";

function packetRecord(r) {
	const marks = [r.flags & 2 ? "loopback" : "", r.flags & 16 ? "CE" : "", r.flags & 64 ? syndromeText(r.detail >>> 24) : ""].filter(Boolean);
	return `${OPCODE_NAMES(r.code)} PSN ${hex(r.index)}, ${bytesText(Number(r.length))}, peer's QP ${hex(r.value)}${marks.length ? `, ${marks.join(", ")}` : ""}`;
}

function resultText(r) {
	return nameOf(NAMES.results, r.index) + (r.index === 2 ? `, broken rule: ${ruleOf(r.detail).text} (${ruleOf(r.detail).source})` : "");
}

function rightsOfKey(r) {
	if (r.index === 6 || r.code === 2 || r.code === 7) return "";
	return `, ${rightsText(r.value)}${r.code === 6 ? `, of region ${hex(r.detail, 8)}` : ""}`;
}
