// The form of a job: rows of headers, hints about invalid JSON, and a draft in this tab; it also works without this script.
(() => {
  const $ = (query, from = document) => from.querySelector(query), all = (query, from = document) => [...from.querySelectorAll(query)];
  const form = $("form[data-draft]");
  if (!form) return;

  // Rows of names and values: always a blank row at the end, buttons to remove rows, and pasted lines split into rows.
  for (const pairs of all("[data-pairs]")) {
    const rows = () => all(".pair", pairs), cells = (row) => all("input, textarea", row);
    const isBlank = (row) => cells(row).every((cell) => !cell.value.trim());
    const blank = () => {
      const row = rows()[0].cloneNode(true);
      cells(row).forEach((cell, index) => {
        cell.value = "";
        cell.removeAttribute("id");
        cell.removeAttribute("aria-invalid");
        cell.setAttribute("aria-label", index ? "Value" : "Name");
      });
      $("button", row)?.remove();
      return row;
    };
    const arrange = () => {
      for (const row of rows().slice(1)) if (isBlank(row) && !row.contains(document.activeElement)) row.remove();
      if (!isBlank(rows().at(-1))) pairs.append(blank());
      for (const row of rows()) {
        if ($("button", row)) continue;
        const button = Object.assign(document.createElement("button"), { type: "button", className: "btn tiny", textContent: "×" });
        button.setAttribute("aria-label", "Remove this row");
        row.append(button);
      }
    };
    pairs.addEventListener("input", () => { if (!isBlank(rows().at(-1))) arrange(); });
    pairs.addEventListener("click", (event) => {
      const button = event.target.closest("button");
      if (!button) return;
      const row = button.closest(".pair");
      for (const cell of cells(row)) cell.value = "";
      if (rows().indexOf(row)) row.remove();
      cells(rows()[0])[0].focus();
      form.dispatchEvent(new Event("input", { bubbles: true }));
    });
    pairs.addEventListener("paste", (event) => {
      const lines = event.clipboardData.getData("text").split(/\r?\n/).map((line) => line.match(/^\s*([^:\s{]+)\s*:\s*(.*)$/));
      if (lines.length < 2 || !lines.every((line, index) => line || index === lines.length - 1)) return;
      event.preventDefault();
      for (const [, name, value] of lines.filter(Boolean)) {
        let row = rows().find(isBlank);
        if (!row) pairs.append(row = blank());
        cells(row).forEach((cell, index) => { cell.value = index ? value : name; });
      }
      arrange();
    });
    arrange();
  }

  // Text that looks like JSON but isn't valid is sent as plain text: warn while it is typed.
  for (const area of all("[data-json-hint]")) {
    const hint = Object.assign(document.createElement("p"), { className: "warning", role: "status" });
    area.after(hint);
    const check = () => {
      const text = area.value.trim();
      let warning = "";
      if (/^(\{[^]*\}|\[[^]*\])$/.test(text)) {
        try { JSON.parse(text); } catch {
          warning = `This looks like JSON, but isn’t valid, so it is sent as plain text.${/,\s*[}\]]/.test(text) ? " Remove the last comma." : ""}`;
        }
      }
      if (hint.textContent !== warning) hint.textContent = warning;
    };
    area.addEventListener("input", check);
    check();
  }

  // A link to a field with an error reveals the field: it selects its tab and opens the sections it is folded into.
  $(".errbox")?.addEventListener("click", ({ target }) => {
    const field = target.hash && $(target.hash);
    if (!field) return;
    const tab = ["phrase", "every", "once"].find((name) => field.closest(`.p-${name}`));
    if (tab) $(`#when [name=when][value=${tab}]`).click();
    for (let fold = field.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
    setTimeout(() => field.focus());
  });

  // Show the defaults of the chosen task as placeholders.
  form.addEventListener("change", ({ target }) => {
    if (target.name !== "task") return;
    $("#id_attempts").placeholder = target.dataset.attempts;
    $("#id_timeout").placeholder = target.dataset.timeout;
  });

  // Keep a draft in this tab until the form is saved; app.js forgets what was sent, unless the log-in came instead.
  const key = `draft ${form.dataset.draft}${location.search}`;
  const skipped = new Set(["csrfmiddlewaretoken", "idempotency_key", "revision", "opened"]);
  const state = () => JSON.stringify([...new FormData(form)].filter(([name]) => !skipped.has(name)));
  const untouched = state();
  // The version that the draft was based on, so that the server notices if somebody else changes the job meanwhile.
  const basis = () => ["revision", "opened"].map((name) => form.elements[name]?.value ?? "");
  const setBasis = (values) => ["revision", "opened"].forEach((name, index) => { if (form.elements[name]) form.elements[name].value = values[index]; });
  const current = basis();
  const read = () => { try { return JSON.parse(sessionStorage.getItem(key)); } catch { return null; } };
  const write = (draft) => { try { draft ? sessionStorage.setItem(key, JSON.stringify(draft)) : sessionStorage.removeItem(key); } catch { /* no storage */ } };
  const fill = (text) => {
    const values = new Map();
    for (const [name, value] of JSON.parse(text)) values.set(name, [...(values.get(name) ?? []), value]);
    for (const field of form.elements) {
      if (!field.name || skipped.has(field.name) || field.type === "submit") continue;
      const saved = values.get(field.name);
      if (field.type === "radio") field.checked = saved?.includes(field.value) ?? false;
      else if (field.type === "checkbox") field.checked = Boolean(saved);
      else field.value = saved?.shift() ?? "";
    }
    form.dispatchEvent(new Event("input", { bubbles: true }));
    $("#when").dispatchEvent(new Event("change", { bubbles: true }));
  };
  const draft = read();
  if (draft?.state && draft.state !== untouched && !("bound" in form.dataset)) {
    fill(draft.state);
    setBasis(draft.basis);
    const note = $("#restored");
    note.hidden = false;
    $("button", note).addEventListener("click", () => { write(null); note.hidden = true; fill(untouched); setBasis(current); $("#id_name").focus(); });
  } else if ("bound" in form.dataset) write(null);
  form.addEventListener("input", () => write({ state: state(), basis: basis() }));
  form.addEventListener("submit", () => { const sent = read(); if (sent) write({ ...sent, sent: true }); });
  document.addEventListener("htmx:response:error", (event) => {
    if (event.detail.ctx?.response?.status === 401) $("#logged-out").hidden = false;
  });
})();
