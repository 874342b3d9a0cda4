import type {
  CanonicalReply,
  Choice,
  JsonObject,
  Loss,
  Part,
  ReasoningPart,
  RefusalPart,
  TextPart,
  ToolCallPart,
} from "../../canonical.ts";
import { sealBlob } from "../../canonical-reasoning.ts";
import type { ReplyWriteContext, WrittenReply } from "../../canonical-wire.ts";
import { joinsReasoning, reasoningItem, writeAnnotation, writeLogprobs } from "./write-output.ts";
import { writeResponse } from "./write-response.ts";

export function writeReply(reply: CanonicalReply, context: ReplyWriteContext): WrittenReply {
  const losses: Loss[] = [];
  const [choice = { parts: [], finish: { reason: "error" } }, ...others] = reply.choices;
  if (others.length > 0) losses.push({ path: "choices[1]", why: "This API has one output a reply." });
  const parts = [...choice.parts, ...refusalOf(choice)];
  const refusal = parts.some((part) => part.type === "refusal");
  const base = idBase(reply.id ?? context.id);
  const output = writeOutput(parts, base, losses);
  const head = writeResponse(reply, context, { finish: choice.finish, refusal, usage: reply.usage });
  if (head["status"] !== "completed") markCut(output);
  return { body: { ...head, output }, losses };
}

/** A provider's explanation of a refusal is shown where this API shows refusals. */
export function refusalOf({ parts, finish }: Choice): readonly RefusalPart[] {
  const { reason, detail } = finish;
  if (reason !== "refusal" || !detail || parts.some((part) => part.type === "refusal")) return [];
  return [{ type: "refusal", text: detail }];
}

/** What the ids of items are made of that have none of their own. */
export function idBase(id: string): string {
  return id.replaceAll(/[^A-Za-z0-9]/g, "").slice(-32);
}

function writeOutput(parts: readonly Part[], base: string, losses: Loss[]): Record<string, unknown>[] {
  const output: Record<string, unknown>[] = [];
  const idOf = (prefix: string) => `${prefix}_${base}_${output.length}`;
  let before: Part | undefined;
  for (const [at, part] of parts.entries()) {
    const path = `output[${output.length}]`;
    const last = output.at(-1);
    switch (part.type) {
      case "text":
      case "refusal": {
        const joins = (before?.type === "text" || before?.type === "refusal") && last?.["type"] === "message";
        const message = joins ? last : { id: idOf("msg"), type: "message", status: "completed", role: "assistant", content: [] };
        if (!joins) output.push(message);
        message["content"] = [...contentOf(message), writeSaid(part, path, losses)];
        if (part.type === "text" && part.signature !== undefined)
          output.push(signatureItem(idOf("rs"), sealBlob(part.signature, "responses")));
        break;
      }
      case "reasoning":
        if (before?.type === "reasoning" && joinsReasoning(before, part)) break;
        output.push(writeReasoning(parts, at, idOf("rs")));
        break;
      case "tool_call":
        if (part.signature !== undefined)
          output.push(signatureItem(idOf("rs"), sealBlob(part.signature, "responses")));
        output.push(callItem(part, idOf(part.custom === true ? "ctc" : "fc"), part.arguments, "completed"));
        break;
      case "native":
        if (part.wire === "responses") output.push({ ...part.value });
        else losses.push({ path, why: `This content is of the ${part.wire} API.` });
        break;
      default:
        losses.push({ path, why: `A ${part.type} cannot be shown in this API's replies.` });
    }
    before = part;
  }
  return output;
}

function contentOf(message: JsonObject): readonly unknown[] {
  return Array.isArray(message["content"]) ? (message["content"] as readonly unknown[]) : []; // Array.isArray gives any[].
}

function writeSaid(part: TextPart | RefusalPart, path: string, losses: Loss[]): JsonObject {
  if (part.type === "refusal") return { type: "refusal", refusal: part.text };
  const annotations: JsonObject[] = [];
  for (const citation of part.citations ?? []) {
    const written = writeAnnotation(citation, part.text.length);
    if (written !== undefined) annotations.push(written);
    else losses.push({ path: `${path}.annotations`, why: "This API cites only by address." });
  }
  return textPart(part.text, annotations, writeLogprobs(part.logprobs));
}

export function textPart(
  text: string,
  annotations: readonly JsonObject[],
  logprobs: readonly JsonObject[],
): JsonObject {
  return { type: "output_text", text, annotations, logprobs };
}

function writeReasoning(parts: readonly Part[], from: number, minted: string): Record<string, unknown> {
  const group: ReasoningPart[] = [];
  for (let at = from; at < parts.length; at++) {
    const part = parts[at];
    const before = group.at(-1);
    if (part?.type !== "reasoning" || (before !== undefined && !joinsReasoning(before, part))) break;
    group.push(part);
  }
  const blob = group.at(-1)?.blob;
  const sealed = blob && sealBlob(blob, "responses");
  return { id: group[0]?.id ?? minted, type: "reasoning", ...reasoningItem(group, sealed) };
}

/** What proves a call or a text, as a reasoning item that shows nothing. */
export function signatureItem(id: string, sealed: string): Record<string, unknown> {
  return { id, type: "reasoning", summary: [], encrypted_content: sealed };
}

export function callItem(
  call: Pick<ToolCallPart, "id" | "name" | "custom" | "native">,
  id: string,
  said: string,
  status: string,
): Record<string, unknown> {
  const own = call.native?.wire === "responses" ? call.native.fields : undefined;
  const { id: callId, name } = call;
  return call.custom === true
    ? { id, type: "custom_tool_call", status, call_id: callId, name, input: said, ...own }
    : { id, type: "function_call", status, call_id: callId, name, arguments: said, ...own };
}

// Where a reply was cut, its last item is what was cut.
function markCut(output: Record<string, unknown>[]): void {
  const last = output.at(-1);
  if (last?.["status"] === "completed" && ["message", "function_call", "custom_tool_call"].includes(String(last["type"])))
    last["status"] = "incomplete";
}
