// Rejects references to storage in the gateway's provider accounts, in the canonical form and in the body that is sent. All
// callers share these accounts, so an object there can belong to another caller or to the operator. Unknown fields are
// rejected in the body only: the canonical form has those that are not sent, too.

import type { CanonicalRequest, NativeFields, Part, Source } from "@postern/wires";
import type { Fault } from "../../base/fault.ts";
import { isObject, type JsonObject } from "../../base/json.ts";
import { isEmptyItem } from "./bare-items.ts";
import {
  SEND_SOURCE,
  storedReferenceFault,
  translatedReferenceFault,
  unknownFieldFault,
} from "./faults.ts";
import { findReference } from "./find-reference.ts";
import { isCompleteWithoutId } from "./known-types.ts";
import { couldIdentify } from "./plain-words.ts";
import { type Destination, isAllowedSource } from "./source-url.ts";
import type { FoundReference } from "./text-reference.ts";

/** Without a destination, the request goes to the caller's own provider account. */
export function rejectStoredReferences(
  body: JsonObject,
  destination: Destination | undefined,
  writtenAs: "request" | "translation",
): void {
  if (destination === undefined) return;
  const found = findReference(body, destination);
  if (found !== undefined) throw faultOf(found, destination, writtenAs);
}

/** The request without labels of the caller's framework that could be references, and their paths. */
export function withoutUnsafeLabels(
  json: JsonObject,
  destination: Destination | undefined,
): WithoutLabels {
  const found = destination && findReference(json, destination);
  if (destination === undefined || found === undefined) return { json, dropped: [] };
  if (found.alternative !== undefined || !isClientLabel(found.path))
    throw faultOf(found, destination, "request");
  const kept = withoutClientLabels(json);
  rejectStoredReferences(kept.json, destination, "request");
  return kept;
}

function faultOf(
  { path, alternative }: FoundReference,
  destination: Destination,
  writtenAs: "request" | "translation",
): Fault {
  if (alternative === undefined) return unknownFieldFault(path, destination.provider.name);
  const fault = writtenAs === "request" ? storedReferenceFault : translatedReferenceFault;
  return fault({ path, alternative });
}

/** Checks the canonical form, because its faults name the caller's fields; those of the sent body have other names. */
export function rejectCanonicalReferences(
  request: CanonicalRequest,
  destination: Destination | undefined,
): void {
  if (destination === undefined) return;
  const found = inCanonical(request, { ...destination, allowsUnknown: true });
  if (found?.alternative !== undefined)
    throw storedReferenceFault({ ...found, alternative: found.alternative });
}

function inCanonical(
  { turns, tools = [], native }: CanonicalRequest,
  destination: Destination,
): FoundReference | undefined {
  for (const { parts, path = "messages", native: fields } of turns) {
    const found =
      inNative(fields, { path, parent: "messages" }, destination) ??
      inParts(parts, path, destination);
    if (found !== undefined) return found;
  }
  for (const [index, tool] of tools.entries()) {
    if (tool.type !== "native" || tool.wire !== destination.wire) continue;
    const found = findReference(tool.value, destination, "tools");
    if (found !== undefined) return atPath(tool.path ?? `tools[${index}]`, found);
  }
  return inNative(native, { path: "", parent: "" }, destination);
}

function inParts(
  parts: readonly Part[],
  turnPath: string,
  destination: Destination,
): FoundReference | undefined {
  for (const part of parts) {
    const found = inPart(part, part.path ?? turnPath, destination);
    if (found !== undefined) return found;
  }
  return undefined;
}

function inPart(part: Part, path: string, destination: Destination): FoundReference | undefined {
  if (part.type === "native")
    return part.wire === destination.wire
      ? atPath(path, findReference(part.value, destination, "content"))
      : undefined;
  if ("source" in part && !isInlineOrPublic(part.source, destination))
    return { path, alternative: SEND_SOURCE };
  return (
    (part.type === "tool_result" ? inParts(part.content, path, destination) : undefined) ??
    inNative(part.native, { path, parent: "content" }, destination)
  );
}

function isInlineOrPublic(source: Source, destination: Destination): boolean {
  switch (source.kind) {
    case "text":
      return true;
    case "file_id":
      return false;
    case "base64":
      return isAllowedSource(source.data, true, destination);
    case "url":
      return isAllowedSource(source.url, true, destination);
  }
}

interface NativePosition {
  readonly path: string;
  readonly parent: string;
}

// Fields of other wires are not written.
function inNative(
  native: NativeFields | undefined,
  { path, parent }: NativePosition,
  destination: Destination,
): FoundReference | undefined {
  return native?.wire === destination.wire
    ? atPath(path, findReference(native.fields, destination, parent))
    : undefined;
}

function atPath(path: string, found: FoundReference | undefined): FoundReference | undefined {
  return found === undefined || path === "" ? found : { ...found, path: `${path}.${found.path}` };
}

// Labels that client frameworks leave in messages: ids and times of their own, and copies of provider data. No provider reads
// them, so on the gateway's accounts they are removed if their text could name something stored.

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

interface WithoutLabels {
  readonly json: JsonObject;
  readonly dropped: readonly string[];
}

/** Whether the field at this path is such a label. */
function isClientLabel(path: string): boolean {
  const [, list, name = ""] = LABEL_PATH.exec(path) ?? [];
  if (list === undefined) return TOP_LEVEL_LABELS.has(name);
  // Removed only where the object is complete without it.
  if (name === "id") return true;
  return LABELS_BY_LIST[list === "input" ? "input" : "messages"].has(name);
}

function withoutClientLabels(json: JsonObject): WithoutLabels {
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
