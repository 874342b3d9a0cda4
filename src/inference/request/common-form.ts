// The JSON of a request by the names that code which bounds or estimates a call's cost reads. It differs from what the caller
// sent only for an API with names of its own.

import { API_TRAITS, type ApiName } from "@postern/wires";
import type { JsonObject } from "../../base/json.ts";

interface SentRequest {
  readonly api: ApiName;
  readonly json: JsonObject;
}

/** A request is read by several stages, and its JSON never changes. */
const cachedForms = new WeakMap<JsonObject, JsonObject>();

export function commonForm({ api, json }: SentRequest): JsonObject {
  const { commonForm: toCommon } = API_TRAITS[api];
  if (toCommon === undefined) return json;
  const cached = cachedForms.get(json);
  if (cached !== undefined) return cached;
  const form = toCommon(json);
  cachedForms.set(json, form);
  return form;
}
