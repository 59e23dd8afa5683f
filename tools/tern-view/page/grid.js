// A table of any length: only the visible rows are elements. Arrow keys move, Enter selects.

const ROW = 24;
const TALLEST = 8000000;  // browsers limit the height of an element

let grids = 0;

class Grid {
	// columns: [title, width, class, text(row), class of the cell(row)]; count() rows; chosen(): the current row; choose(row).
	constructor(box, name, columns, count, chosen, choose) {
		Object.assign(this, { columns, count, chosen, choose, id: `grid${grids++}` });
		this.pad = el("div.pad", { role: "rowgroup" });
		const titles = columns.map((c, k) => el(`span${c[2] ? "." + c[2] : ""}`, { role: "columnheader", "aria-colindex": k + 1 }, c[0]));
		this.head = el("div.head", { role: "rowgroup" }, el("div.line", { role: "row", "aria-rowindex": 1 }, ...titles));
		this.body = el("div.body", { role: "grid", tabindex: 0, "aria-label": name, "aria-readonly": "true", "aria-colcount": columns.length }, this.head, this.pad);
		this.root = el("div.grid", null, this.body);
		this.root.style.setProperty("--columns", columns.map((c) => c[1]).join(" "));
		this.root.style.setProperty("--least", `${columns.reduce((sum, c) => sum + Number(/(\d+)px/.exec(c[1])[1]) + 10, 10)}px`);
		this.body.addEventListener("scroll", () => this.paint());
		this.body.addEventListener("keydown", (event) => this.key(event));
		this.body.addEventListener("click", (event) => {
			const line = event.target.closest(".pad .line[data-row]");
			if (line) this.choose(Number(line.dataset.row));
		});
		box.append(this.root);
	}

	get room() { return this.body.clientHeight - ROW; }
	get page() { return Math.max(1, Math.floor(this.room / ROW)); }
	get tall() { return Math.min(this.count() * ROW, TALLEST); }

	// The rows' places grow with the bar's, so that a bar of limited height reaches them all.
	get ratio() {
		const most = this.tall - this.room;
		return most > 0 ? (this.count() * ROW - this.room) / most : 1;
	}

	paint() {
		const n = this.count(), state = [V.version, this.chosen(), this.body.scrollTop, this.body.clientHeight].join();
		if (state === this.state) return;
		this.state = state;
		this.pad.style.height = `${Math.max(this.tall, ROW)}px`;
		this.body.setAttribute("aria-rowcount", n + 1);
		const top = this.body.scrollTop, first = Math.max(0, Math.min(n - 1, Math.floor(top * this.ratio / ROW)));
		const shift = top - (top * this.ratio - first * ROW), last = Math.min(n, first + this.page + 2), chosen = this.chosen();
		const lines = [];
		for (let row = first; row < last; row++) {
			const cells = this.columns.map((c, k) => {
				const more = c[4] ? c[4](row) : "";
				return el(`span${c[2] ? "." + c[2] : ""}${more ? "." + more : ""}`, { role: "gridcell", "aria-colindex": k + 1 }, c[3](row));
			});
			const line = el("div.line", { role: "row", id: `${this.id}-${row}`, "aria-rowindex": row + 2, "aria-selected": row === chosen, "data-row": row }, ...cells);
			line.style.top = `${shift + (row - first) * ROW}px`;
			lines.push(line);
		}
		if (!n) lines.push(el("div.line", { role: "row" }, el("span", { role: "gridcell" }, "None")));
		this.pad.replaceChildren(...lines);
		if (chosen >= first && chosen < last) this.body.setAttribute("aria-activedescendant", `${this.id}-${chosen}`);
		else this.body.removeAttribute("aria-activedescendant");
	}

	reveal(row) {
		const visible = this.room, at = row * ROW, top = this.body.scrollTop * this.ratio;
		if (at < top || at + ROW > top + visible) this.body.scrollTop = Math.max(0, (at - visible / 2) / this.ratio);
		this.paint();
	}

	key(event) {
		const moves = { ArrowDown: 1, ArrowUp: -1, PageDown: this.page, PageUp: -this.page, Home: -Infinity, End: Infinity };
		if (!(event.key in moves) || event.ctrlKey || event.altKey || event.metaKey || !this.count()) return;
		event.preventDefault();
		const now = this.chosen();
		const row = now < 0 ? 0 : Math.min(Math.max(now + moves[event.key], 0), this.count() - 1);
		this.choose(row);
	}
}

function packetGrid() {
	const p = (row) => V.view[row];
	const nak = (row) => (!(P.flags[p(row)] & MARK.NEGATIVE) ? "" : P.syndrome[p(row)] >> 5 === 1 ? "warm" : "hot");
	const tone = (row) => {
		const f = P.flags[p(row)];
		return f & (MARK.REFUSED | MARK.NEGATIVE | MARK.GAP | MARK.BAD_ICRC | MARK.MALFORMED) ? "hot" : f & (MARK.RETRANSMITTED | MARK.DUPLICATE) ? "warm" : "";
	};
	return new Grid(byId("packets"), "Packets", [
		[META.fromLogs ? "Record" : "Frame", "50px", "n", (row) => frameText(p(row))],
		["Time", "minmax(92px, 1fr)", "n", (row) => timeText(P.time[p(row)], 1)],
		["To", "minmax(56px, .6fr)", "", (row) => destination(p(row))],
		["Opcode", "minmax(130px, 1.7fr)", "", (row) => opText(p(row)), nak],
		["PSN", "62px", "n", (row) => hex(P.psn[p(row)])],
		["Bytes", "42px", "n", (row) => (P.length[p(row)] ? count(P.length[p(row)]) : "")],
		["Marks", "minmax(84px, 1.2fr)", "", (row) => marksOf(p(row)).join(", "), tone],
	], () => V.view.length, () => {
		const at = placeOf(S.selected);
		return S.selected >= 0 && V.view[at] === S.selected ? at : -1;
	}, (row) => select(p(row)));
}

const frameText = (i) => (META.files.length > 1 && !META.fromLogs ? `${P.file[i] + 1}:${P.number[i]}` : `${P.number[i]}`);

function destination(i) {
	const pair = META.pairs[P.pair[i]], end = backwards(i) ? pair.a : pair.b;
	return end.qp === null ? "?" : `QP ${hex(end.qp)}`;
}

function messageGrid() {
	const m = (row) => V.messages[row];
	const took = (row) => {
		const end = messageEnd(m(row));
		return end === Infinity ? "" : durationText(end - P.time[M.first[m(row)]]);
	};
	const grid = new Grid(byId("messages"), "Messages", [
		["Begins", "minmax(110px, 1fr)", "n", (row) => timeText(P.time[M.first[m(row)]], 1)],
		["QP pair", "minmax(220px, 3fr)", "", (row) => directed(M.first[m(row)])],
		["Kind", "minmax(90px, 1fr)", "", (row) => META.kinds[M.kind[m(row)]].replace("_", " ")],
		["Length", "minmax(72px, .8fr)", "n", (row) => bytesText(M.bytes[m(row)])],
		["Packets", "56px", "n", (row) => count(M.packets[m(row)])],
		["Repeated", "62px", "n", (row) => (M.repeats[m(row)] ? count(M.repeats[m(row)]) : ""), (row) => (M.repeats[m(row)] ? "warm" : "")],
		["RNR", "40px", "n", (row) => (M.waits[m(row)] ? count(M.waits[m(row)]) : ""), (row) => (M.waits[m(row)] ? "warm" : "")],
		["Took", "minmax(72px, .8fr)", "n", took],
		["Status", "minmax(150px, 1.6fr)", "", (row) => META.status[M.status[m(row)]], (row) => (M.status[m(row)] >= 3 ? "hot" : M.status[m(row)] ? "" : "warm")],
	], () => V.messages.length, () => {
		const wanted = S.selected >= 0 ? P.message[S.selected] : NONE;
		return wanted === NONE ? -1 : placeOfMessage(wanted);
	}, (row) => zoomTo(M.first[m(row)]));
	grid.root.classList.add("tall");
	return grid;
}

function placeOfMessage(m) {
	let from = 0, to = V.messages.length;
	while (from < to) {
		const mid = (from + to) >>> 1;
		if (V.messages[mid] < m) from = mid + 1;
		else to = mid;
	}
	return V.messages[from] === m ? from : -1;
}

function directed(i) {
	const pair = META.pairs[P.pair[i]], [from, to] = backwards(i) ? [pair.b, pair.a] : [pair.a, pair.b];
	return `${endText(from)} → ${endText(to)}`;
}
