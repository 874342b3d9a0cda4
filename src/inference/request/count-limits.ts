// Limits of what a request may contain by number, so that no request occupies the event loop for long: each item costs time
// that its bytes do not show. They apply to every path, also where the body is passed on unchanged.

import { invalid } from "../../base/fault.ts";
import { isObject, type JsonObject } from "../../base/json.ts";

/** Twice what the longest recorded agent sessions have, and above what providers accept in practice. */
const MESSAGES_MAX = 20_000;
const PARTS_MAX = 20_000;
const DOCUMENTS_MAX = 10_000;
const TOOLS_MAX = 5_000;

const LISTS = ["messages", "input", "system"] as const;
const DOCUMENT_TYPES: ReadonlySet<unknown> = new Set(["document", "file", "input_file"]);

/** `names` are those of the caller, where they differ. */
export function rejectTooMany(
  json: JsonObject,
  names: Readonly<Record<string, string>> = {},
): void {
  const { tools } = json;
  if (Array.isArray(tools)) rejectAbove("tools", countTools(tools), TOOLS_MAX, "tools");
  const counts = { parts: 0, documents: 0 };
  for (const field of LISTS) {
    const list = json[field];
    if (!Array.isArray(list) || typeof list[0] === "number") continue;
    const name = names[field] ?? field;
    rejectAbove(name, list.length, MESSAGES_MAX, "items");
    for (const part of list) countParts(part, counts);
    rejectAbove(name, counts.parts, PARTS_MAX, "content parts");
    rejectAbove(name, counts.documents, DOCUMENTS_MAX, "documents");
  }
}

// A namespace of the Responses API is a tool that contains tools.
function countTools(tools: readonly unknown[]): number {
  return tools.reduce<number>(
    (sum, tool) =>
      sum + 1 + (isObject(tool) && Array.isArray(tool["tools"]) ? tool["tools"].length : 0),
    0,
  );
}

interface PartCounts {
  parts: number;
  documents: number;
}

/** The parts of a message, and those of a tool result in it. */
function countParts(part: unknown, counts: PartCounts, isNested = false): void {
  if (!isObject(part)) return;
  if (DOCUMENT_TYPES.has(part["type"])) counts.documents++;
  for (const list of [part["content"], part["output"], part["tool_calls"]]) {
    if (!Array.isArray(list)) continue;
    counts.parts += list.length;
    if (!isNested) list.forEach((nested) => countParts(nested, counts, true));
  }
}

function rejectAbove(param: string, count: number, max: number, what: string): void {
  if (count > max)
    throw invalid(
      param,
      `\`${param}\` has ${count} ${what}, and a request may have at most ${max}. Send fewer, or join short ones.`,
    );
}
