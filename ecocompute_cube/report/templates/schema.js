"use strict";
// JSON Schema 2020-12 as far as our schemas use it. A page with another keyword in a schema is not
// built (report/page_schemas.py), and tests hold this to Python's jsonschema.
const schemaErrors = (() => {
  const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);
  const KINDS = {
    array: Array.isArray,
    boolean: (value) => typeof value === "boolean",
    integer: Number.isInteger,
    null: (value) => value === null,
    number: (value) => typeof value === "number",
    object: isObject,
    string: (value) => typeof value === "string",
  };
  const list = (value) => (Array.isArray(value) ? value : [value]);
  const told = (value) => (JSON.stringify(value) ?? "nothing").slice(0, 60);
  const under = (place, key) => (place ? `${place}.${key}` : key);

  // One rule a keyword: what it expects, the value, and the whole schema it stands in.
  const RULES = {
    type: (kinds, value) => (list(kinds).some((kind) => KINDS[kind](value)) ? null : `is no ${list(kinds).join(" or ")}`),
    const: (only, value) => (value === only ? null : `is not ${told(only)}`),
    enum: (known, value) => (known.includes(value) ? null : `is none of ${known.map(told).join(", ")}`),
    minimum: (least, value) => (KINDS.number(value) && value < least ? `is below ${least}` : null),
    maximum: (most, value) => (KINDS.number(value) && value > most ? `is above ${most}` : null),
    exclusiveMinimum: (least, value) => (KINDS.number(value) && value <= least ? `is not above ${least}` : null),
    minLength: (least, value) => (KINDS.string(value) && [...value].length < least ? "is too short" : null),
    pattern: (form, value) => (KINDS.string(value) && !new RegExp(form, "u").test(value) ? `is not of the form ${form}` : null),
    minItems: (least, value) => (Array.isArray(value) && value.length < least ? `has fewer than ${least} items` : null),
    maxItems: (most, value) => (Array.isArray(value) && value.length > most ? `has more than ${most} items` : null),
  };

  const within = (root, schema, value, place) => {
    const found = [];
    const into = (part, inner, where) => found.push(...errors(root, part, inner, where));
    if (isObject(value)) {
      for (const name of schema.required ?? []) if (!Object.hasOwn(value, name)) found.push(`${under(place, name)}: is missing`);
      for (const [name, inner] of Object.entries(value)) {
        const known = Object.hasOwn(schema.properties ?? {}, name);
        if (known) into(schema.properties[name], inner, under(place, name));
        else if (schema.additionalProperties !== undefined) into(schema.additionalProperties, inner, under(place, name));
      }
    }
    if (Array.isArray(value)) {
      const first = schema.prefixItems ?? [];
      value.forEach((inner, at) => {
        const part = at < first.length ? first[at] : schema.items;
        if (part !== undefined) into(part, inner, under(place, at));
      });
    }
    return found;
  };

  const choices = (root, schema, value, place) => {
    const found = [];
    for (const keyword of ["anyOf", "oneOf"]) {
      if (!schema[keyword]) continue;
      const each = schema[keyword].map((part) => errors(root, part, value, place));
      const fitting = each.filter((wrong) => !wrong.length).length;
      if (!fitting) found.push(...each.reduce((a, b) => (b.length < a.length ? b : a))); // the nearest
      if (keyword === "oneOf" && fitting > 1) found.push(`${place || "document"}: fits several forms`);
    }
    if (schema.if !== undefined && schema.then !== undefined && !errors(root, schema.if, value, place).length) found.push(...errors(root, schema.then, value, place));
    return found;
  };

  // Sentences of the form ``place: what is wrong``; none where the value fits.
  const errors = (root, schema, value, place = "") => {
    if (typeof schema === "boolean") return schema ? [] : [`${place || "document"}: is not known`];
    const found = [];
    if (schema.$ref) found.push(...errors(root, root.$defs[schema.$ref.slice("#/$defs/".length)], value, place));
    for (const [keyword, rule] of Object.entries(RULES)) {
      if (!Object.hasOwn(schema, keyword)) continue;
      const wrong = rule(schema[keyword], value);
      if (wrong) found.push(`${place || "document"}: ${wrong}`);
    }
    found.push(...within(root, schema, value, place), ...choices(root, schema, value, place));
    return found;
  };
  return (schema, value) => errors(schema, schema, value);
})();
