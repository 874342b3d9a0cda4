// The last response of a WebSocket that was not stored: the next request of the connection can continue it by its id.

import { type JsonObject, objectIn, parseObject, stringIn } from "../../base/json.ts";
import { outputItems, toInputItems } from "../items.ts";

/** The most characters that are kept for one connection; a longer conversation must be sent again, or stored. */
const ITEMS_MAX_LENGTH = 8_388_608;

export interface PreviousResponse {
  readonly id: string;
  /** The stored response that the items continue. */
  readonly baseId: string | undefined;
  /** Input and output, as JSON text without brackets. */
  readonly items: string;
}

/** Undefined if the response is stored, or too large to be kept. */
export function toPreviousResponse(
  { baseId, items }: Pick<PreviousResponse, "baseId" | "items">,
  response: JsonObject,
): PreviousResponse | undefined {
  const id = stringIn(response["id"]);
  if (id === undefined || response["store"] === true) return undefined;
  const output = toInputItems(outputItems(response)).map((item) => JSON.stringify(item));
  const all = [items, ...output].filter((text) => text !== "").join(",");
  return all.length > ITEMS_MAX_LENGTH ? undefined : { id, baseId, items: all };
}

const TERMINAL_TYPES = ["response.completed", "response.incomplete"];

/** The response of a stream's last event. */
export function terminalResponse(data: string): JsonObject | undefined {
  if (!TERMINAL_TYPES.some((type) => data.includes(`"${type}"`))) return undefined;
  const event = parseObject(data);
  if (!TERMINAL_TYPES.includes(stringIn(event?.["type"]) ?? "")) return undefined;
  return objectIn(event?.["response"]);
}
