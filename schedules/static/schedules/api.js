"use strict";

// The API reference: sends its example requests with the token typed into the page, and shows the responses.

const maxShown = 20000;

function addressOf(form) {
  const query = new URLSearchParams();
  let path = form.dataset.path;
  for (const field of form.querySelectorAll("[data-place]")) {
    if (field.dataset.place === "path") {
      path = path.replace(`{${field.name}}`, encodeURIComponent(field.value));
    } else if (field.dataset.place === "query" && field.value) {
      query.set(field.name, field.value);
    }
  }
  return query.size ? `${path}?${query}` : path;
}

function optionsOf(form) {
  const headers = { Authorization: `Bearer ${document.querySelector("#api-token").value.trim()}` };
  for (const field of form.querySelectorAll("[data-place=header]")) {
    if (field.value) headers[field.name] = field.value;
  }
  const body = form.querySelector("[data-place=body]");
  if (body && body.value.trim()) headers["Content-Type"] = "application/json";
  return { method: form.dataset.method, headers, credentials: "omit", body: body?.value.trim() || undefined };
}

async function readBeginning(answer) {
  // Streams don't end, so only the beginning is shown.
  const reader = answer.body?.getReader();
  const decoder = new TextDecoder();
  const timeout = setTimeout(() => reader?.cancel(), 5000);
  let text = "";
  while (reader && text.length < maxShown) {
    const { value, done } = await reader.read();
    if (done) break;
    text += decoder.decode(value, { stream: true });
  }
  clearTimeout(timeout);
  return text.slice(0, maxShown);
}

function formatted(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

for (const form of document.querySelectorAll("[data-try]")) {
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const shown = form.querySelector("pre");
    shown.hidden = false;
    shown.textContent = "…";
    try {
      const answer = await fetch(addressOf(form), optionsOf(form));
      const text = await readBeginning(answer);
      shown.textContent = `${answer.status} ${answer.statusText}\n${formatted(text)}`;
    } catch (error) {
      shown.textContent = `The server did not answer: ${error.message}`;
    }
  });
}
