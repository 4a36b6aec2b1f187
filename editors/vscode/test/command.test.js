"use strict";

const assert = require("node:assert/strict");
const test = require("node:test");
const { serverCommand } = require("../src/command");

const settings = (values) => (name) => values[name];

test("untold, it starts the command on the path, for no card", () => {
  assert.deepEqual(serverCommand(settings({})), { command: "ecocompute", args: ["lint", "--lsp"] });
});

test("a command of several words and a card are handed on", () => {
  const given = { command: ["python3", "-m", "ecocompute_cube.cli"], gpu: " RTX 4090 " };
  assert.deepEqual(serverCommand(settings(given)), {
    command: "python3",
    args: ["-m", "ecocompute_cube.cli", "lint", "--lsp", "--gpu=RTX 4090"],
  });
});

test("settings of another kind are as none", () => {
  const given = { command: "rm -rf", gpu: 4090 };
  assert.deepEqual(serverCommand(settings(given)), { command: "ecocompute", args: ["lint", "--lsp"] });
});
