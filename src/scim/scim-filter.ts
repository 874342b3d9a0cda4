// The filters that directories send: one attribute that equals a value, such as `userName eq "ada@example.com"`.

import { Fault } from "../base/fault.ts";

const FILTER =
  /^\s*([A-Za-z][\w:.-]*(?:\[[^\]]*\])?(?:\.\w+)?)\s+eq\s+("(?:[^"\\]|\\.)*"|true|false)\s*$/i;
export const SCHEMA_PREFIX = /^urn:ietf:params:scim:schemas:core:2\.0:\w+:/i;

export interface EqualsFilter {
  /** In lower case, without a schema and without a filter in brackets. */
  readonly attribute: string;
  readonly value: string;
}

/** Throws `invalidFilter` for every other filter. */
export function parseFilter(filter: string): EqualsFilter {
  const [, attribute = "", literal = ""] = FILTER.exec(filter) ?? [];
  const value = literalOf(literal);
  if (value === undefined)
    throw invalidFilter("Only filters with one attribute and `eq` are supported.");
  return {
    attribute: attribute
      .replace(SCHEMA_PREFIX, "")
      .replace(/\[[^[\]]*\]/, "")
      .toLowerCase(),
    value,
  };
}

function literalOf(literal: string): string | undefined {
  if (!literal.startsWith('"')) return literal === "" ? undefined : literal.toLowerCase();
  try {
    return String(JSON.parse(literal));
  } catch {
    return undefined;
  }
}

export function invalidFilter(message: string): Fault {
  return new Fault("invalid_request", "unsupported SCIM filter", {
    message,
    param: "filter",
    fields: { scimType: "invalidFilter" },
  });
}
