"use strict";
// Plain questions in the browser: analysis/question.py, by the same rules (in the tables).
const understanding = (tables, { card }) => {
  const KIBI = 1024; // "8k context" is 8192
  // Python's \w and \d know every script; JavaScript's do not.
  const translated = (pattern) =>
    pattern.replace(/\[(?:\\.|[^\]])*\]|\\w|\\d/g, (part) => {
      if (part === "\\w") return "[\\p{L}\\p{N}_]";
      if (part === "\\d") return "\\p{Nd}";
      return part.replaceAll("\\w", "\\p{L}\\p{N}_").replaceAll("\\d", "\\p{Nd}");
    });
  const compiled = (pattern) => new RegExp(translated(pattern), "gu");
  const rules = tables.rules.map((rule) => ({ ...rule, pattern: compiled(rule.pattern) }));
  const unknownBoard = compiled(tables.unknown_board);

  // As Python's casefold, for what is left of NFKC and is no lower case of its own.
  const folded = (text) => text.normalize("NFKC").toLowerCase().replaceAll("ß", "ss").replaceAll("ς", "σ");
  // Decimal digits of a script stand in a row, from zero.
  const digit = (sign) => {
    let zero = sign.codePointAt(0);
    const at = zero;
    while (/\p{Nd}/u.test(String.fromCodePoint(zero - 1))) zero -= 1;
    return String((at - zero) % 10);
  };
  const number = (text) => Number(text.replace(/\p{Nd}/gu, digit));
  // Halves to the even number, as Python rounds.
  const rounded = (value) => {
    const low = Math.floor(value);
    if (value - low !== 0.5) return Math.round(value);
    return low % 2 ? low + 1 : low;
  };
  const READ = {
    spelling: (_, rule) => rule.means,
    word: (match) => match[0],
    board: (match) => card(match[0].replace(/\s+/g, " ")).name,
    count: (match) => rounded(number(match[1]) * (match[2] ? KIBI : 1)),
    billions: (match) => number(match[1]),
    millions: (match) => number(match[1]) / 1000,
  };
  const taken = (rule, text, values) => {
    for (const match of text.matchAll(rule.pattern)) {
      const value = READ[rule.reads](match, rule);
      const known = (values[rule.parameter] ??= value);
      if (known !== value) {
        throw new Mistake(`${rule.parameter}: the question says both ${words.shown(known)} and ${words.shown(value)}.`, "Ask about one at a time.");
      }
    }
    return text.replace(rule.pattern, " ");
  };
  const figures = (text) =>
    text.split(/\s+/u).map((word) => word.replace(/^[.,;:?!()'"]+|[.,;:?!()'"]+$/g, "")).filter((word) => /[\p{Nd}\p{No}]/u.test(word));

  // What a question says, by the names of the parameters, and what it says besides.
  return (text) => {
    const most = tables.limits.most_characters;
    const length = [...text].length;
    if (length > most) throw new Mistake(`q: a question of ${length} characters is too long.`, `Ask in ${most} characters: 13B on A100, int8.`);
    const values = {};
    let left = folded(text);
    for (const rule of rules) left = taken(rule, left, values);
    unknownBoard.lastIndex = 0;
    const unknown = unknownBoard.exec(left);
    if (unknown && values.gpu === undefined) card(unknown[0]);
    return { values, unread: figures(left) };
  };
};
