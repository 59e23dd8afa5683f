// The charts are there already: only the button for colours needs a script.

followTheme(() => {}, () => {});
document.documentElement.dataset.ready = String(Math.round(performance.now()));
