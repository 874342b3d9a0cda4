// The part of a request that can refer to storage at a provider: without fields that are text by the API's definition.

import { API_TRAITS } from "@postern/wires";
import type { JsonObject } from "../../base/json.ts";
import type { ParsedRequest } from "../request/parse-request.ts";

export function guardedJson({ api, json }: Pick<ParsedRequest, "api" | "json">): JsonObject {
  const texts = API_TRAITS[api].relayed?.textFields ?? [];
  if (texts.length === 0) return json;
  return Object.fromEntries(Object.entries(json).filter(([field]) => !texts.includes(field)));
}
