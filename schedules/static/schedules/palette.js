// The command palette: Ctrl-K or ⌘K opens it, arrows move, Enter opens or performs the choice, Escape closes it.
// Pages load this script on first use.
(() => {
  const dialog = document.querySelector("#palette");
  const field = dialog.querySelector("input"), list = dialog.querySelector("[role=listbox]"), status = dialog.querySelector("[role=status]");
  const pages = [...list.children], help = status.innerHTML;
  let lastRequest = 0;

  function open() {
    if (dialog.open || document.querySelector("dialog[open]")) return;
    field.value = "";
    show([]);
    dialog.showModal();
  }
  const options = () => [...list.children];
  const chosen = () => list.querySelector("[aria-selected=true]");
  function choose(option) {
    chosen()?.setAttribute("aria-selected", "false");
    option?.setAttribute("aria-selected", "true");
    option?.scrollIntoView({ block: "nearest" });
    if (option) field.setAttribute("aria-activedescendant", option.id);
    else field.removeAttribute("aria-activedescendant");
  }
  function show(jobs) {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    const matches = pages.filter((page) => words.every((word) => page.textContent.toLowerCase().includes(word)));
    list.replaceChildren(...matches, ...jobs);
    for (const option of options()) option.setAttribute("aria-selected", "false");
    choose(options()[0]);
    if (!words.length) status.innerHTML = help;
    else status.textContent = options().length ? `${options().length} found` : "Nothing found.";
  }
  async function search() {
    const number = ++lastRequest, typed = field.value.trim();
    if (!typed) return show([]);
    try {
      const answer = await fetch(`${dialog.dataset.url}?q=${encodeURIComponent(typed)}`, { redirect: "manual" });
      if (number !== lastRequest || !answer.ok) return;
      const part = document.createElement("template");
      part.innerHTML = await answer.text();
      show([...part.content.children]);
    } catch { if (number === lastRequest) status.textContent = "The server can’t be reached."; }
  }
  function go(option) {
    if (!option.hasAttribute("data-send")) return location.assign(option.href);
    const form = dialog.querySelector("form");
    form.action = option.href;
    form.requestSubmit();
  }

  let waiting;
  field.addEventListener("input", () => {
    clearTimeout(waiting);
    show(options().filter((option) => !pages.includes(option)));
    waiting = setTimeout(search, 120);
  });
  field.addEventListener("keydown", (event) => {
    const all = options(), index = all.indexOf(chosen());
    const next = { ArrowDown: index + 1, ArrowUp: index - 1 + all.length }[event.key];
    if (event.isComposing) return;
    if (next !== undefined && all.length) { event.preventDefault(); choose(all[next % all.length]); }
    if (event.key === "Enter") {
      event.preventDefault();
      if (chosen()) go(chosen());
    }
  });
  list.addEventListener("click", (event) => {
    const option = event.target.closest("[data-send]");
    if (option) { event.preventDefault(); go(option); }
  });
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
  document.addEventListener("click", (event) => { if (event.target.closest("[data-palette]")) open(); });
  document.addEventListener("keydown", (event) => {
    if (event.key.toLowerCase() !== "k" || !(event.ctrlKey || event.metaKey) || event.shiftKey || event.altKey) return;
    if (dialog.open) dialog.close();
    else open();
  });
  open();
})();
