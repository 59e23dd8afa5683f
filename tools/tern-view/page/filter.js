// Filters and their results: packets in order of time, the same by QP pair, messages.

const filter = { pair: -1, text: "", groups: GROUPS.map(() => true), status: "all" };

const STATUSES = {
	all: ["Any", null],
	marked: ["Anything unusual", (i) => P.flags[i] & (UNUSUAL | MARK.CE | MARK.BECN)],
	refused: ["Refused, and the NAK", (i) => P.flags[i] & MARK.REFUSED || (P.flags[i] & MARK.NEGATIVE && P.syndrome[i] >> 5 === 3 && P.syndrome[i] !== 0x60)],
	negative: ["NAK and RNR NAK", (i) => P.flags[i] & MARK.NEGATIVE],
	retransmitted: ["Retransmitted", (i) => P.flags[i] & MARK.RETRANSMITTED],
	duplicate: ["Duplicate", (i) => P.flags[i] & MARK.DUPLICATE],
	gap: ["After a gap", (i) => P.flags[i] & MARK.GAP],
	broken: ["Wrong ICRC or malformed", (i) => P.flags[i] & (MARK.BAD_ICRC | MARK.MALFORMED)],
	congestion: ["CE mark or CNP", (i) => P.flags[i] & (MARK.CE | MARK.BECN)],
	done: ["Message acknowledged", (i) => P.message[i] !== NONE && M.status[P.message[i]] === 1],
	failed: ["Message refused", (i) => P.message[i] !== NONE && M.status[P.message[i]] >= 3],
	open: ["Message without an answer", (i) => P.message[i] !== NONE && M.status[P.message[i]] === 0],
};

// view: the packets; byPair: the same by pair, those of pair k from starts[k] on; pairs: those that
// have any. The same for messages.
const V = {
	version: 0, view: new Uint32Array(0), starts: null, byPair: null, pairs: [],
	messages: new Uint32Array(0), messageStarts: null, messagesByPair: null, latest: null,
	work: new Uint32Array(0), workByPair: null, workLatest: null,
};

function pairsAllowed() {
	const wanted = filter.text.trim().toLowerCase();
	const number = /^(0x[0-9a-f]+|\d+)$/.test(wanted) ? Number(wanted) : null;
	const ends = (pair) => [pair.a, pair.b];
	return META.pairs.map((pair, k) => (filter.pair < 0 || filter.pair === k)
		&& (!wanted || ends(pair).some((end) => (number !== null ? end.qp === number : end.address.includes(wanted)))));
}

function applyFilter() {
	const pairs = pairsAllowed(), predicate = STATUSES[filter.status][1];
	const all = pairs.every(Boolean), groups = filter.groups.map(Number), everything = groups.every(Boolean);
	const view = new Uint32Array(P.n), seen = new Uint8Array(M.n), counts = new Uint32Array(META.pairs.length + 1);
	let n = 0;
	for (let i = 0; i < P.n; i++) {
		const pair = P.pair[i];
		if (!all && !pairs[pair]) continue;
		if (!everything && !groups[groupOf(i)]) continue;
		if (predicate && !predicate(i)) continue;
		view[n++] = i;
		counts[pair + 1]++;
		if (P.message[i] !== NONE) seen[P.message[i]] = 1;
	}
	V.view = view.subarray(0, n);
	V.messages = messagesSeen(seen);
	V.pairs = META.pairs.map((_, k) => k).filter((k) => counts[k + 1] > 0);
	[V.starts, V.byPair] = distribute(V.view, (i) => P.pair[i], counts);
	groupMessages();
	if (LOG) {
		V.work = workSeen(seen, pairs, all && everything && !predicate, everything && !predicate);
		groupWork();
	}
	V.version++;
}

function messagesSeen(seen) {
	const out = new Uint32Array(M.n);
	let n = 0;
	for (let m = 0; m < M.n; m++) if (seen[m]) out[n++] = m;
	return out.subarray(0, n);
}

// Work requests of the messages that pass; without a message, those of the pairs that pass.
// anything: no filter is set; pairsOnly: no filter except for pairs.
function workSeen(seen, pairs, anything, pairsOnly) {
	const out = new Uint32Array(W.n);
	let n = 0;
	for (let w = 0; w < W.n; w++) {
		const m = W.message[w], lane = W.lane[w];
		if (anything || (m !== NONE ? seen[m] : pairsOnly && lane !== NONE && pairs[lane >>> 1])) out[n++] = w;
	}
	return out.subarray(0, n);
}

// A counting sort: [first place of each pair, the items by pair].
function distribute(items, pairOf, counts) {
	const starts = Uint32Array.from(counts);
	for (let k = 1; k < starts.length; k++) starts[k] += starts[k - 1];
	const next = starts.slice(), out = new Uint32Array(items.length);
	for (const item of items) out[next[pairOf(item)]++] = item;
	return [starts, out];
}

// The messages by pair, and the latest end so far of each, which shows where those that reach into
// a window begin.
function groupMessages() {
	const pairOf = (m) => P.pair[M.first[m]], counts = new Uint32Array(META.pairs.length + 1);
	for (const m of V.messages) counts[pairOf(m) + 1]++;
	[V.messageStarts, V.messagesByPair] = distribute(V.messages, pairOf, counts);
	V.latest = new Float64Array(V.messagesByPair.length);
	for (let k = 0; k < META.pairs.length; k++) {
		let latest = -Infinity;
		for (let at = V.messageStarts[k]; at < V.messageStarts[k + 1]; at++) {
			latest = Math.max(latest, messageEnd(V.messagesByPair[at]));
			V.latest[at] = latest;
		}
	}
}

function pairBounds(pair, t0, t1) {
	const from = V.starts[pair], to = V.starts[pair + 1];
	return [lowerBound(V.byPair, from, to, t0), lowerBound(V.byPair, from, to, t1)];
}
