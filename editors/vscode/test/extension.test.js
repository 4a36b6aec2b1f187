"use strict";

// The built extension, with a stand-in for the editor and the real server.

const assert = require("node:assert/strict");
const fs = require("node:fs");
const Module = require("node:module");
const os = require("node:os");
const path = require("node:path");
const { spawn } = require("node:child_process");
const test = require("node:test");
const rpc = require("vscode-jsonrpc/node");
const { serverCommand } = require("../src/command");

const BUILT = path.join(__dirname, "..", "dist", "extension.js");
const COMMAND = process.env.ECO_COMMAND ? JSON.parse(process.env.ECO_COMMAND) : ["ecocompute"];

test("what was built asks for the editor alone, and can be started and stopped", () => {
  const asked = new Set();
  const load = Module._load;
  const anything = new Proxy(function () {}, {
    get: (_, name) => (name === Symbol.toPrimitive ? () => "" : anything),
    apply: () => anything,
    construct: () => anything,
  });
  Module._load = function (name, ...rest) {
    if (!name.startsWith(".") && !path.isAbsolute(name) && !Module.isBuiltin(name)) {
      asked.add(name);
      return anything;
    }
    return load.call(this, name, ...rest);
  };
  try {
    const extension = require(BUILT);
    assert.equal(typeof extension.activate, "function");
    assert.equal(typeof extension.deactivate, "function");
  } finally {
    Module._load = load;
  }
  assert.deepEqual([...asked], ["vscode"]);
});

test("the server that it starts finds waste in what is open", async (context) => {
  const { command, args } = serverCommand((name) => ({ command: COMMAND, gpu: "ada" })[name]);
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), "ecocompute-"));
  context.after(() => fs.rmSync(folder, { recursive: true }));
  const server = spawn(command, args, { cwd: folder, stdio: ["pipe", "pipe", "ignore"] });
  const speaking = rpc.createMessageConnection(
    new rpc.StreamMessageReader(server.stdout),
    new rpc.StreamMessageWriter(server.stdin),
  );
  const told = new Promise((resolve) => {
    speaking.onNotification("textDocument/publishDiagnostics", resolve);
  });
  speaking.listen();
  await speaking.sendRequest("initialize", { processId: null, rootUri: null, capabilities: {} });
  await speaking.sendNotification("initialized", {});
  const text =
    "from transformers import BitsAndBytesConfig\nc = BitsAndBytesConfig(load_in_8bit=True)\n";
  const uri = `file://${folder}/app.py`;
  const document = { uri, languageId: "python", version: 1, text };
  await speaking.sendNotification("textDocument/didOpen", { textDocument: document });
  const { diagnostics } = await told;
  assert.deepEqual(
    diagnostics.map((each) => each.code),
    ["ECO101"],
  );
  await speaking.sendRequest("shutdown");
  await speaking.sendNotification("exit");
  speaking.dispose();
  await new Promise((resolve) => server.once("exit", resolve));
});
