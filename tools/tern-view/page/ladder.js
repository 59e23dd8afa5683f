// The ladder: the time axis, as many QP pairs next to each other as fit, and navigation in it.

const ladder = { box: byId("ladder"), canvas: byId("ladder").firstElementChild, lanes: [] };
const AXIS = 92, LEAST_LANE = 300;

function lanesFitting(width) {
	return Math.max(1, Math.min(4, Math.floor((width - AXIS) / LEAST_LANE)));
}

function drawLadder() {
	const width = ladder.box.clientWidth, height = ladder.box.clientHeight, fit = lanesFitting(width);
	ladder.canvas.style.width = `${width}px`;
	ladder.canvas.style.height = `${height}px`;
	const g = sized(ladder.canvas, width, height);
	S.lane = Math.max(0, Math.min(S.lane, V.pairs.length - 1));
	const shown = V.pairs.slice(S.lane, S.lane + fit);
	ladder.rows = S.even ? evenRows(shown, height) : null;
	drawAxis(g, width, height);
	const axis = width < 480 ? 66 : AXIS, wide = (width - axis) / Math.max(1, shown.length);
	ladder.lanes = shown.map((pair, k) => new Lane(g, pair, axis + k * wide, wide, height));
	for (const lane of ladder.lanes) {
		g.save();
		g.beginPath();
		g.rect(lane.left, 0, lane.width, height);
		g.clip();
		lane.draw();
		g.restore();
	}
	for (const lane of ladder.lanes.slice(1)) {
		g.fillStyle = palette.line;
		g.fillRect(lane.left, 0, 1, height);
	}
	if (!shown.length) {
		g.fillStyle = palette.muted;
		g.font = `13px ${palette.sans}`;
		g.textAlign = "center";
		g.fillText(P.n ? "No packet passes the filters." : "The log has no packet.", width / 2, height / 2);
	}
	laneText(shown.length);
}

function laneText(shown) {
	const all = V.pairs.length;
	byId("lanes-text").textContent = all ? `QP pairs ${count(S.lane + 1)}${shown > 1 ? ` to ${count(S.lane + shown)}` : ""} of ${count(all)}` : "";
	byId("lanes-back").disabled = S.lane === 0;
	byId("lanes-next").disabled = S.lane + shown >= all;
}

const rowsFitting = (height) => (height - HEAD - 30) / 19;

// The packets of the window, and the events of a log, if each can have a row of its own; if that is
// too much, only the events that report something wrong, or only packets. Items are packets, and -1
// - e for event e.
function evenRows(shown, height) {
	const bounds = shown.map((pair) => pairBounds(pair, S.t0, S.t1)), n = bounds.reduce((sum, [from, to]) => sum + to - from, 0), most = rowsFitting(height);
	if (n > most) return null;
	const fitting = [ROW_OF_ITS_OWN | WRONG, WRONG].map((bits) => (LOG && S.events ? shown.flatMap((pair) => eventRows(pair, bits, most - n)) : []));
	const list = fitting.find((events) => n + events.length <= most) ?? [];
	for (const [from, to] of bounds) for (let k = from; k < to; k++) list.push(V.byPair[k]);
	if (!list.length) return null;
	list.sort((a, b) => itemOrder(a, b));
	return { list, rank: new Map(list.map((item, k) => [item, k])), size: Math.min(44, (height - HEAD - 34) / Math.max(1, list.length - 1)) };
}

// The events of a pair that get a row; one more than `most` if there are more.
function eventRows(pair, bits, most) {
	const all = inGroup(E.byPair, pair), found = [];
	for (let k = eventBound(all, S.t0); k < all.length && E.time[all[k]] < S.t1 && found.length <= most; k++) {
		if (E.shown[all[k]] & bits) found.push(-all[k] - 1);
	}
	return found;
}

// A packet comes after the events before it; at equal times only the log shows that order.
function itemOrder(a, b) {
	const place = (item) => (item >= 0 ? item : E.place[-item - 1]);
	return place(a) - place(b) || (a >= 0) - (b >= 0) || b - a;
}

const itemTime = (item) => (item >= 0 ? P.time[item] : E.time[-item - 1]);
const rowPlace = (rank) => HEAD + 24 + rank * ladder.rows.size;

// The row of an item, or its position between the rows.
function rowY(item, height) {
	const { list, rank } = ladder.rows, row = rank.get(item);
	if (row !== undefined) return rowPlace(row);
	let from = 0, to = list.length;
	while (from < to) {
		const mid = (from + to) >>> 1;
		if (itemOrder(list[mid], item) < 0) from = mid + 1;
		else to = mid;
	}
	if (from === 0) return HEAD;
	return from === list.length ? height : rowPlace(from - 0.5);
}

function drawRows(g, axis, width) {
	const { list } = ladder.rows;
	list.forEach((item, rank) => {
		const y = rowPlace(rank);
		g.fillStyle = palette.line;
		if (item >= 0) g.fillRect(axis, Math.round(y), width - axis, 1);
		g.fillStyle = palette.muted;
		g.fillText(fitted(g, rank ? `+${durationText(itemTime(item) - itemTime(list[rank - 1]))}` : timeText(itemTime(item), (S.t1 - S.t0) / 100), axis - 10), axis - 6, y);
	});
}

function drawAxis(g, width, height) {
	const axis = width < 480 ? 66 : AXIS;
	g.fillStyle = palette.bg;
	g.fillRect(0, 0, width, height);
	g.fillStyle = palette.surface;
	g.fillRect(0, 0, axis, height);
	g.font = `11px ${palette.sans}`;
	g.textAlign = "right";
	g.textBaseline = "middle";
	const { step: size, at } = ladder.rows ? { step: 1, at: [] } : ticks(S.t0, S.t1, height / 56);
	if (ladder.rows) drawRows(g, axis, width);
	for (const t of at) {
		const y = HEAD + (t - S.t0) / (S.t1 - S.t0) * (height - HEAD);
		if (y < HEAD + 7 || y > height - 7) continue;
		g.fillStyle = palette.line;
		g.fillRect(axis, y, width - axis, 1);
		g.fillStyle = palette.muted;
		g.fillText(fitted(g, timeText(t, size), axis - 10), axis - 6, y);
	}
	g.fillStyle = palette.line;
	g.fillRect(axis - 1, 0, 1, height);
	g.fillStyle = palette.muted;
	g.textBaseline = "alphabetic";
	g.fillText("time", axis - 6, 19);
	g.fillText(`${durationText(S.t1 - S.t0)}`, axis - 6, 36);
}

// The packet or event at a position of the ladder, like Lane.hit().
function packetAt(x, y) {
	const lane = ladder.lanes.find((l) => x >= l.left && x < l.left + l.width);
	return lane ? lane.hit(y) : -1;
}

const LADDER_KEYS = {
	ArrowDown: () => step(1), ArrowUp: () => step(-1), PageDown: () => pan(0.8), PageUp: () => pan(-0.8),
	"+": () => zoom(0.5, around()), "=": () => zoom(0.5, around()), "-": () => zoom(2, around()), 0: () => setWindow(...extent()), Home: () => V.view.length && select(V.view[0]),
	End: () => V.view.length && select(V.view[V.view.length - 1]), ArrowLeft: () => moveLane(-1), ArrowRight: () => moveLane(1),
	Enter: () => S.selected >= 0 && zoomTo(S.selected), Escape: () => select(-1),
};

function around() {
	const t = S.selected >= 0 ? P.time[S.selected] : -1;
	return t >= S.t0 && t <= S.t1 ? t : (S.t0 + S.t1) / 2;
}

function moveLane(by) {
	S.lane = Math.min(Math.max(S.lane + by, 0), Math.max(0, V.pairs.length - 1));
	draw();
}

function followWheel(box) {
	box.addEventListener("wheel", (event) => {
		const place = (event.clientY - box.getBoundingClientRect().top - HEAD) / (box.clientHeight - HEAD);
		if (event.ctrlKey || event.shiftKey) {
			zoom(Math.exp((event.deltaY || event.deltaX) * 0.002), S.t0 + (S.t1 - S.t0) * place);
			event.preventDefault();
		} else if (pan(event.deltaY / 900)) {
			// At the ends of the capture the wheel scrolls the page.
			event.preventDefault();
		}
	}, { passive: false });
}

function followLadder() {
	const { box } = ladder;
	let grip = null;
	followWheel(box);
	box.addEventListener("pointerdown", (event) => {
		grip = { y: event.clientY, t0: S.t0, moved: false };
		box.setPointerCapture(event.pointerId);
	});
	box.addEventListener("pointermove", (event) => {
		if (!grip) return;
		const by = event.clientY - grip.y;
		grip.moved ||= Math.abs(by) > 4;
		const t0 = grip.t0 - by / (box.clientHeight - HEAD) * (S.t1 - S.t0);
		if (grip.moved) setWindow(t0, t0 + (S.t1 - S.t0));
	});
	box.addEventListener("pointerup", (event) => {
		const at = box.getBoundingClientRect();
		if (grip && !grip.moved) {
			const packet = packetAt(event.clientX - at.left, event.clientY - at.top);
			if (packet >= 0) select(packet);
			else if (packet < -1) selectEvent(-packet - 2);
		}
		grip = null;
	});
	box.addEventListener("pointercancel", () => { grip = null; });
	box.addEventListener("dblclick", (event) => {
		const at = box.getBoundingClientRect();
		zoom(0.25, S.t0 + (event.clientY - at.top - HEAD) / (box.clientHeight - HEAD) * (S.t1 - S.t0));
	});
	box.addEventListener("keydown", (event) => {
		const act = event.ctrlKey || event.metaKey || event.altKey ? null : LADDER_KEYS[event.key];
		if (!act) return;
		act();
		event.preventDefault();
	});
	byId("even").addEventListener("change", (event) => {
		S.even = event.target.checked;
		draw();
	});
	byId("show-events").addEventListener("change", (event) => {
		S.events = event.target.checked;
		draw();
	});
	byId("lanes-back").addEventListener("click", () => moveLane(-1));
	byId("lanes-next").addEventListener("click", () => moveLane(1));
}

// Scrolls the pair of a selected packet into view.
function followLane(packet) {
	if (packet < 0) return;
	const at = V.pairs.indexOf(P.pair[packet]), fit = lanesFitting(ladder.box.clientWidth);
	if (at >= 0 && (at < S.lane || at >= S.lane + fit)) S.lane = at;
}
