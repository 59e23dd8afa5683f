// The time window, the selection, and when to draw.

const S = { t0: 0, t1: 1, selected: -1, lane: 0, painters: [], asked: false, follow: [], even: true, events: true, event: -1, work: undefined };
const SHORTEST = 1000;  // ns: a microsecond from top to bottom

// The capture with a small margin at both ends.
function extent() {
	const end = Math.max(META.duration, SHORTEST), room = end * 0.02;
	return [-room, end + room];
}

function setWindow(t0, t1) {
	const [first, last] = extent();
	let span = Math.min(Math.max(t1 - t0, SHORTEST), last - first);
	const middle = (t0 + t1) / 2;
	t0 = Math.min(Math.max(middle - span / 2, first), last - span);
	if (t0 === S.t0 && t0 + span === S.t1) return false;
	S.t0 = t0;
	S.t1 = t0 + span;
	draw();
	return true;
}

function zoom(factor, at = (S.t0 + S.t1) / 2) {
	return setWindow(at - (at - S.t0) * factor, at + (S.t1 - at) * factor);
}

const pan = (part) => setWindow(S.t0 + (S.t1 - S.t0) * part, S.t1 + (S.t1 - S.t0) * part);

function draw() {
	if (S.asked) return;
	S.asked = true;
	requestAnimationFrame(() => {
		S.asked = false;
		for (const paint of S.painters) paint();
	});
}

// Selects a packet; the window follows it if it is outside.
function select(packet, reveal = true) {
	S.selected = packet;
	S.event = -1;
	if (packet >= 0 && reveal) {
		const t = P.time[packet];
		if (t < S.t0 || t > S.t1) setWindow(t - (S.t1 - S.t0) / 2, t + (S.t1 - S.t0) / 2);
	}
	for (const f of S.follow) f(packet);
	draw();
}

// Selects an event of the device, and no packet.
function selectEvent(e) {
	S.selected = -1;
	S.event = e;
	const t = E.time[e];
	if (t < S.t0 || t > S.t1) setWindow(t - (S.t1 - S.t0) / 2, t + (S.t1 - S.t0) / 2);
	for (const f of S.follow) f(-1);
	draw();
}

// The window in which an event and its neighbours have a row each.
function zoomToEvent(e) {
	const pair = E.lane[e] === NONE ? -1 : E.lane[e] >>> 1;
	if (pair >= 0 && V.pairs.includes(pair)) {
		const all = inGroup(E.byPair, pair), at = eventBound(all, E.time[e]);
		const first = E.time[all[Math.max(0, at - 6)]], last = E.time[all[Math.min(all.length - 1, at + 6)]];
		const room = Math.max((last - first) * 0.08, SHORTEST / 2);
		setWindow(Math.max(first, E.time[e] - 1e9) - room, Math.min(last, E.time[e] + 1e9) + room);
	}
	selectEvent(e);
}

// The neighbours of a packet that lie within about 12 packets of it make a legible window.
function zoomTo(packet) {
	const pair = P.pair[packet], from = V.starts[pair], to = V.starts[pair + 1];
	const at = lowerBound(V.byPair, from, to, P.time[packet]), around = LOG && S.events ? 4 : 9;
	const first = P.time[V.byPair[Math.max(from, at - around)]], last = P.time[V.byPair[Math.min(to - 1, at + around)]];
	const room = Math.max((last - first) * 0.08, SHORTEST / 2);
	setWindow(first - room, last + room);
	select(packet);
}

// The index in the view of the selected packet, or of the next one.
function placeOf(packet) {
	let from = 0, to = V.view.length;
	while (from < to) {
		const mid = (from + to) >>> 1;
		if (V.view[mid] < packet) from = mid + 1;
		else to = mid;
	}
	return from;
}

function step(by) {
	if (!V.view.length) return;
	let at = S.selected < 0 ? lowerBound(V.view, 0, V.view.length, S.t0) : placeOf(S.selected) + by;
	at = Math.min(Math.max(at, 0), V.view.length - 1);
	select(V.view[at]);
}
