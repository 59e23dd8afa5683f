// The button that chooses the colours: the system's, light or dark. `changed` redraws the parts
// that the style sheet does not; `onPaper` does so at once.

function followTheme(changed, onPaper) {
	const root = document.documentElement, button = document.getElementById("theme");
	const names = { "": "Auto", light: "Light", dark: "Dark" }, order = ["", "light", "dark"];
	const set = (theme) => {
		if (theme) root.dataset.theme = theme;
		else delete root.dataset.theme;
	};
	const show = () => {
		const now = root.dataset.theme || "";
		button.textContent = names[now];
		button.setAttribute("aria-label", `Colours: ${names[now]}`);
		changed();
	};
	button.addEventListener("click", () => {
		set(order[(order.indexOf(root.dataset.theme || "") + 1) % 3]);
		show();
	});
	matchMedia("(prefers-color-scheme: dark)").addEventListener("change", show);
	// Paper is light.
	let before = "";
	window.addEventListener("beforeprint", () => {
		before = root.dataset.theme || "";
		root.dataset.theme = "light";
		onPaper();
	});
	window.addEventListener("afterprint", () => {
		set(before);
		show();
	});
	show();
}
