// The packets, a typed array for each field.

const META = JSON.parse(byId("meta").textContent);
const NONE = 0xffffffff;
const MARK = {};
["RETRANSMITTED", "DUPLICATE", "GAP", "REFUSED", "BAD_ICRC", "MALFORMED", "CE", "FECN", "BECN", "ACK_REQ", "SOLICITED", "BACKWARDS", "NEGATIVE", "CUT"]
	.forEach((name, bit) => { MARK[name] = 1 << bit; });

const UNUSUAL = MARK.RETRANSMITTED | MARK.DUPLICATE | MARK.GAP | MARK.REFUSED | MARK.NEGATIVE | MARK.BAD_ICRC | MARK.MALFORMED;

const P = { n: META.totals.packets };   // packets
const M = { n: META.totals.messages };  // messages
let gapBefore = new Map();

let inflating = 0;  // number of items being unpacked

async function inflate(base64) {
	const text = atob(base64);
	const packed = new Uint8Array(text.length);
	for (let i = 0; i < text.length; i++) packed[i] = text.charCodeAt(i);
	inflating++;
	try {
		const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
		return new Uint8Array(await new Response(stream).arrayBuffer());
	} finally {
		inflating--;
	}
}

const ARRAYS = { B: Uint8Array, H: Uint16Array, I: Uint32Array };

async function column(name) {
	const node = byId(`column-${name}`);
	const planes = await inflate(node.textContent);
	const type = ARRAYS[node.dataset.type], size = type.BYTES_PER_ELEMENT, n = planes.length / size;
	node.remove();
	return size === 1 ? planes : joined(planes, type, size, n);
}

function joined(planes, type, size, n) {
	const out = new type(n);
	for (let k = 0; k < size; k++) {
		const shift = 8 * k, from = k * n;
		for (let i = 0; i < n; i++) out[i] |= planes[from + i] << shift;
	}
	return out;
}

const PACKET_COLUMNS = ["delta", "pair", "message", "number", "file", "op", "psn", "length", "flags", "syndrome", "key"];
const MESSAGE_COLUMNS = ["first", "last", "answer", "bytes", "packets", "repeats", "waits", "kind", "status"].map((name) => `m-${name}`);

async function loadColumns(progress) {
	const names = [...PACKET_COLUMNS, ...MESSAGE_COLUMNS, ...(META.log ? LOG_COLUMNS : [])], found = {};
	for (const [done, name] of names.entries()) {
		found[name] = await column(name);
		progress((done + 1) / names.length);
	}
	takeColumns(found);
}

// Replaces all columns at once: while they are unpacked, the page shows the old ones.
function takeColumns(found) {
	P.n = META.totals.packets;
	M.n = META.totals.messages;
	for (const name of PACKET_COLUMNS) P[name] = found[name];
	for (const name of MESSAGE_COLUMNS) M[name.slice(2)] = found[name];
	P.time = timesOf(P.delta, META.jumps);
	P.delta = null;
	gapBefore = new Map(META.gaps[0].map((packet, k) => [packet, META.gaps[1][k]]));
	if (META.log) takeEvents(found);
}

// Nanoseconds since the beginning of the page, from differences; large ones are separate.
function timesOf(delta, large) {
	const jumps = new Map(large), times = new Float64Array(delta.length);
	let now = 0;
	for (let i = 0; i < delta.length; i++) {
		now += delta[i] === NONE ? jumps.get(i) ?? NONE : delta[i];
		times[i] = now;
	}
	return times;
}

// The first bytes of a packet. They are unpacked in pieces of a thousand, of which the last few are
// kept.
const pieces = new Map();

function piece(which) {
	let found = pieces.get(which);
	if (!found) {
		found = inflate(byId(`heads-${which}`).textContent);
		pieces.set(which, found);
		if (pieces.size > 16) pieces.delete(pieces.keys().next().value);
	}
	return found;
}

async function headOf(packet) {
	const which = Math.floor(packet / META.chunk), place = packet % META.chunk;
	const bytes = await piece(which);
	let at = Math.min(META.chunk, P.n - which * META.chunk);
	for (let i = 0; i < place; i++) at += bytes[i];
	return bytes.subarray(at, at + bytes[place]);
}

// The first index in `list` (packets in order of time, or all of them) whose time is not before t.
function lowerBound(list, from, to, t) {
	while (from < to) {
		const mid = (from + to) >>> 1;
		if (P.time[list ? list[mid] : mid] < t) from = mid + 1;
		else to = mid;
	}
	return from;
}

const opcodeOf = (i) => META.opcodes[P.op[i]];
const backwards = (i) => (P.flags[i] & MARK.BACKWARDS) !== 0;

// A group of opcodes for filters and colours, for each code.
const GROUPS = ["SEND", "WRITE", "READ", "ATOMIC", "FLUSH", "ACK", "NAK", "CNP", "Other"];
const GROUP_OF = new Uint8Array(256).fill(8);
for (const [code, op] of Object.entries(META.opcodes)) {
	GROUP_OF[code] = { SEND: 0, WRITE: 1, ATOMIC_WRITE: 1, READ: 2, READ_RESPONSE: 2, ATOMIC: 3, ATOMIC_ACK: 3, FLUSH: 4, ACK: 5, CNP: 7 }[op.kind];
}
const groupOf = (i) => (P.flags[i] & MARK.NEGATIVE ? 6 : GROUP_OF[P.op[i]]);
const GROUP_COLOURS = ["send", "write", "read", "atomic", "atomic", "ack", "nak", "cnp", "muted"];

function colourOf(i) {
	if (P.flags[i] & MARK.NEGATIVE) return palette[P.syndrome[i] >> 5 === 1 ? "rnr" : "nak"];
	return palette[GROUP_COLOURS[GROUP_OF[P.op[i]]]];
}

// The time at which a message ends: that of its answer, or of its last packet if it needs none;
// otherwise unknown.
function messageEnd(m) {
	if (M.answer[m] !== NONE) return P.time[M.answer[m]];
	return M.status[m] === 0 ? Infinity : P.time[M.last[m]];
}

function endText(end) {
	const text = end.address.includes(":") ? `[${end.address}]` : end.address;
	return end.qp === null ? text : `${text} QP ${hex(end.qp)}`;
}

function pairText(pair) {
	return `${pair.class}  ${endText(pair.a)} ↔ ${endText(pair.b)}`;
}

function opText(i) {
	const op = opcodeOf(i);
	if (!op) return `opcode ${hex(P.op[i], 2)}`;
	if (P.flags[i] & MARK.NEGATIVE) return META.syndromes[P.syndrome[i]];
	return op.name.replace(/^\S+ /, "").replaceAll("_", " ").replace("ACKNOWLEDGE", "ACK").toLowerCase()
		.replace(/^(send|write|read|atomic|ack|cnp|flush|compare swap|fetch add)/, (s) => s.toUpperCase());
}

function marksOf(i) {
	const f = P.flags[i], marks = [];
	if (f & MARK.REFUSED) marks.push("refused");
	if (f & MARK.RETRANSMITTED) marks.push("retransmitted");
	if (f & MARK.DUPLICATE) marks.push("duplicate");
	if (f & MARK.GAP) marks.push(`gap of ${count(gapBefore.get(i) || 1)}`);
	if (f & MARK.BAD_ICRC) marks.push("wrong ICRC");
	if (f & MARK.MALFORMED) marks.push("malformed");
	if (f & MARK.CE) marks.push("CE");
	if (f & MARK.BECN) marks.push("BECN");
	return marks;
}
