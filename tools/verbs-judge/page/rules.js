// The list of rules and its filter.
const rules = JSON.parse(document.getElementById("rules").textContent);
const $ = (id) => document.getElementById(id);

function element(tag, text, name) {
	const made = document.createElement(tag);
	if (text) made.textContent = text;
	if (name) made.className = name;
	return made;
}

function show(rule) {
	const box = element("details", "", `rule ${rule.result.replace("not ", "")}`);
	const head = element("summary");
	const verdict = rule.other && rule.other !== rule.result ? `${rule.result} (there: ${rule.other})` : rule.result;
	head.append(element("code", rule.name), element("span", rule.says, "says"), element("span", verdict, "verdict"));
	box.append(head);
	box.addEventListener("toggle", () => {
		if (box.childElementCount > 1) return;
		box.append(element("p", `Authority: ${rule.authority}`, "muted"));
		if (rule.detail) box.append(element("p", rule.detail));
		if (rule.there && rule.there !== rule.detail) box.append(element("p", `There: ${rule.there}`));
		if (rule.trace.length) box.append(element("pre", rule.trace.join("\n")));
	});
	return box;
}

function fill(select, values) {
	for (const value of new Set(values)) select.append(new Option(value, value));
}

function filter() {
	const text = $("text").value.toLowerCase();
	const chosen = rules.filter((r) =>
		(!$("group").value || r.group === $("group").value) &&
		(!$("result").value || r.result === $("result").value) &&
		(!$("changed").checked || (r.other && r.other !== r.result)) &&
		(!text || `${r.name} ${r.says} ${r.detail}`.toLowerCase().includes(text)));
	$("count").textContent = `${chosen.length} of ${rules.length}`;
	$("list").replaceChildren(...chosen.map(show));
}

fill($("group"), rules.map((r) => r.group));
fill($("result"), rules.map((r) => r.result));
$("only").hidden = !rules.some((r) => r.other);
$("filter").addEventListener("input", filter);
$("filter").addEventListener("submit", (event) => event.preventDefault());
followTheme(() => {}, () => {});
filter();
