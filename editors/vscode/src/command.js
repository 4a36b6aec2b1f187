"use strict";

// How the server is started, by the settings. Knows nothing of the editor, so that it can be tested.

/** Languages and files that `ecocompute lint` reads. */
const DOCUMENTS = [
  { scheme: "file", language: "python" },
  { scheme: "file", language: "yaml" },
  { scheme: "file", language: "json" },
  { scheme: "file", language: "dockerfile" },
  { scheme: "file", language: "shellscript" },
];

/**
 * The words to start the server with.
 * @param {(name: string) => unknown} setting reads one of our settings
 * @returns {{command: string, args: string[]}}
 */
function serverCommand(setting) {
  const given = setting("command");
  const words = Array.isArray(given) ? given.filter((word) => typeof word === "string" && word) : [];
  const [command, ...first] = words.length ? words : ["ecocompute"];
  const gpu = setting("gpu");
  const card = typeof gpu === "string" && gpu.trim() ? [`--gpu=${gpu.trim()}`] : [];
  return { command, args: [...first, "lint", "--lsp", ...card] };
}

module.exports = { DOCUMENTS, serverCommand };
