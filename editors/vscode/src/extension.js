"use strict";

const vscode = require("vscode");
const { LanguageClient, TransportKind } = require("vscode-languageclient/node");
const { DOCUMENTS, serverCommand } = require("./command");

/** @type {LanguageClient | undefined} */
let client;

async function start() {
  const settings = vscode.workspace.getConfiguration("ecocompute");
  const { command, args } = serverCommand((name) => settings.get(name));
  const folder = vscode.workspace.workspaceFolders?.[0]?.uri.fsPath;
  const run = { command, args, transport: TransportKind.stdio, options: { cwd: folder } };
  client = new LanguageClient("ecocompute", "EcoCompute lint", run, { documentSelector: DOCUMENTS });
  try {
    await client.start();
  } catch (error) {
    vscode.window.showWarningMessage(
      `ecocompute lint does not start (${error.message}). Install it with ` +
        "pip install 'ecocompute-cube[lsp]', or say where it is in ecocompute.command.",
    );
  }
}

async function stop() {
  const running = client;
  client = undefined;
  if (running?.needsStop()) await running.stop();
}

async function activate(context) {
  context.subscriptions.push(
    vscode.workspace.onDidChangeConfiguration(async (change) => {
      if (!change.affectsConfiguration("ecocompute")) return;
      await stop();
      await start();
    }),
  );
  await start();
}

module.exports = { activate, deactivate: stop };
