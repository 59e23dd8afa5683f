// Text of numbers and times, and elements made of text: nothing from a capture is ever parsed as
// HTML.

const hex = (n, digits = 1) => "0x" + n.toString(16).padStart(digits, "0");
const count = (n) => n.toLocaleString("en");
const counted = (n, what) => `${count(n)} ${what}${n === 1 ? "" : "s"}`;
const byId = (id) => document.getElementById(id);

function bytesText(n) {
	if (n < 10000) return `${count(n)} B`;
	const units = ["KiB", "MiB", "GiB", "TiB"];
	let u = -1;
	do { n /= 1024; u++; } while (n >= 1024 && u < units.length - 1);
	return `${n.toFixed(n < 10 ? 2 : n < 100 ? 1 : 0)} ${units[u]}`;
}

const UNITS = [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]];

function unitFor(ns) {
	return UNITS.find(([size]) => ns >= size) || UNITS[3];
}

function durationText(ns) {
	const [size, unit] = unitFor(Math.abs(ns));
	const value = ns / size;
	const digits = size === 1 ? 0 : Math.abs(value) < 10 ? 3 : Math.abs(value) < 100 ? 2 : 1;
	return `${value.toFixed(digits)} ${unit}`;
}

// A time since the capture's start, with as many digits as `step` needs.
function timeText(ns, step) {
	const [size, unit] = unitFor(Math.max(Math.abs(ns), step));
	const digits = Math.min(9, Math.max(0, Math.ceil(Math.log10(size / step) - 1e-9)));
	return `${(ns / size).toFixed(digits)} ${unit}`;
}

// Round positions for an axis: about `n` of them.
function ticks(from, to, n) {
	const raw = (to - from) / Math.max(1, n);
	if (!(raw > 0)) return { step: 1, at: [] };
	const power = 10 ** Math.floor(Math.log10(raw));
	const step = [1, 2, 5, 10].map((f) => f * power).find((s) => s >= raw);
	const at = [];
	for (let k = Math.ceil(from / step); k * step <= to && at.length < 100; k++) at.push(k * step);
	return { step, at };
}

// el("td.n", {title: "..."}, children...)
function el(what, attributes, ...children) {
	const [tag, ...classes] = what.split(".");
	const node = document.createElement(tag);
	if (classes.length) node.className = classes.join(" ");
	for (const [name, value] of Object.entries(attributes || {})) {
		if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
		else if (value !== null && value !== undefined) node.setAttribute(name, value);
	}
	node.append(...children.filter((c) => c !== null && c !== undefined));
	return node;
}

// Fits a canvas to its box and returns a context that counts in CSS pixels.
function sized(canvas, width, height) {
	const ratio = window.devicePixelRatio || 1;
	const w = Math.max(1, Math.round(width * ratio)), h = Math.max(1, Math.round(height * ratio));
	if (canvas.width !== w || canvas.height !== h) {
		canvas.width = w;
		canvas.height = h;
	}
	const g = canvas.getContext("2d");
	g.setTransform(ratio, 0, 0, ratio, 0, 0);
	g.clearRect(0, 0, width, height);
	return g;
}

let palette = {};

function readPalette() {
	const style = getComputedStyle(document.documentElement);
	const names = "bg surface text muted line strong accent band shade send write read atomic ack nak rnr cnp repeat";
	for (const name of names.split(" ")) {
		palette[name] = style.getPropertyValue(`--${name}`).trim();
	}
	palette.sans = style.getPropertyValue("--sans");
	palette.mono = style.getPropertyValue("--mono");
}
