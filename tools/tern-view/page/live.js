// A page that a server feeds: it polls the state of the files, takes new data when there are any,
// and keeps the user's view.

const live = { token: new URLSearchParams(location.search).get("token") ?? "", version: 0, origin: "0", keep: 0, follow: true, paused: false, span: null, t0: 0, t1: 0, pairs: "", begun: new Map() };
const POLL = 500, POLL_HIDDEN = 3000, BEGUN_FOR = 30000;

async function ask(path, body) {
	let response;
	try {
		response = await fetch(path, { method: body ? "POST" : "GET", headers: { "X-Tern-Token": live.token }, body: body ? JSON.stringify(body) : undefined,
			cache: "no-store", signal: AbortSignal.timeout(30000) });
	} catch {
		throw new Error("tern-view does not answer. When it runs again, open the URL that it prints.");
	}
	const answer = await response.json();
	if (answer.error !== undefined) throw new Error(answer.error);
	return answer;
}

function followLive() {
	Object.assign(live, JSON.parse(byId("live").textContent), { pairs: pairTexts() });
	byId("f-count").setAttribute("aria-live", "off");
	byId("whole").textContent = "Whole window";
	byId("live-pause").addEventListener("click", () => {
		live.paused = !live.paused;
		byId("live-pause").setAttribute("aria-pressed", live.paused);
		byId("live-pause").textContent = live.paused ? "Continue" : "Pause";
	});
	byId("live-follow").addEventListener("change", (event) => {
		setFollow(event.target.checked);
		if (live.follow) {
			live.span = null;
			select(-1);
			lastWindow();
		}
	});
	// While the mouse holds the ladder, nothing moves.
	window.addEventListener("pointerdown", () => { live.gripped = true; }, true);
	for (const name of ["pointerup", "pointercancel", "blur"]) window.addEventListener(name, () => { live.gripped = false; }, true);
	showTitle(live.title);
	lastWindow();
	requestAnimationFrame(() => requestAnimationFrame(() => {
		for (const grid of Object.values(S.grids)) if (grid) grid.body.scrollTop = grid.tall;
	}));
	followFaults();
	poll();
}

async function poll() {
	for (;;) {
		const looks = !live.paused && !document.hidden;
		try {
			const state = await ask(`state?looks=${Number(looks)}`);
			showState(state);
			if (looks && state.version !== live.version) await takeSnapshot(await ask("data"));
		} catch (error) {
			say([error.message]);
			console.info(error);
		}
		await new Promise((done) => setTimeout(done, document.hidden ? POLL_HIDDEN : POLL));
	}
}

function showState({ files, say: more }) {
	say([...more, ...files.filter((f) => f.say).map((f) => `${f.name} ${f.say}.`)], newBeginnings(files));
	byId("live-files").textContent = files.map((f) => `${f.name}: ${counted(f.count, f.log ? "event" : "frame")}`).join(", ");
}

// Shows for a while which files were replaced, as the next lab replaces those of a lab.
function newBeginnings(files) {
	for (const f of files) {
		const known = live.begun.get(f.name);
		if (known === undefined) live.begun.set(f.name, { begun: f.begun, since: -BEGUN_FOR });
		else if (f.begun !== known.begun) live.begun.set(f.name, { begun: f.begun, since: known.begun ? performance.now() : -BEGUN_FOR });
	}
	const names = files.filter((f) => performance.now() - live.begun.get(f.name).since < BEGUN_FOR).map((f) => f.name);
	return names.length ? [`${names.join(", ")}: begun anew. What was before is gone from the page.`] : [];
}

// A screen reader announces it when it changes.
function say(lines, news = []) {
	const box = byId("live-say"), text = [...lines, ...news].join("\n");
	if (box.dataset.text === text) return;
	box.dataset.text = text;
	box.replaceChildren(...lines.map((line) => el("p.notice", null, line)), ...news.map((line) => el("p.news", null, line)));
}

function showTitle(title) {
	document.querySelector("h1").textContent = title;
	document.title = `${title} - tern-view live`;
	byId("when").textContent = P.n || E.n ? `${byId("when").textContent}; at most the last ${count(live.keep)} packets` : "No packet yet";
}

// ---- new data ----

async function takeSnapshot(data) {
	// With other tables, the page is rebuilt.
	if (Boolean(data.meta.log) !== Boolean(LOG) || data.meta.fromLogs !== META.fromLogs) {
		location.reload();
		return;
	}
	const found = {};
	for (const [id, code, text] of data.parts) {
		if (!id.startsWith("column-")) continue;
		const planes = await inflate(text), type = ARRAYS[code], size = type.BYTES_PER_ELEMENT;
		found[id.slice(7)] = size === 1 ? planes : joined(planes, type, size, planes.length / size);
	}
	// Data being unpacked belong to the old snapshot.
	while (inflating || live.gripped) await new Promise((done) => setTimeout(done, 10));
	swapData(data, found);
}

function swapData(data, found) {
	const shift = Number(BigInt(data.origin) - BigInt(live.origin)), restore = [keepFocus(), keepRows(shift), keepSelection(shift), keepPairs()];
	noticeMoves();
	document.querySelectorAll('script[type="text/plain"]').forEach((node) => node.remove());
	document.body.append(...data.parts.filter(([id]) => !id.startsWith("column-")).map(([id, , text]) => el("script", { type: "text/plain", id }, text)));
	pieces.clear();
	eventPieces.clear();
	Object.assign(META, data.meta);
	Object.assign(live, { version: data.version, origin: data.origin });
	[LOG, NAMES] = [META.log, META.log?.names];
	takeColumns(found);
	const [focus, rows, selection, pairs] = restore;
	pairs();
	if (live.pairs !== pairTexts()) {
		live.pairs = pairTexts();
		fillFilters();
	}
	refilter();
	pairs();
	[S.t0, S.t1] = [S.t0 - shift, S.t1 - shift];
	if (live.follow) lastWindow();
	else setWindow(S.t0, S.t1);
	noteWindow();
	showSummary();
	showTitle(data.title);
	showStands();
	selection();
	if (LOG) {
		fillTypes();
		chooseEvents();
		buildLives();
		buildStates();
	}
	keysWhenDue();
	rows();
	focus();
	draw();
}

const pairTexts = () => META.pairs.slice(0, 500).map(pairText).join("\n");

// ---- the window ----

function setFollow(on) {
	live.follow = on;
	byId("live-follow").checked = on;
}

// The page stops following when the user selects something or moves the window. A longer window up to the end continues.
function noticeMoves() {
	if (!live.follow) return;
	if (S.selected >= 0 || S.event >= 0) setFollow(false);
	else if (S.t0 !== live.t0 || S.t1 !== live.t1) {
		if (S.t1 >= META.duration) live.span = S.t1 - S.t0;
		else setFollow(false);
	}
}

function noteWindow() {
	[live.t0, live.t1] = [S.t0, S.t1];
}

// The newest packets that have a row each, or as long a time as the user has chosen.
function lastWindow() {
	const [first, last] = extent();
	if (live.span !== null) setWindow(Math.max(first, last - live.span), last);
	else {
		const shown = new Set(V.pairs.slice(S.lane, S.lane + lanesFitting(ladder.box.clientWidth))), fit = Math.floor(rowsFitting(ladder.box.clientHeight) / (LOG ? 3 : 1));
		let n = 0, begin = first;
		for (let k = V.view.length - 1; k >= 0 && n < fit; k--) {
			if (!shown.has(P.pair[V.view[k]])) continue;
			begin = P.time[V.view[k]];
			n++;
		}
		setWindow(n < fit ? first : begin - 1, Math.max(META.duration, SHORTEST) + 1);
	}
	noteWindow();
}

// ---- parts that stay unchanged ----

const sameEnd = (a, b) => a.address === b.address && (a.qp === b.qp || a.qp === null || b.qp === null);
const samePair = (p, q) => p.class === q.class && ((sameEnd(p.a, q.a) && sameEnd(p.b, q.b)) || (sameEnd(p.a, q.b) && sameEnd(p.b, q.a)));

// The pair of the filter and the first one of the ladder.
function keepPairs() {
	const chosen = META.pairs[filter.pair], first = META.pairs[V.pairs[S.lane]];
	return () => {
		if (chosen) {
			filter.pair = META.pairs.findIndex((pair) => samePair(pair, chosen));
			byId("f-pair").value = String(filter.pair);
		}
		if (first) S.lane = Math.max(0, V.pairs.findIndex((pair) => META.pairs[pair] && samePair(META.pairs[pair], first)));
	};
}

// The selected packet has the same number in its file, the event the same time.
function keepSelection(shift) {
	const packet = S.selected, event = S.event, old = packet >= 0 ? [P.number[packet], META.files[P.file[packet]].name, P.time[packet] - shift, detailsKey()] : null;
	const what = event >= 0 ? [E.time[event] - shift, E.type[event], E.code[event], E.qpn[event], E.log[event]] : null;
	return () => {
		S.work = undefined;
		if (old) {
			S.selected = P.number.findIndex((n, i) => n === old[0] && META.files[P.file[i]].name === old[1] && Math.abs(P.time[i] - old[2]) < 1);
			if (S.selected < 0) goneFromPage();
			else if (String(detailsKey()) !== String(old[3])) refreshDetails();
		} else if (what) {
			S.event = -1;
			for (let e = eventAfter(what[0] - 1); e < E.n && E.time[e] < what[0] + 1; e++) {
				if ([E.type[e], E.code[e], E.qpn[e], E.log[e]].every((v, k) => v === what[k + 1])) S.event = e;
			}
			if (S.event < 0) goneFromPage();
			else refreshDetails();
		}
	};
}

// Identifies the contents of a packet's details.
function detailsKey() {
	const p = S.selected, m = P.message[p], related = LOG ? eventsOfPacket(p) : [];
	return [p, P.flags[p], m, m === NONE ? "" : [M.status[m], M.answer[m], M.packets[m], M.repeats[m]], related, META.start];
}

function goneFromPage() {
	detailsFor = -1;
	byId("details").replaceChildren(el("p.muted", null, "What was selected is older than what the page keeps."));
}

async function refreshDetails() {
	const box = byId("details"), top = box.scrollTop, open = [...box.querySelectorAll("details")].map((node) => node.open), focus = keepFocus();
	box.setAttribute("aria-live", "off");
	await showDetails(S.selected);
	box.querySelectorAll("details").forEach((node, k) => { node.open = open[k] ?? false; });
	box.scrollTop = top;
	focus();
	box.setAttribute("aria-live", "polite");
}

// Tables show the same rows as before, or the newest ones if they did so.
function keepRows(shift) {
	const { packets, messages, work, events } = S.grids;
	const timeOf = [[packets, (row) => P.time[V.view[row]]], [messages, (row) => P.time[M.first[V.messages[row]]]], [work, (row) => W.begin[V.work[row]]], [events, (row) => E.time[eventList.items[row]]]];
	const places = timeOf.filter(([grid]) => grid).map(([grid, time]) => {
		const body = grid.body, row = Math.floor(body.scrollTop * grid.ratio / ROW);
		const end = body.scrollTop + body.clientHeight >= body.scrollHeight - ROW;
		return { grid, time, end, top: row < grid.count() ? time(row) - shift : 0, rest: body.scrollTop * grid.ratio - row * ROW, atTop: body.scrollTop === 0 && !end };
	});
	return () => {
		for (const { grid, time, end, top, rest, atTop } of places) {
			grid.state = null;
			grid.paint();
			if (atTop) continue;
			let row = 0;
			if (!end) while (row < grid.count() && time(row) < top) row++;
			grid.body.scrollTop = end ? grid.tall : (row * ROW + rest) / grid.ratio;
			grid.paint();
		}
	};
}

const REBUILT = ["pairs", "stands", "keys", "lives", "states", "details", "fault-rules"].map((id) => `#${id}`).join(), FOCUSABLE = "button, summary, [tabindex]";

// The focus, the scroll bars and the open parts of elements that are rebuilt.
function keepFocus() {
	const active = document.activeElement, box = active?.closest(REBUILT), at = box ? [...box.querySelectorAll(FOCUSABLE)].indexOf(active) : -1;
	const name = (node) => `${node.closest("[id]").id} ${node.closest("tr")?.firstChild.textContent}`;
	const open = new Set([...document.querySelectorAll(".steps details[open]")].map(name));
	const tops = ["keys", "lives", "states"].map((id) => [id, byId(id).querySelector(".scroll")?.scrollTop]);
	return () => {
		document.querySelectorAll(".steps details").forEach((node) => { if (open.has(name(node))) node.open = true; });
		for (const [id, top] of tops) {
			const scroll = byId(id).querySelector(".scroll");
			if (scroll && top) scroll.scrollTop = top;
		}
		if (at >= 0 && !active.isConnected) [...box.querySelectorAll(FOCUSABLE)][at]?.focus({ preventScroll: true });
	};
}
