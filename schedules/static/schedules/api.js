"use strict";

// Sends the requests of the reference with the token that was typed into the page, and shows the answers.

const mostShown = 20000;

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

async function readSome(answer) {
  // A stream does not end: its beginning is shown.
  const reader = answer.body?.getReader();
  const decoder = new TextDecoder();
  const end = setTimeout(() => reader?.cancel(), 5000);
  let text = "";
  while (reader && text.length < mostShown) {
    const { value, done } = await reader.read();
    if (done) break;
    text += decoder.decode(value, { stream: true });
  }
  clearTimeout(end);
  return text.slice(0, mostShown);
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
      const text = await readSome(answer);
      shown.textContent = `${answer.status} ${answer.statusText}\n${formatted(text)}`;
    } catch (error) {
      shown.textContent = `The server did not answer: ${error.message}`;
    }
  });
}
