// What a target cannot be told: each loss names the caller's field and the reason.
import type { WireName, NativeFields, Part } from "./parts.ts";
import type { NativeTool, CanonicalRequest, RequestField } from "./request.ts";
import { type JsonObject, isObject } from "../../base/json.ts";

/** What the target cannot be told. `byRule`: dropped by a documented rule, listed, never refused. `always`: refused even lossy. */
export interface Loss {
  readonly path: string;
  readonly reason: string;
  readonly tolerated?: true | undefined;
  readonly fatal?: true | undefined;
}

/** Notes that a field of the request cannot be said, under the name that the caller's API has for it. */
export function addFieldLoss(
  losses: Loss[],
  request: CanonicalRequest,
  field: RequestField,
  reason: string,
): void {
  losses.push({ path: request.names?.[field] ?? field, reason });
}

/**
 * For a provider that cannot forbid parallel calls. Where one single tool must be called, as clients do it that want an
 * object, to forbid them means little, and it is dropped by rule.
 */
export function addParallelCallsLoss(losses: Loss[], request: CanonicalRequest): void {
  const { toolChoice: choice, tools = [] } = request;
  if (request.parallelToolCalls !== false) return;
  const reason = "This provider cannot forbid parallel calls.";
  const isSingleTool =
    choice?.type === "tool" || (choice?.type === "required" && tools.length === 1);
  if (isSingleTool)
    losses.push({
      path: request.names?.parallelToolCalls ?? "parallelToolCalls",
      reason,
      tolerated: true,
    });
  else addFieldLoss(losses, request, "parallelToolCalls", reason);
}

const PART_TYPE = /^[A-Za-z][A-Za-z0-9_]{0,63}$/;

/** Notes what a reply holds and the caller's API has no place for: where it would have stood, and what it is. */
export function addPartLoss(losses: Loss[], path: string, part: Part): void {
  const [only] = part.type === "native" ? Object.keys(part.value) : [];
  const type = part.type === "native" ? (part.value["type"] ?? only) : part.type;
  const kind = typeof type === "string" && PART_TYPE.test(type) ? type : part.type;
  losses.push({ path: `${path}.${kind}`, reason: `This API's replies have no place for it.` });
}

/** Codex sends a search of its own accord, and only who set it up can turn that off. */
export function codexWebSearchHint(toolType: unknown): string {
  return toolType === "web_search"
    ? ' With Codex, put this line at the top of its config.toml: web_search = "disabled".'
    : "";
}

/** Why a tool of one API has no place in another. */
export function nativeToolLossReason({ name, wire, value }: NativeTool): string {
  if (wire === "responses" && value["type"] === "namespace")
    return `The namespace ${name} holds more than functions and custom tools, or says more of them than other APIs can.`;
  const codex = wire === "responses" ? codexWebSearchHint(value["type"]) : "";
  return `The server tool ${name} runs only at a provider of the ${wire} API.${codex}`;
}

/** The fields to spread into this wire's own object; another wire's become losses, one a field. */
export function takeNativeFields(
  native: NativeFields | undefined,
  wire: WireName,
  at: string | undefined,
  losses: Loss[],
): JsonObject | undefined {
  if (native === undefined || native.wire === wire) return native?.fields;
  for (const [key, value] of Object.entries(native.fields)) {
    losses.push({
      path: at === undefined || at === "" ? key : `${at}.${key}`,
      reason: `It belongs to the ${native.wire} API and has no equivalent at this model's provider.`,
      tolerated: isIgnorable(key, value) || undefined,
    });
  }
  return undefined;
}

const IGNORABLE_FIELDS: ReadonlySet<string> = new Set(["client_metadata", "eager_input_streaming"]);

/**
 * What clients send with every call, and no answer of another model depends on: notes about the client, in what pieces
 * a call's arguments come, and which of Claude's earlier thoughts stay in the prompt, where another model reads none.
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
