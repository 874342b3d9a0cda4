// Whether a request body has a field that the gateway does not know. On the gateway's accounts it may have no text that names
// something, but the provider may run a feature because of it, which the cost estimate does not bound.

import { isObject, type JsonObject } from "../../base/json.ts";
import { isCallerData } from "./caller-data.ts";
import { isListed, membersOf } from "./known-members.ts";
import { hasUnknownType } from "./known-types.ts";
import { ROOT } from "./reference-table.ts";

export function hasUnknownField(object: JsonObject, parent = ROOT): boolean {
  if (hasUnknownType(object, parent)) return true;
  const members = membersOf(parent);
  // The fields of an object without text are not listed.
  if (members === undefined || !isListed(parent)) return false;
  return Object.entries(object).some(([name, value]) => {
    if (value === null) return false;
    const isSetting = parent !== ROOT && typeof value === "number";
    return (!members.has(name) && !isSetting) || isUnknownBelow(name, value, object, parent);
  });
}

function isUnknownBelow(name: string, value: unknown, holder: JsonObject, parent: string): boolean {
  if (typeof value !== "object" || isCallerData(name, holder, parent)) return false;
  return [value].flat().some((item) => isObject(item) && hasUnknownField(item, name));
}
