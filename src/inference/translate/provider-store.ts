// Keeps providers from storing calls: on the gateway's account, where other callers could retrieve them, and on a caller's
// own key unless its owner allows it.

import { API_TRAITS } from "@postern/wires";
import { invalid } from "../../base/fault.ts";
import { isSet, type JsonObject } from "../../base/json.ts";
import type { Credential } from "../providers/credentials.ts";
import type { ParsedRequest } from "../request/parse-request.ts";

/** Adds the change to the request's `store`, as JSON text; undefined removes it. */
export function setStore(
  changes: Record<string, string | undefined>,
  { api, json: { store } }: ParsedRequest,
  { provider, allowStore }: Credential,
): void {
  if (allowStore === true || store === false || !API_TRAITS[api].generates) return;
  // OpenAI stores responses by default, and completions only on request.
  const isStored = store === true || (provider.supportsStore && API_TRAITS[api].storesReplies);
  if (isStored) changes["store"] = provider.supportsStore ? "false" : undefined;
}

/** `store`, if the caller asked for it and it is sent as `false`. */
export function droppedStore(
  { api, json }: ParsedRequest,
  { byok, allowStore }: Credential,
): readonly string[] {
  // A response that the gateway itself stores is passed here without `store`.
  const isStoredHere = API_TRAITS[api].storesReplies && !byok;
  return json["store"] === true && allowStore !== true && !isStoredHere ? ["store"] : [];
}

const STORING_FIELDS: readonly (readonly [field: string, stores: (value: unknown) => boolean])[] = [
  ["conversation", isSet],
  ["background", (value) => value === true],
  ["deferred", (value) => value === true],
];

/** Fields with which a provider stores a call whatever `store` says. The gateway's account is checked elsewhere. */
export function rejectStoringFields(json: JsonObject, { byok, allowStore }: Credential): void {
  if (!byok || allowStore === true) return;
  const found = STORING_FIELDS.find(([field, stores]) => stores(json[field]));
  if (found !== undefined)
    throw invalid(
      found[0],
      `With \`${found[0]}\` the provider stores the call, which your provider key does not allow. Remove the field, or let the owner of the account set \`allow_store\` of the provider key.`,
    );
}
