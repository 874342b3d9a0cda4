// PATCH operations of directories (RFC 7644 §3.5.2), in the forms that Okta and Microsoft Entra send: with and without a
// path, with `op` in any case, dotted names in a value, booleans as text, and filters in a path.

import { Fault } from "../base/fault.ts";
import { isObject } from "../base/json.ts";
import { SCHEMA_PREFIX } from "./scim-filter.ts";

const OPERATIONS_MAX = 1_000;
const PATH = /^([A-Za-z]\w*)(?:\[([^\]]*)\])?(?:\.(\w+))?$/;
const EXTENSION = /^urn:/i;

export interface PatchOperation {
  readonly op: "add" | "replace" | "remove";
  /** In lower case, such as `name`; undefined for an extension, which is not stored. */
  readonly attribute: string | undefined;
  /** In lower case, such as `givenname`. */
  readonly sub: string | undefined;
  /** The text in brackets, such as `value eq "2819c223"`. */
  readonly filter: string | undefined;
  readonly value: unknown;
}

/** One operation for each attribute. */
export function parsePatch(body: Readonly<Record<string, unknown>>): readonly PatchOperation[] {
  const operations = body["Operations"] ?? body["operations"];
  if (!Array.isArray(operations) || operations.length === 0)
    throw scimFault("invalidSyntax", "`Operations` must be a list of operations.");
  // Without a path, an operation has one for each member of its value.
  const parsed = operations.flatMap((operation: unknown) => parseOperation(operation));
  if (parsed.length > OPERATIONS_MAX)
    throw scimFault("tooMany", `\`Operations\` can change ${OPERATIONS_MAX} attributes.`);
  return parsed;
}

function parseOperation(operation: unknown): readonly PatchOperation[] {
  const { op: name, path, value } = isObject(operation) ? operation : {};
  const op = typeof name === "string" ? name.toLowerCase() : "";
  if (op !== "add" && op !== "replace" && op !== "remove")
    throw scimFault("invalidSyntax", "`op` must be add, replace or remove.");
  if (typeof path === "string" && path !== "") return [{ op, ...parsePath(path), value }];
  if (op === "remove") throw scimFault("noTarget", "`remove` needs a `path`.");
  if (!isObject(value))
    throw scimFault("invalidValue", "An operation without `path` needs an object as `value`.");
  return Object.entries(value).map(([key, member]) => {
    const { attribute, sub, filter } = parsePath(key);
    return { op, attribute, sub, filter, value: member };
  });
}

function parsePath(path: string): Pick<PatchOperation, "attribute" | "sub" | "filter"> {
  const bare = path.replace(SCHEMA_PREFIX, "");
  if (EXTENSION.test(bare)) return { attribute: undefined, sub: undefined, filter: undefined };
  const [, attribute, filter, sub] = PATH.exec(bare) ?? [];
  if (attribute === undefined)
    throw scimFault(
      "invalidPath",
      `The path ${JSON.stringify(path.slice(0, 100))} is not supported.`,
    );
  return { attribute: attribute.toLowerCase(), filter, sub: sub?.toLowerCase() };
}

/** Entra sends "True" and "False". */
export function parseActive(value: unknown): boolean {
  const word = typeof value === "string" ? value.toLowerCase() : value;
  if (word === true || word === "true") return true;
  if (word === false || word === "false") return false;
  throw scimFault("invalidValue", "`active` must be true or false.");
}

/** The id in `members[value eq "2819c223"]`. */
export function idOfFilter(filter: string): string {
  const [, id] = /^\s*value\s+eq\s+"([^"]*)"\s*$/i.exec(filter) ?? [];
  if (id === undefined)
    throw scimFault("invalidPath", 'A filter of members must be `value eq "<id>"`.');
  return id;
}

export function scimFault(scimType: string, message: string): Fault {
  return new Fault("invalid_request", `SCIM ${scimType}`, { message, fields: { scimType } });
}
