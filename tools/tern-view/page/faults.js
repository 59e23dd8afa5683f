// Faults on demand: the rules of each adapter with their counts, fields for common ones, and a text
// for any other. The device parses the rules.

const FAULTS_EVERY = 2000;
const faults = { adapters: [], due: 0, text: "" };

// The words of the fields, to follow an action.
function faultWords() {
	const opcode = byId("fault-opcode").value.trim(), qp = byId("fault-qp").value.trim();
	return [byId("fault-way").value, opcode && `opcode=${opcode}`, qp && `qp=${qp}`, byId("fault-which").value].filter(Boolean).join(" ");
}

function faultRule(action) {
	const value = byId(`fault-${action}`)?.value.trim();
	return `${action}${value ? `=${value}` : ""} ${faultWords()}`;
}

function followFaults() {
	const form = byId("fault-form"), text = byId("fault-text");
	const preview = (action) => { byId("fault-preview").textContent = action ? faultRule(action) : `… ${faultWords()}`; };
	form.addEventListener("submit", (event) => event.preventDefault());
	form.addEventListener("input", () => preview());
	for (const button of form.querySelectorAll("[data-action]")) {
		const { action } = button.dataset;
		for (const name of ["focus", "pointerenter"]) button.addEventListener(name, () => preview(action));
		button.addEventListener("click", () => changeFaults({ adapter: byId("fault-adapter").value, add: faultRule(action) }));
	}
	byId("fault-text-form").addEventListener("submit", async (event) => {
		event.preventDefault();
		if (await changeFaults({ adapter: byId("fault-adapter").value, add: text.value })) text.value = "";
	});
	byId("faults").addEventListener("toggle", () => byId("faults").open && readFaults());
	setInterval(() => byId("faults").open && !document.hidden && readFaults(), FAULTS_EVERY);
	preview();
}

async function readFaults() {
	if (faults.asking) return;
	faults.asking = true;
	try {
		faults.adapters = (await ask("faults")).adapters;
		if (faults.unreachable) faultError("");
		faults.unreachable = false;
	} catch (error) {
		faults.adapters = [];
		faults.unreachable = true;
		faultError(error.message);
	}
	faults.asking = false;
	showFaults();
}

// Returns whether the change was made.
async function changeFaults(request) {
	try {
		const { adapter } = await ask("faults", request);
		faults.adapters = faults.adapters.map((known) => (known.name === adapter.name ? adapter : known));
		faultError("");
		showFaults();
		return true;
	} catch (error) {
		faultError(error.message);
		return false;
	}
}

function faultError(text) {
	byId("fault-error").hidden = !text;
	byId("fault-error").textContent = text;
}

function showFaults() {
	const text = JSON.stringify(faults.adapters), choice = byId("fault-adapter"), names = faults.adapters.map(({ name }) => name);
	if (text === faults.text) return;
	faults.text = text;
	if ([...choice.options].map((option) => option.value).join("\n") !== names.join("\n")) {
		const chosen = choice.value;
		choice.replaceChildren(...(names.length ? names : ["none"]).map((name) => el("option", null, name)));
		if (names.includes(chosen)) choice.value = chosen;
	}
	for (const node of byId("faults").querySelectorAll("form button, form input, form select")) node.disabled = !names.length;
	const focus = keepFocus();
	byId("fault-rules").replaceChildren(...faults.adapters.flatMap(adapterLines));
	if (!names.length) byId("fault-rules").append(el("tr", null, el("td", { colspan: 5 }, "There is no adapter now.")));
	focus();
}

function adapterLines({ name, rules, notes, error }) {
	const remove = (what, label, request) => el("td.n", null, el("button", { type: "button", "aria-label": `Remove ${label}`, onclick: () => changeFaults({ adapter: name, ...request }) }, what));
	const lines = rules.map(({ rule, matched, applied }, at) => el("tr", null, at ? el("td", null, "") : el("th", { scope: "row" }, name), el("td", null, el("code", null, rule)),
		el("td.n", null, count(matched)), el("td.n", null, count(applied)), remove("Remove", `${rule} of ${name}`, { remove: rule })));
	const more = [...notes, ...(error ? [error] : [])];
	if (!rules.length) lines.push(el("tr", null, el("th", { scope: "row" }, name), el("td.muted", { colspan: 4 }, more.length ? more.join("; ") : "no rule")));
	else if (more.length) lines.push(el("tr", null, el("td", null, ""), el("td.muted", { colspan: 4 }, more.join("; "))));
	if (rules.length > 1) lines.push(el("tr", null, el("td", null, ""), el("td", { colspan: 3 }, ""), remove("Remove all", `all rules of ${name}`, { clear: true })));
	return lines;
}
