// A program that shows MCP Apps, by the official library; the test bundles it with esbuild.
import { AppBridge, PostMessageTransport } from "@modelcontextprotocol/ext-apps/app-bridge";

window.opened = [];
window.sizes = [];

window.showApp = async (address, hostContext, result) => {
  const frame = document.createElement("iframe");
  frame.sandbox = "allow-scripts";
  frame.style = "width: 100%; height: 600px; border: 0";
  document.body.replaceChildren(frame);
  const bridge = new AppBridge(null, { name: "test", version: "1" }, { openLinks: {}, serverTools: {} }, { hostContext });
  bridge.oncalltool = (params) => window.callTool(params.name, params.arguments || {});
  bridge.onopenlink = async ({ url }) => {
    window.opened.push(url);
    return {};
  };
  bridge.onsizechange = (size) => window.sizes.push(size);
  const ready = new Promise((resolve) => {
    bridge.oninitialized = resolve;
  });
  await bridge.connect(new PostMessageTransport(frame.contentWindow, frame.contentWindow));
  frame.src = address;
  await ready;
  await bridge.sendToolInput({ arguments: {} });
  await bridge.sendToolResult(result);
  window.bridge = bridge;
};
