// The conversation with the program that shows this page, by the protocol of MCP Apps (2026-01-26).
"use strict";

const waiting = new Map();
let lastId = 0;
let context = {};

function post(message) {
  parent.postMessage({ jsonrpc: "2.0", ...message }, "*");
}

function request(method, params) {
  const id = ++lastId;
  post({ id, method, params });
  return new Promise((resolve, reject) => waiting.set(id, { resolve, reject }));
}

// Call a tool; a refusal is thrown as an error with the tool's own words.
async function call(name, args) {
  const result = await request("tools/call", { name, arguments: args });
  const answer = result.structuredContent || {};
  const words = answer.error || (result.isError && result.content.map((part) => part.text).join(" "));
  if (words) throw new Error(words);
  return answer;
}

function adopt(changed) {
  context = { ...context, ...changed };
  if (context.theme) document.documentElement.dataset.theme = context.theme;
  const variables = (context.styles && context.styles.variables) || {};
  for (const [name, value] of Object.entries(variables)) {
    if (value) document.documentElement.style.setProperty(name, value);
  }
}

async function connect(show) {
  addEventListener("message", ({ source, data }) => {
    if (source !== parent || !data || data.jsonrpc !== "2.0") return;
    if (!data.method) {
      const asked = waiting.get(data.id);
      waiting.delete(data.id);
      if (asked && data.error) asked.reject(new Error(data.error.message));
      else if (asked) asked.resolve(data.result);
    } else if (data.method === "ui/notifications/tool-result") show(data.params.structuredContent || {}, data.params);
    else if (data.method === "ui/notifications/tool-input") context.arguments = data.params.arguments;
    else if (data.method === "ui/notifications/host-context-changed") adopt(data.params);
    else if (data.id !== undefined) post({ id: data.id, result: {} });
  });
  const host = await request("ui/initialize", {
    appInfo: { name: "cronty", version: "1" },
    appCapabilities: {},
    protocolVersion: "2026-01-26",
  });
  adopt(host.hostContext || {});
  post({ method: "ui/notifications/initialized", params: {} });
  new ResizeObserver(() => {
    const { width, height } = document.documentElement.getBoundingClientRect();
    post({ method: "ui/notifications/size-changed", params: { width: Math.ceil(width), height: Math.ceil(height) } });
  }).observe(document.documentElement);
}

// Every text goes through textContent: names and messages of jobs are data.
function element(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children.filter((child) => child !== null && child !== undefined && child !== ""));
  return made;
}

// "2026-11-16T09:00:00+01:00" in the words of the reader, on the clock of the job's zone.
function moment(iso, now = new Date()) {
  const [date, time] = iso.split("T");
  const day = new Date(`${date}T12:00:00`);
  const today = new Date(now.getFullYear(), now.getMonth(), now.getDate(), 12);
  const days = Math.round((day - today) / 86400000);
  const locale = context.locale || undefined;
  const words =
    days === 0 || days === 1 || days === -1
      ? new Intl.RelativeTimeFormat(locale, { numeric: "auto" }).format(days, "day")
      : day.toLocaleDateString(locale, { weekday: "short", day: "numeric", month: "short" });
  return `${words} ${time.slice(0, 5)}`;
}

// A warning of a tool, which is written for an agent.
function warn(answer) {
  const place = document.getElementById("warning");
  place.textContent = (answer.warning || "").replace(": tell the user", "");
  place.hidden = !answer.warning;
}

// A button that does one thing at a time and reports in the live region beside it.
function button(label, action, status, kind = "") {
  const made = element("button", { type: "button", textContent: label, className: kind });
  made.addEventListener("click", async () => {
    made.disabled = true;
    status.textContent = "";
    try {
      await action(made);
    } catch (problem) {
      status.textContent = problem.message;
    }
    made.disabled = false;
  });
  return made;
}
