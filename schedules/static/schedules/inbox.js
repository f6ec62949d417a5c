// The inbox by keyboard: j and k move, Enter focuses the answer, Escape the list. A typed answer stays with its prompt.
(() => {
  const rows = () => [...document.querySelectorAll(".i-row > a")];
  const current = () => rows().findIndex((row) => row.hasAttribute("aria-current"));
  const answer = () => document.querySelector(".prompt textarea");
  const typed = new Map();
  let lastKey = "";

  document.addEventListener("input", (event) => {
    if (event.target.matches(".prompt textarea")) typed.set(event.target.id, event.target.value);
  });
  document.addEventListener("htmx:after:swap", () => {
    const field = answer();
    if (field && !field.value && typed.has(field.id)) field.value = typed.get(field.id);
    const chosen = document.activeElement?.closest?.(".i-row > a");
    if (chosen && matchMedia("(max-width: 899.98px)").matches) document.querySelector(".prompt")?.scrollIntoView();
  });
  document.addEventListener("keydown", (event) => {
    const previousKey = lastKey;
    lastKey = event.key;
    if (event.key === "Escape" && event.target.matches(".prompt textarea")) return rows()[current()]?.focus();
    if (event.ctrlKey || event.metaKey || event.altKey || previousKey === "g") return;
    if (event.target.closest("input:not([type=checkbox]), textarea, select, dialog")) return;
    const step = { j: 1, k: -1 }[event.key], list = rows();
    if (step && list.length) {
      const next = list[Math.min(Math.max(current() + step, 0), list.length - 1)];
      next.focus();
      next.click();
    } else if (event.key === "Enter" && answer() && (event.target === document.body || event.target.matches(".i-row > a[aria-current]"))) {
      event.preventDefault();
      answer().focus();
    }
  });
})();
