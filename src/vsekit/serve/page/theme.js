// Runs before the first paint, so that a chosen theme never flashes the other one.
{
  const root = document.documentElement;
  const read = () => { try { return localStorage.getItem("theme"); } catch { return null; } };
  const system = matchMedia("(prefers-color-scheme: dark)");
  const chosen = read();
  if (chosen) root.dataset.theme = chosen;
  window.toggleTheme = () => {
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : system.matches;
    const next = dark ? "light" : "dark";
    // Back to what the system says is no choice at all: the page follows the system again.
    const choice = (next === "dark") === system.matches ? null : next;
    if (choice) root.dataset.theme = choice; else delete root.dataset.theme;
    try { choice ? localStorage.setItem("theme", choice) : localStorage.removeItem("theme"); } catch { /* not kept */ }
  };
}
