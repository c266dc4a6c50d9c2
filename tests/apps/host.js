// The reference host of MCP Apps around one page, for apps.mjs to drive.
import { AppBridge, PostMessageTransport } from "@modelcontextprotocol/ext-apps/app-bridge";

window.host = { sizes: [], calls: [], answers: [] };
window.open_page = (html, { context, input, capabilities }) => new Promise((done) => {
  const frame = document.createElement("iframe");
  frame.setAttribute("sandbox", "allow-scripts");
  frame.style.cssText = "width:100%;height:500px;border:0";
  document.body.append(frame);
  const bridge = new AppBridge(null, { name: "reference", version: "1" }, capabilities, { hostContext: context });
  bridge.oninitialized = () => { bridge.sendToolInput({ arguments: input }); done(); };
  bridge.onsizechange = (size) => window.host.sizes.push(size);
  bridge.oncalltool = async (params) => {
    window.host.calls.push(params);
    const answer = window.host.answers.shift();
    if (!answer) throw new Error("the pod went away");
    return answer;
  };
  window.bridge = bridge;
  window.frame = frame;
  bridge.connect(new PostMessageTransport(frame.contentWindow, frame.contentWindow)).then(() => { frame.srcdoc = html; });
});
