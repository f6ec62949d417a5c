// Live refresh, relative times, selection, toasts, theme, shortcuts and copy buttons; every page also works without this script.
(() => {
  const root = document.documentElement, $ = (query, from = document) => from.querySelector(query);
  const all = (query, from = document) => [...from.querySelectorAll(query)];

  // Live refresh: poll a short version every 3 s while something is due or running, else every 30 s, and refresh when it
  // has changed, but not while a control is in use. A page with [data-poll] refreshes every 3 s without asking for it.
  const polling = $("#polling"), busy = "#live details[open], #live :is(input:not([type=checkbox]), textarea, select):focus, dialog[open]";
  let seen = polling?.dataset.version, wait = 0, waited = 0, asking = false, refreshed = Date.now();
  const refresh = () => {
    if ($(busy)) return;
    refreshed = Date.now();
    document.body.dispatchEvent(new CustomEvent("refresh"));
  };
  async function poll() {
    if (asking) return;
    asking = true;
    try {
      // Don't follow the redirect of an expired session to the login page, which would use up its messages unseen.
      const answer = await fetch(polling.dataset.url, { headers: { Accept: "application/json" }, cache: "no-store", redirect: "manual" });
      online();
      wait = 30;
      if (answer.type === "opaqueredirect") return refresh();
      if (!answer.ok) return;
      const { version, soon } = await answer.json();
      if (soon) wait = 3;
      if ($(busy)) return;
      if (seen !== version || Date.now() - refreshed > 300000) refresh();
      seen = version;
    } catch { offline("You’re offline, or the server can’t be reached. Trying again…"); wait = 3; } finally { asking = false; }
  }
  setInterval(() => {
    tick();
    waited += 1;
    if (document.hidden || !polling || waited < ($("[data-poll]") ? Math.min(wait, 3) : wait)) return;
    waited = 0;
    if ($("[data-poll]") && !$(busy)) refresh();
    else if ($("#live")) poll();
  }, 1000);
  document.addEventListener("visibilitychange", () => { if (!document.hidden) waited = 99; });
  addEventListener("online", () => { waited = 99; });
  addEventListener("offline", () => offline("You’re offline. This page shows what was known last."));

  // While offline, one toast stays until the server answers again.
  function offline(text) {
    root.classList.add("offline");
    if (!$("#offline")) show(text, "warning", "offline");
  }
  function online() {
    if (!root.classList.contains("offline")) return;
    root.classList.remove("offline");
    $("#offline")?.remove();
    refresh();
  }
  function show(text, level, id = "") {
    const toast = Object.assign(document.createElement("div"), { className: `toast ${level}`, id });
    toast.append(Object.assign(document.createElement("span"), { textContent: text }));
    if (!id) toast.append(Object.assign(document.createElement("button"), { className: "btn tiny x", textContent: "×", ariaLabel: "Close" }));
    $("#toasts")?.append(toast);
  }
  document.addEventListener("htmx:error", (event) => {
    for (const each of all("[aria-busy]")) each.removeAttribute("aria-busy");
    if (event.detail.ctx?.request?.method !== "POST") return offline("You’re offline, or the server can’t be reached. Trying again…");
    show("The server can’t be reached. Nothing was changed.", "error");
  });
  // After a refused action the page is out of date: reload it. Previews of forms change nothing and don't count.
  document.addEventListener("htmx:response:error", (event) => {
    const { request, sourceElement } = event.detail.ctx ?? {};
    if (request?.method === "POST" && !sourceElement?.hasAttribute("hx-post")) location.reload();
  });
  document.addEventListener("htmx:after:swap", (event) => {
    online();
    // htmx updates the title from the response, but not the icon.
    const icon = event.detail.ctx?.text?.match(/<link rel="icon" href="([^"]+)"/);
    if (icon) $("link[rel=icon]").href = icon[1];
    // The count of the inbox is in the navigation, outside the refreshed part.
    const count = event.detail.ctx?.text?.match(/ data-waiting="([^"]*)"/), badge = $("#waiting");
    if (count && badge) { badge.textContent = count[1]; badge.hidden = !count[1]; }
    if (event.detail.ctx?.request?.method === "POST") { clear(); waited = 99; }
    counted();
    tick();
  });

  // Screen readers ignore messages that are there when the page opens: add them again. Successes disappear by themselves.
  const shown = $("#toasts") ? [...$("#toasts").children] : [];
  if (shown.length) { $("#toasts").replaceChildren(); setTimeout(() => $("#toasts").append(...shown), 150); }
  // After a form was refused, focus the first problem.
  ($("main .errbox[tabindex]") || $("main [aria-invalid=true]"))?.focus();

  // Relative times, in the same format as templatetags/cronty_times.py, updated every second.
  const steps = [[59.5, 1, "s"], [7170, 60, "min"], [171000, 3600, "h"], [Infinity, 86400, "d"]];
  const relative = (seconds) => {
    const size = Math.abs(seconds);
    const [, unit, name] = steps.find(([limit]) => size < limit);
    const text = `${Math.round(size / unit)} ${name}`;
    return size < 1 ? "now" : seconds > 0 ? `in ${text}` : `${text} ago`;
  };
  function tick() {
    const skew = Number(root.dataset.skew) || 0, now = Date.now() + skew;
    for (const time of all("time[data-rel]")) {
      const text = relative((Date.parse(time.dateTime) - now) / 1000);
      if (time.textContent !== text) time.textContent = text;
    }
    const clock = $("[data-clock]");
    if (clock) clock.textContent = wall(new Date(now), clock.dataset);
    for (const toast of all("#toasts > .success")) {
      toast.dataset.until ||= Date.now() + ($("form, a", toast) ? 12000 : 6000);
      if (Date.now() > toast.dataset.until && !toast.matches(":hover, :focus-within")) toast.remove();
    }
  }
  function wall(moment, { clock, hours }) {
    const options = { weekday: "short", day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", second: "2-digit" };
    try {
      return moment.toLocaleString("en-GB", { ...options, timeZone: clock, hour12: hours === "12" }).replace(/,/g, "");
    } catch { return $("[data-clock]").textContent; }
  }
  // A form of a job that was sent and led to another page is saved; the page of the log-in has no toasts.
  if ($("#toasts") && !$("form[data-draft]")) {
    try {
      for (const key of Object.keys(sessionStorage)) if (key.startsWith("draft ") && JSON.parse(sessionStorage[key])?.sent) sessionStorage.removeItem(key);
    } catch { /* no storage */ }
  }
  const served = $("meta[name=served-at]");
  if (served) root.dataset.skew = Math.abs(Date.parse(served.content) - Date.now()) > 5000 ? Date.parse(served.content) - Date.now() : 0;

  // The selection: single rows, or all that match.
  const boxes = () => all("[name=job][type=checkbox], [name=run][type=checkbox]");
  function counted() {
    const bar = $(".bulk");
    if (!bar) return 0;
    const whole = $("[name=all]:checked", bar), count = whole ? Number(whole.dataset.count) : boxes().filter((box) => box.checked).length;
    // Without a selection, the bar is hidden.
    if (count) $(".count", bar).textContent = `${count.toLocaleString("en")} selected`;
    return count;
  }
  function clear() {
    for (const box of [...boxes(), ...all("[name=all], [data-all]")]) box.checked = false;
  }
  document.addEventListener("change", (event) => {
    if (event.target.matches("[data-all], [name=all]")) for (const box of boxes()) box.checked = event.target.checked;
    else if (event.target.matches("[name=job], [name=run]")) for (const box of all("[name=all], [data-all]")) box.checked = false;
    counted();
  });

  // Fill in the browser's time zone where a form asks for it.
  for (const field of all("[data-browser-zone]")) {
    field.value = Intl.DateTimeFormat().resolvedOptions().timeZone || field.value;
    // In a later task, because htmx is not listening yet.
    setTimeout(() => field.dispatchEvent(new Event("change", { bubbles: true })));
  }

  const menus = "details.menu[open], details.pop[open]";
  document.addEventListener("click", (event) => {
    const hit = (query) => event.target.closest(query);
    const theme = hit("[data-theme-switch]"), copy = hit("[data-copy]"), fill = hit("[data-fill]");
    if (theme) {
      event.preventDefault();
      if (theme.value === "system") delete root.dataset.theme;
      else root.dataset.theme = theme.value;
      document.cookie = `theme=${root.dataset.theme || ""};path=/;max-age=${root.dataset.theme ? 31536000 : 0};samesite=lax`;
      const menu = theme.closest("details");
      if (menu) { menu.open = false; $("summary", menu).focus(); }
    } else if (copy) copyText(copy, $(copy.dataset.copy).textContent);
    else if (fill) {
      const field = $(fill.dataset.fill);
      field.value = fill.dataset.value ?? fill.textContent.trim();
      field.dispatchEvent(new Event("input", { bubbles: true }));
      field.focus();
    } else if (hit(".toast .x")) hit(".toast").remove();
    else if (hit("[data-clear]")) { clear(); counted(); }
    for (const menu of all(menus)) if (!menu.contains(event.target)) menu.open = false;
  });

  // Browsers have no clipboard API over plain HTTP.
  async function copyText(button, text) {
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

  // Confirm actions that cannot be undone, submit each form only once, and mark the button while it is in progress.
  document.addEventListener("submit", (event) => {
    const button = event.submitter, count = counted();
    // The list's default button does nothing, but htmx would send its form.
    if (button?.formMethod === "dialog") { event.stopImmediatePropagation(); return; }
    const question = button?.dataset.ask?.replace("#", `${count} ${$(".bulk")?.dataset.noun || "job"}${count === 1 ? "" : "s"}`);
    if (question && !confirm(question)) { event.preventDefault(); event.stopImmediatePropagation(); return; }
    if (!event.target.closest("[hx-boost]")) {
      if (event.target.method !== "post") return;
      if (event.target.dataset.sent) event.preventDefault();
      event.target.dataset.sent = "yes";
    } else if (button?.ariaBusy) { event.preventDefault(); event.stopImmediatePropagation(); } else button?.setAttribute("aria-busy", "true");
  }, true);
  document.addEventListener("htmx:finally:request", () => { for (const each of all("[aria-busy]")) each.removeAttribute("aria-busy"); });
  addEventListener("pageshow", () => { for (const form of document.forms) delete form.dataset.sent; counted(); });

  // The service worker shows the offline page when there is no connection.
  addEventListener("load", () => { navigator.serviceWorker?.register(root.dataset.worker).catch(() => {}); });

  // The command palette is loaded on first use, and then adds its own listeners.
  const palette = $("[data-palette]"), load = () => import(palette.dataset.palette).catch(() => offline("The server can’t be reached. Trying again…"));
  palette?.addEventListener("click", load);

  let pressedG = false;
  document.addEventListener("keydown", (event) => {
    if (palette && event.key.toLowerCase() === "k" && (event.ctrlKey || event.metaKey) && !event.shiftKey && !event.altKey) {
      event.preventDefault();
      load();
      return;
    }
    if (event.key === "Escape") for (const menu of all(menus)) { menu.open = false; $("summary", menu).focus(); }
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input:not([type=checkbox]), textarea, select, dialog")) return;
    const go = pressedG && { j: "jobs", r: "runs", c: "calendar", i: "inbox", n: "notifications", a: "connect" }[event.key];
    pressedG = event.key === "g";
    if (go) $(`[data-go=${go}]`)?.click();
    else if (event.key === "/" && $("[type=search]")) { event.preventDefault(); $("[type=search]").focus(); }
    else if (event.key === "n" && $("#quick")) { event.preventDefault(); $("#quick").focus(); }
    else if (event.key === "n") $("[data-go=new]")?.click();
    else if (event.key === "?") $("#keys")?.showModal();
  });
})();
