// Labels that client frameworks leave in messages: ids and times of their own, and copies of provider data. No provider reads
// them, so on the gateway's accounts they are removed if their text could name something stored.

import { isObject, type JsonObject } from "../../base/json.ts";
import { isEmptyItem } from "./bare-items.ts";
import { isCompleteWithoutId } from "./known-types.ts";
import { couldIdentify } from "./plain-words.ts";

const LABELS =
  "createdAt created_at updatedAt updated_at timestamp metadata response_metadata usage_metadata additional_kwargs " +
  "provider_specific_fields providerData provider_data status chat_id session_id uuid parentUuid is_error";
/** Open WebUI lists the models of a message, OpenRouter names its own; on the top level, the fields have a meaning. */
const OF_MESSAGES = ["model", "models", "user_id"];
/** Items of a response have ids and a status of their own. */
const LABELS_BY_LIST = {
  messages: new Set([...LABELS.split(" "), ...OF_MESSAGES, "id"]),
  input: new Set([...LABELS.split(" ").filter((name) => name !== "status"), ...OF_MESSAGES]),
} as const satisfies Readonly<Record<string, ReadonlySet<string>>>;
/** With the tags of a request, the owner of the provider account groups usage. */
const TOP_LEVEL_LABELS: ReadonlySet<string> = new Set(
  [...LABELS.split(" "), "tags"].filter((name) => name !== "metadata" && name !== "status"),
);
const LABEL_PATH = /^(?:(messages|input)\[\d+\](?:\.(?:content|tool_calls)\[\d+\])?\.)?(\w+)/;

export interface WithoutLabels {
  readonly json: JsonObject;
  readonly dropped: readonly string[];
}

/** Whether the field at this path is such a label. */
export function isClientLabel(path: string): boolean {
  const [, list, name = ""] = LABEL_PATH.exec(path) ?? [];
  if (list === undefined) return TOP_LEVEL_LABELS.has(name);
  // Removed only where the object is complete without it.
  if (name === "id") return true;
  return LABELS_BY_LIST[list === "input" ? "input" : "messages"].has(name);
}

export function withoutClientLabels(json: JsonObject): WithoutLabels {
  const dropped: string[] = [];
  const kept: Record<string, unknown> = { ...omitLabels(json, TOP_LEVEL_LABELS, "", dropped) };
  for (const list of ["messages", "input"] as const) {
    const holders = kept[list];
    if (Array.isArray(holders))
      kept[list] = holders.flatMap((one: unknown, index) => {
        const path = `${list}[${index}]`;
        if (list !== "input" || !isObject(one) || !isEmptyItem(one))
          return [withoutLabels(one, list, path, dropped)];
        dropped.push(path);
        return [];
      });
  }
  return { json: kept, dropped };
}

function withoutLabels(
  value: unknown,
  list: keyof typeof LABELS_BY_LIST,
  path: string,
  dropped: string[],
): unknown {
  if (!isObject(value)) return value;
  const labels = withId(LABELS_BY_LIST[list], value, list);
  const kept: Record<string, unknown> = { ...omitLabels(value, labels, `${path}.`, dropped) };
  for (const field of ["content", "tool_calls"]) {
    const parts = kept[field];
    if (Array.isArray(parts))
      kept[field] = parts.map((part: unknown, index) =>
        isObject(part)
          ? omitLabels(
              part,
              withId(PART_LABELS, part, field),
              `${path}.${field}[${index}].`,
              dropped,
            )
          : part,
      );
  }
  return kept;
}

/** Parts and calls have ids that results name. */
const PART_LABELS = LABELS_BY_LIST.input;

/** An object of a type that the gateway does not know is sent without its id, which might name something stored. */
function withId(
  labels: ReadonlySet<string>,
  object: JsonObject,
  parent: string,
): ReadonlySet<string> {
  return isCompleteWithoutId(object, parent) ? new Set([...labels, "id"]) : labels;
}

function omitLabels(
  object: JsonObject,
  labels: ReadonlySet<string>,
  prefix: string,
  dropped: string[],
): JsonObject {
  const found = Object.keys(object).filter(
    (name) => labels.has(name) && couldIdentify(name, object[name]),
  );
  if (found.length === 0) return object;
  dropped.push(...found.map((name) => prefix + name));
  return Object.fromEntries(Object.entries(object).filter(([name]) => !found.includes(name)));
}
