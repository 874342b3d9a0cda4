// A stored response as it is shown, and a page of its input.

import { z } from "zod";
import { invalid } from "../base/fault.ts";
import type { JsonObject } from "../base/json.ts";
import { publicItems } from "./items.ts";
import type { StoredResponseView } from "./responses.ts";

export const StoredResponseRecord = z
  .looseObject({
    id: z.string(),
    object: z.literal("response"),
    status: z.enum(["in_progress", "completed", "incomplete", "failed", "cancelled"]),
    output: z.array(z.looseObject({})),
    previous_response_id: z.string().nullable(),
    store: z.boolean(),
  })
  .meta({ id: "StoredResponse", description: "The response as it was answered." });

export const InputItemList = z
  .object({
    object: z.literal("list"),
    data: z.array(z.looseObject({ id: z.string(), type: z.string() })),
    first_id: z.string().nullable(),
    last_id: z.string().nullable(),
    has_more: z.boolean(),
  })
  .meta({ id: "InputItemList" });

/** Why a response failed whose process ended. */
export const PROCESS_DIED_ERROR = {
  code: "server_error",
  message: "The gateway stopped while this response was in progress. Create it again.",
};

/** The record's status wins: a process that died, or a cancellation, left the reply as it was begun. */
export function showResponse({ stored, opened, usage }: StoredResponseView): JsonObject {
  const response = opened.response();
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

export function showInputItems(
  { stored, opened }: StoredResponseView,
  { limit, order, after }: ItemPageRequest,
): JsonObject {
  const all = publicItems(opened.input(), stored.id);
  const items = order === "asc" ? all : all.toReversed();
  const start = after === undefined ? 0 : items.findIndex(({ id }) => id === after) + 1;
  if (after !== undefined && start === 0)
    throw invalid("after", "after must be the id of an item of this response's input.");
  const data = items.slice(start, start + limit);
  return {
    object: "list",
    data,
    first_id: data[0]?.["id"] ?? null,
    last_id: data.at(-1)?.["id"] ?? null,
    has_more: start + limit < items.length,
  };
}
