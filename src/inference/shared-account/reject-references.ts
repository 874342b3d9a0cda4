// Rejects references to storage in the gateway's provider accounts, in the canonical form and in the body that is sent. All
// callers share these accounts, so an object there can belong to another caller or to the operator. Unknown fields are
// rejected in the body only: the canonical form has those that are not sent, too.

import type { NativeFields, Part, Source, CanonicalRequest } from "@postern/wires";
import type { Fault } from "../../base/fault.ts";
import type { JsonObject } from "../../base/json.ts";
import { isClientLabel, withoutClientLabels, type WithoutLabels } from "./client-labels.ts";
import {
  SEND_SOURCE,
  storedReferenceFault,
  translatedReferenceFault,
  unknownFieldFault,
} from "./faults.ts";
import { findReference } from "./find-reference.ts";
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
