// The whole capture as a histogram, and the window on it.

const overview = { canvas: byId("overview"), bins: null, hot: null, most: 1, version: -1, width: 0 };

function overviewBins(width) {
	if (overview.version === V.version && overview.width === width) return;
	const [first, last] = extent(), bins = new Uint32Array(width), hot = new Uint32Array(width);
	for (const i of V.view) {
		const x = Math.min(width - 1, Math.max(0, Math.floor((P.time[i] - first) / (last - first) * width)));
		bins[x]++;
		if (P.flags[i] & UNUSUAL) hot[x]++;
	}
	const events = eventBins(width, first, last, hot);
	let most = 1;
	for (const list of [bins, events]) for (const n of list) most = Math.max(most, n);
	Object.assign(overview, { bins, events, hot, most, version: V.version, width });
}

// The events of a log, drawn under the packets; those that report something wrong are hot as well.
function eventBins(width, first, last, hot) {
	const bins = new Uint32Array(E.n ? width : 0);
	for (let e = 0; e < E.n; e++) {
		const x = Math.min(width - 1, Math.max(0, Math.floor((E.time[e] - first) / (last - first) * width)));
		bins[x]++;
		if (E.shown[e] & WRONG) hot[x]++;
	}
	return bins;
}

// The histogram changes with filters and colours, the window on it with every frame.
function overviewPicture(width, height) {
	const state = [V.version, width, palette.bg, window.devicePixelRatio].join();
	if (overview.state === state) return overview.picture;
	overviewBins(width);
	const canvas = overview.picture ||= document.createElement("canvas"), g = sized(canvas, width, height), base = height - 15, [first, last] = extent();
	g.fillStyle = palette.surface;
	g.fillRect(0, 0, width, base);
	const scale = (n) => Math.max(1.5, Math.log1p(n) / Math.log1p(overview.most) * (base - 4));
	for (let x = 0; x < width; x++) {
		const most = Math.max(overview.bins[x], overview.events[x] ?? 0);
		if (!most) continue;
		for (const [list, colour] of [[overview.events, palette.strong], [overview.bins, palette.accent]]) {
			if (!list[x]) continue;
			g.fillStyle = colour;
			g.fillRect(x, base - scale(list[x]), 1, scale(list[x]));
		}
		if (overview.hot[x]) {
			const hot = Math.min(scale(most), scale(overview.hot[x]));
			g.fillStyle = palette.nak;
			g.fillRect(x, base - hot, 1, hot);
		}
	}
	drawTimes(g, first, last, width, base);
	overview.state = state;
	return canvas;
}

function drawOverview() {
	const { canvas } = overview, width = Math.max(1, Math.floor(canvas.clientWidth)), height = 54, base = height - 15;
	const g = sized(canvas, width, height), [first, last] = extent();
	g.drawImage(overviewPicture(width, height), 0, 0, width, height);
	const at = (t) => (t - first) / (last - first) * width;
	const x0 = at(S.t0), x1 = Math.max(at(S.t1), x0 + 3);
	g.fillStyle = palette.shade;
	g.fillRect(x0, 0, x1 - x0, base);
	g.strokeStyle = palette.accent;
	g.lineWidth = 1.5;
	g.strokeRect(x0 + 0.75, 0.75, Math.max(1.5, x1 - x0 - 1.5), base - 1.5);
}

function drawTimes(g, first, last, width, y) {
	g.font = `11px ${palette.sans}`;
	g.fillStyle = palette.muted;
	g.textBaseline = "top";
	const { step: size, at } = ticks(Math.max(first, 0), last, width / 130);
	for (const t of at) {
		const x = (t - first) / (last - first) * width, text = timeText(t, size);
		const wide = g.measureText(text).width;
		g.fillRect(x, y, 1, 3);
		g.textAlign = "left";
		g.fillText(text, Math.min(Math.max(0, x - wide / 2), width - wide), y + 3);
	}
}

function followOverview() {
	const { canvas } = overview;
	let grip = null;
	const timeAt = (event) => {
		const box = canvas.getBoundingClientRect(), [first, last] = extent();
		return first + (event.clientX - box.left) / box.width * (last - first);
	};
	canvas.addEventListener("pointerdown", (event) => {
		const t = timeAt(event), half = (S.t1 - S.t0) / 2;
		if (t < S.t0 || t > S.t1) setWindow(t - half, t + half);
		grip = t - S.t0;
		canvas.setPointerCapture(event.pointerId);
	});
	canvas.addEventListener("pointermove", (event) => {
		if (grip === null) return;
		const t0 = timeAt(event) - grip;
		setWindow(t0, t0 + (S.t1 - S.t0));
	});
	for (const end of ["pointerup", "pointercancel"]) canvas.addEventListener(end, () => { grip = null; });
	canvas.addEventListener("wheel", (event) => {
		event.preventDefault();
		zoom(event.deltaY > 0 ? 1.25 : 0.8, timeAt(event));
	}, { passive: false });
}
