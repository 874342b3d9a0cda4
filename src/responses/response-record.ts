// API records of stored responses and their input items.

import { z } from "zod";
import { invalid } from "../base/fault.ts";
import type { JsonObject } from "../base/json.ts";
import { publicItems } from "./items.ts";
import type { DecryptedResponse } from "./storage/history.ts";
import type { StoredResponse } from "./storage/response-rows.ts";

export interface StoredResponseView {
  readonly stored: StoredResponse;
  readonly decrypted: DecryptedResponse;
  /** What a stopped call was charged for, which its own response does not contain. */
  readonly usage: JsonObject | undefined;
}

export const StoredResponseRecord = z
  .looseObject({
    id: z.string(),
    object: z.literal("response"),
    status: z.enum(["queued", "in_progress", "completed", "incomplete", "failed", "cancelled"]),
    output: z.array(z.looseObject({})),
    previous_response_id: z.string().nullable(),
    store: z.boolean(),
  })
  .meta({ id: "StoredResponse", description: "The response as it was returned on creation." });

export const InputItemList = z
  .object({
    object: z.literal("list"),
    data: z.array(z.looseObject({ id: z.string(), type: z.string() })),
    first_id: z.string().nullable(),
    last_id: z.string().nullable(),
    has_more: z.boolean(),
  })
  .meta({ id: "InputItemList" });

/** The error of a background response whose process ended. */
export const PROCESS_DIED_ERROR = {
  code: "server_error",
  message: "The gateway stopped while this response was in progress. Create it again.",
};

/** The status column takes precedence: after a crash or a cancellation, the encrypted response is still `in_progress`. */
export function toResponseRecord({ stored, decrypted, usage }: StoredResponseView): JsonObject {
  const response = decrypted.response();
  if (!stored.background) return response;
  const charged = { usage: response["usage"] ?? usage ?? null };
  if (response["status"] === stored.status) return { ...response, ...charged };
  return {
    ...response,
    ...charged,
    status: stored.status,
    ...(stored.status === "failed" ? { error: PROCESS_DIED_ERROR } : {}),
  };
}

export interface ItemPageRequest {
  readonly limit: number;
  readonly order: "asc" | "desc";
  readonly after?: string | undefined;
}

export function toInputItemList(
  { stored, decrypted }: StoredResponseView,
  { limit, order, after }: ItemPageRequest,
): JsonObject {
  const all = publicItems(decrypted.input(), stored.id);
  const items = order === "asc" ? all : all.toReversed();
  const start = after === undefined ? 0 : items.findIndex(({ id }) => id === after) + 1;
  if (after !== undefined && start === 0)
    throw invalid("after", "`after` must be the id of an input item of this response.");
  const data = items.slice(start, start + limit);
  return {
    object: "list",
    data,
    first_id: data[0]?.["id"] ?? null,
    last_id: data.at(-1)?.["id"] ?? null,
    has_more: start + limit < items.length,
  };
}
