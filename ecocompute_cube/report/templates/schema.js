"use strict";
// JSON Schema 2020-12 as far as our schemas use it. A page with another keyword in a schema is not
// built (report/page_schemas.py), and tests hold this to Python's jsonschema.
const schemaErrors = (() => {
  const MOST = 1000; // faults of one list or object: nobody reads more, and a big file holds many
  const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);
  const KINDS = {
    array: Array.isArray,
    boolean: (value) => typeof value === "boolean",
    integer: Number.isInteger,
    null: (value) => value === null,
    number: Number.isFinite, // 1e999 is read as infinity
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

  // What is wrong: a place, what is said of it, and whether the value is of another kind altogether.
  const fault = (place, says, kind = false) => ({ place, says, kind });

  const within = (root, schema, value, place) => {
    let found = [];
    const into = (part, inner, key) => {
      if (part !== undefined && found.length < MOST) found = found.concat(faults(root, part, inner, under(place, key)));
    };
    if (isObject(value)) {
      const properties = schema.properties ?? {};
      for (const name of schema.required ?? []) if (!Object.hasOwn(value, name)) found.push(fault(under(place, name), "is missing"));
      for (const [name, inner] of Object.entries(value)) into(Object.hasOwn(properties, name) ? properties[name] : schema.additionalProperties, inner, name);
    }
    if (Array.isArray(value)) {
      const first = schema.prefixItems ?? [];
      for (const [at, inner] of value.entries()) into(at < first.length ? first[at] : schema.items, inner, at);
    }
    return found;
  };

  // Of forms that all fail: of those that are of the value's own kind, the one that fails least.
  const nearest = (forms, place) => {
    const own = forms.filter((wrong) => !wrong.some((each) => each.kind && each.place === place));
    if (own.length) return own.reduce((a, b) => (b.length < a.length ? b : a));
    const kinds = forms.flatMap((wrong) => wrong.filter((each) => each.kind && each.place === place));
    return [fault(place, [...new Set(kinds.map((each) => each.says))].join(" and "), true)];
  };

  const choices = (root, schema, value, place) => {
    let found = [];
    for (const keyword of ["anyOf", "oneOf"]) {
      if (!schema[keyword]) continue;
      const forms = schema[keyword].map((part) => faults(root, part, value, place));
      const fitting = forms.filter((wrong) => !wrong.length).length;
      if (!fitting) found = found.concat(nearest(forms, place));
      if (keyword === "oneOf" && fitting > 1) found.push(fault(place, "fits several forms"));
    }
    if (schema.if !== undefined && schema.then !== undefined && !faults(root, schema.if, value, place).length) found = found.concat(faults(root, schema.then, value, place));
    return found;
  };

  const faults = (root, schema, value, place) => {
    if (typeof schema === "boolean") return schema ? [] : [fault(place, "is not known")];
    let found = schema.$ref ? faults(root, root.$defs[schema.$ref.slice("#/$defs/".length)], value, place) : [];
    for (const [keyword, rule] of Object.entries(RULES)) {
      if (!Object.hasOwn(schema, keyword)) continue;
      const says = rule(schema[keyword], value);
      if (says) found.push(fault(place, says, keyword === "type"));
    }
    return found.concat(within(root, schema, value, place), choices(root, schema, value, place));
  };

  // Sentences of the form ``place: what is wrong``; none where the value fits.
  return (schema, value) => faults(schema, schema, value, "").map(({ place, says }) => `${place || "document"}: ${says}`);
})();
