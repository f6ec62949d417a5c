// An MCP proxy for programs that start MCP servers themselves, such as Claude Desktop: it forwards each message from
// standard input to the Cronty server at CRONTY_MCP_URL, and writes the answers to standard output.
"use strict";

const url = process.env.CRONTY_MCP_URL;
const token = process.env.CRONTY_TOKEN;
let protocolVersion = "";

function write(message) {
  process.stdout.write(`${JSON.stringify(message)}\n`);
}

function refuse(message, reason) {
  if (message.id !== undefined) {
    write({ jsonrpc: "2.0", id: message.id, error: { code: -32000, message: reason } });
  }
}

function headersFor(message) {
  const params = message.params || {};
  const version = (params._meta || {})["io.modelcontextprotocol/protocolVersion"] || protocolVersion;
  const headers = {
    Accept: "application/json, text/event-stream",
    Authorization: `Bearer ${token}`,
    "Content-Type": "application/json",
  };
  if (version && message.method !== "initialize") headers["MCP-Protocol-Version"] = version;
  if (message.method) headers["Mcp-Method"] = message.method;
  const subject = params.name || params.uri;
  // A header allows no other characters; the server then reads the name from the message.
  if (typeof subject === "string" && /^[\x20-\x7e]+$/.test(subject)) headers["Mcp-Name"] = subject;
  return headers;
}

function forward(answer) {
  const version = answer.result && answer.result.protocolVersion;
  if (version) protocolVersion = version;
  write(answer);
}

async function readEvents(body) {
  let rest = "";
  for await (const part of body.pipeThrough(new TextDecoderStream())) {
    const events = (rest + part.replaceAll("\r\n", "\n")).split("\n\n");
    rest = events.pop();
    for (const event of events) {
      const lines = event.split("\n").filter((line) => line.startsWith("data:"));
      const data = lines.map((line) => line.slice(5).trimStart()).join("\n");
      if (data) forward(JSON.parse(data));
    }
  }
}

async function send(message) {
  let response;
  try {
    response = await fetch(url, { method: "POST", headers: headersFor(message), body: JSON.stringify(message) });
  } catch {
    return refuse(message, `Cronty does not answer at ${url}: is it running?`);
  }
  if (response.status === 401) {
    return refuse(message, "Cronty refused the token: make a new one on its page Connect, and enter it in the settings.");
  }
  const kind = response.headers.get("content-type") || "";
  try {
    if (kind.includes("text/event-stream")) await readEvents(response.body);
    else if (kind.includes("application/json")) forward(await response.json());
    else if (!response.ok) refuse(message, `Cronty answered ${response.status}: ${(await response.text()).slice(0, 200)}`);
  } catch {
    refuse(message, "The connection to Cronty was lost before its answer was complete.");
  }
}

let input = "";
// Messages wait for the answer to "initialize", because they need the protocol version that the server chose.
let initialized = Promise.resolve();

function receive(line) {
  if (!line.trim()) return;
  let message;
  try {
    message = JSON.parse(line);
  } catch {
    write({ jsonrpc: "2.0", id: null, error: { code: -32700, message: "Parse error" } });
    return;
  }
  const sent = initialized.then(() => send(message));
  if (message.method === "initialize") initialized = sent;
}

process.stdin.setEncoding("utf8");
process.stdin.on("data", (part) => {
  const lines = (input + part).split("\n");
  input = lines.pop();
  lines.forEach(receive);
});
process.stdin.on("end", () => receive(input));
