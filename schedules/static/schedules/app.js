// Live refresh, relative times, theme switch, keyboard shortcuts and copy buttons; every page also works without them.
(() => {
  const root = document.documentElement, $ = (query, from = document) => from.querySelector(query);
  root.classList.add("js");

  // Refresh every 3 s while a run is in progress, else every 30 s; not while a control is in use or the tab is hidden.
  let waited = 0;
  const busy = "#live details[open], #live :is(input, textarea, select):focus, #live [type=checkbox]:checked, dialog[open]";
  setInterval(() => {
    tick();
    waited += 1;
    if (document.hidden || waited < ($("[data-soon]") ? 3 : 30) || $(busy)) return;
    waited = 0;
    document.body.dispatchEvent(new CustomEvent("refresh"));
  }, 1000);
  document.addEventListener("visibilitychange", () => { waited = 99; });

  // Relative times, in the same format as templatetags/cronty_times.py, updated every second.
  const steps = [[59.5, 1, "s"], [7170, 60, "min"], [171000, 3600, "h"], [Infinity, 86400, "d"]];
  const words = (seconds) => {
    const size = Math.abs(seconds);
    const [, unit, name] = steps.find(([end]) => size < end);
    const text = `${Math.round(size / unit)} ${name}`;
    return size < 1 ? "now" : seconds > 0 ? `in ${text}` : `${text} ago`;
  };
  function tick() {
    const skew = (Number(root.dataset.skew) || 0), now = Date.now() + skew;
    for (const time of document.querySelectorAll("time[data-rel]")) {
      const text = words((Date.parse(time.dateTime) - now) / 1000);
      if (time.textContent !== text) time.textContent = text;
    }
  }
  const served = $("meta[name=served-at]");
  if (served) root.dataset.skew = Math.abs(Date.parse(served.content) - Date.now()) > 5000 ? Date.parse(served.content) - Date.now() : 0;

  // Fill in the browser's time zone where a form asks for it.
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  for (const field of document.querySelectorAll("[data-browser-zone]")) if (zone) field.value = zone;

  document.addEventListener("click", (event) => {
    const hit = (query) => event.target.closest(query);
    const theme = hit("[data-theme-switch]"), copy = hit("[data-copy]"), fill = hit("[data-fill]"), open = hit("[data-open]");
    if (theme) {
      event.preventDefault();
      const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
      root.dataset.theme = dark ? "light" : "dark";
      document.cookie = `theme=${root.dataset.theme};path=/;max-age=31536000;samesite=lax`;
    } else if (copy) copied(copy, $(copy.dataset.copy).textContent);
    else if (fill) {
      const field = $(fill.dataset.fill);
      field.value = fill.dataset.value ?? fill.textContent.trim();
      field.dispatchEvent(new Event("input", { bubbles: true }));
      field.focus();
    } else if (open) $(open.dataset.open).showModal();
    else if (hit(".toast .x")) hit(".toast").remove();
    else if (hit("[data-all]")) for (const box of document.querySelectorAll("[name=job]")) box.checked = event.target.checked;
    for (const menu of document.querySelectorAll("details.menu[open], details.pop[open]")) if (!menu.contains(event.target)) menu.open = false;
  });

  // Over plain HTTP there is no clipboard API.
  async function copied(button, text) {
    try { await navigator.clipboard.writeText(text); } catch {
      const area = Object.assign(document.createElement("textarea"), { value: text });
      document.body.append(area);
      area.select();
      document.execCommand("copy");
      area.remove();
      button.focus();
    }
    const label = button.textContent;
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = label; }, 1500);
  }

  // Confirm actions that cannot be undone, and submit each form only once.
  document.addEventListener("submit", (event) => {
    const ask = event.submitter?.dataset.ask;
    if (ask && !confirm(ask)) { event.preventDefault(); event.stopImmediatePropagation(); return; }
    if (!event.target.closest("[hx-boost]") && event.target.method === "post") {
      if (event.target.dataset.sent) event.preventDefault();
      event.target.dataset.sent = "yes";
    }
  }, true);
  addEventListener("pageshow", () => { for (const form of document.forms) delete form.dataset.sent; });

  // A refused action means that the page is out of date: reload it.
  document.addEventListener("htmx:response:error", (event) => {
    if (event.detail.ctx?.request?.method === "POST") location.reload();
  });

  let pressedG = false;
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") for (const menu of document.querySelectorAll("details.menu[open], details.pop[open]")) { menu.open = false; $("summary", menu).focus(); }
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select, dialog")) return;
    const go = pressedG && { j: "jobs", r: "runs", c: "calendar", i: "inbox", n: "notifications", a: "connect" }[event.key];
    pressedG = event.key === "g";
    if (go) $(`[data-go=${go}]`)?.click();
    else if (event.key === "/" && $("[type=search]")) { event.preventDefault(); $("[type=search]").focus(); }
    else if (event.key === "n") $("[data-go=new]")?.click();
    else if (event.key === "?") $("#keys")?.showModal();
  });
})();
