// Losses: what of a request the target's wire cannot express, each with the caller's field and the reason.
import { isObject, type JsonObject } from "../../base/json.ts";
import type { NativeFields, NativePart, Part, WireName } from "./parts.ts";
import type { CanonicalRequest, NativeTool, RequestField } from "./request.ts";

/** The caller gets a 400 that names the first loss, or allows losses with `postern.lossy`. */
export interface Loss {
  readonly path: string;
  readonly reason: string;
  /** Dropped by a documented rule: listed to the caller, never an error. */
  readonly tolerated?: true | undefined;
  /** An error even if the caller allows losses, because leaving the field out does not help. */
  readonly fatal?: true | undefined;
}

export function addLoss(losses: Loss[], path: string, reason: string): undefined {
  losses.push({ path, reason });
  return undefined;
}

export function addToleratedLoss(losses: Loss[], path: string, reason: string): undefined {
  losses.push({ path, reason, tolerated: true });
  return undefined;
}

/** A loss of a request field, under the caller's name for it. */
export function addFieldLoss(
  losses: Loss[],
  request: CanonicalRequest,
  field: RequestField,
  reason: string,
): void {
  losses.push({ path: fieldPath(request, field), reason });
}

export function fieldPath(request: CanonicalRequest, field: RequestField): string {
  return request.names?.[field] ?? field;
}

/**
 * For a provider that cannot forbid parallel calls. Clients that want one object force a single tool and forbid parallel
 * calls; there the setting hardly matters, so its loss is tolerated.
 */
export function addParallelCallsLoss(losses: Loss[], request: CanonicalRequest): void {
  const { toolChoice: choice, tools = [] } = request;
  if (request.parallelToolCalls !== false) return;
  const isSingleTool =
    choice?.type === "tool" || (choice?.type === "required" && tools.length === 1);
  losses.push({
    path: fieldPath(request, "parallelToolCalls"),
    reason: "This provider cannot forbid parallel calls.",
    tolerated: isSingleTool || undefined,
  });
}

export function addFatalLoss(losses: Loss[], path: string, reason: string): undefined {
  losses.push({ path, reason, fatal: true });
  return undefined;
}

/** For a model that rejects a conversation whose last message is the assistant's. */
export function addPrefillLoss(losses: Loss[], path: string): void {
  addFatalLoss(losses, path, "This model cannot continue a trailing assistant message.");
}

/** For the `isError` of a tool result on an API without such a field. */
export function addToolErrorLoss(losses: Loss[], path: string): void {
  const reason = "This API cannot mark a tool result as an error; its content is sent.";
  addToleratedLoss(losses, `${path}.is_error`, reason);
}

/** For content of another wire in a request. */
export function addNativePartLoss(losses: Loss[], path: string, { wire }: NativePart): undefined {
  return addLoss(
    losses,
    path,
    `This content is specific to the ${wire} API and has no equivalent at this model's provider.`,
  );
}

const PART_TYPE = /^[A-Za-z][A-Za-z0-9_]{0,63}$/;

/** For content of a reply that the caller's API cannot express; the path ends in the content's type. */
export function addPartLoss(losses: Loss[], path: string, part: Part): void {
  const [only] = part.type === "native" ? Object.keys(part.value) : [];
  const type = part.type === "native" ? (part.value["type"] ?? only) : part.type;
  const kind = typeof type === "string" && PART_TYPE.test(type) ? type : part.type;
  addLoss(losses, `${path}.${kind}`, "Replies of this API cannot contain this content.");
}

/** Codex sends its web search tool by default; only its configuration turns it off. */
export function codexWebSearchHint(toolType: unknown): string {
  return toolType === "web_search"
    ? ' With Codex, put this line at the top of its config.toml: web_search = "disabled".'
    : "";
}

export function nativeToolLossReason({ name, wire, value }: NativeTool): string {
  if (wire === "responses" && value["type"] === "namespace")
    return `The namespace ${name} contains tools or fields that have no equivalent in other APIs.`;
  const hint = wire === "responses" ? codexWebSearchHint(value["type"]) : "";
  return `The server tool ${name} runs only at a provider of the ${wire} API.${hint}`;
}

/** The fields to spread into this wire's own object; each field of another wire becomes a loss. */
export function takeNativeFields(
  native: NativeFields | undefined,
  wire: WireName,
  path: string | undefined,
  losses: Loss[],
): JsonObject | undefined {
  if (native === undefined || native.wire === wire) return native?.fields;
  for (const [key, value] of Object.entries(native.fields)) {
    losses.push({
      path: path === undefined || path === "" ? key : `${path}.${key}`,
      reason: `This field is specific to the ${native.wire} API and has no equivalent at this model's provider.`,
      tolerated: isIgnorable(key, value) || undefined,
    });
  }
  return undefined;
}

const IGNORABLE_FIELDS: ReadonlySet<string> = new Set(["client_metadata", "eager_input_streaming"]);

/**
 * Fields that clients send with every call and that cannot change another model's reply: client metadata, the size of
 * argument deltas, and which of Claude's earlier thinking stays in the prompt.
 */
function isIgnorable(key: string, value: unknown): boolean {
  if (IGNORABLE_FIELDS.has(key)) return true;
  if (key !== "context_management" || !isObject(value)) return false;
  const { edits, ...others } = value;
  return (
    Array.isArray(edits) &&
    Object.keys(others).length === 0 &&
    edits.every((edit) => isObject(edit) && String(edit["type"]).startsWith("clear_thinking_"))
  );
}
