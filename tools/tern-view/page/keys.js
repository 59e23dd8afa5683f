// The rkeys that requests name: when and how much they were used, and when they were refused.

const MOST_KEYS = 200;
const keyTable = { rows: [], version: -1 };

function collectKeys() {
	const found = new Map();
	for (const m of V.messages) {
		const first = M.first[m], op = opcodeOf(first);
		if (!op || !op.headers.some((h) => h === "RETH" || h === "AtomicETH")) continue;
		const id = (P.pair[first] * 2 + (backwards(first) ? 1 : 0)) * 0x100000000 + P.key[first];
		let row = found.get(id);
		if (!row) found.set(id, row = { key: P.key[first], packet: first, uses: 0, bytes: 0, refused: 0, last: first, kinds: new Set(), list: [] });
		row.uses++;
		row.bytes += M.bytes[m];
		row.last = first;
		row.kinds.add(META.kinds[M.kind[m]]);
		if (M.status[m] >= 3) row.refused++;
		row.list.push(m);
	}
	keyTable.all = found.size;
	keyTable.rows = [...found.values()].sort((a, b) => b.refused - a.refused || b.uses - a.uses).slice(0, MOST_KEYS);
}

function buildKeys() {
	const box = byId("keys");
	collectKeys();
	keyTable.version = V.version;
	if (!keyTable.rows.length) {
		box.replaceChildren(el("p.empty", null, "No request names a remote key."));
		return;
	}
	for (const row of keyTable.rows) row.canvas = el("canvas", { role: "img", "aria-label": `Uses of rkey ${hex(row.key)} over time` });
	const head = el("thead", null, el("tr", null, ...["rkey", "Used by", "Operations"].map((t) => el("th", { scope: "col" }, t)),
		...["Requests", "Bytes", "Refused"].map((t) => el("th.n", { scope: "col" }, t)), el("th", { scope: "col" }, "Over the capture")));
	const table = el("table", null, head, el("tbody", null, ...keyTable.rows.map(keyLine)));
	box.replaceChildren(el("div.scroll", { tabindex: 0, role: "region", "aria-label": "Table of remote keys" }, table));
	if (keyTable.all > MOST_KEYS) box.prepend(el("p.muted.small", null, `${count(keyTable.all)} keys; the ${MOST_KEYS} that were refused or used most are shown.`));
}

function keyLine(row) {
	return el("tr", null, el("td", null, el("button.link.mono", { type: "button", onclick: () => zoomTo(refusedOf(row)) }, hex(row.key, 8))),
		el("td", null, directed(row.packet)), el("td", null, [...row.kinds].join(", ").replaceAll("_", " ")), el("td.n", null, count(row.uses)),
		el("td.n", null, bytesText(row.bytes)), el("td.n", null, row.refused ? count(row.refused) : ""), el("td.time", null, row.canvas));
}

const refusedOf = (row) => M.first[row.list.find((m) => M.status[m] >= 3) ?? row.list[0]];

function drawKeys() {
	if (keyTable.version !== V.version) buildKeys();
	const [first, last] = extent();
	for (const row of keyTable.rows) {
		const width = Math.max(40, row.canvas.clientWidth), g = sized(row.canvas, width, 18);
		const at = (t) => (t - first) / (last - first) * (width - 4) + 1;
		g.fillStyle = palette.line;
		g.fillRect(0, 8.5, width, 1);
		const begin = at(P.time[row.packet]), end = at(P.time[row.last]);
		g.fillStyle = palette.shade;
		g.fillRect(begin, 3, Math.max(2, end - begin + 2), 12);
		const seen = new Set();
		for (const refused of [false, true]) {
			g.fillStyle = refused ? palette.nak : palette.accent;
			for (const m of row.list) {
				if ((M.status[m] >= 3) !== refused) continue;
				const x = Math.round(at(P.time[M.first[m]]));
				if (!refused && seen.has(x)) continue;
				seen.add(x);
				g.fillRect(x, refused ? 0 : 4, refused ? 3 : 1.5, refused ? 18 : 10);
			}
		}
	}
}
