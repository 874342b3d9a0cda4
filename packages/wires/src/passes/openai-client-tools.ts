// Tools that OpenAI's API defines and the client runs, for a provider of another API: functions in the request, and their
// calls in the reply as items of OpenAI's API.

import type { CanonicalEvent, PartHead } from "../canonical/canonical-events.ts";
import { addLoss, type Loss } from "../canonical/canonical-losses.ts";
import type { Part, WireName } from "../canonical/canonical-parts.ts";
import type { CanonicalReply } from "../canonical/canonical-reply.ts";
import type {
  CanonicalRequest,
  NativeTool,
  Tool,
  ToolChoice,
} from "../canonical/canonical-request.ts";
import { checkSchema } from "../canonical/check-request.ts";
import type { WireStreamReader } from "../canonical/wire-interfaces.ts";
import {
  arrayIn,
  isObject,
  type JsonObject,
  parseObject,
  stringIn,
  unknownFields,
} from "../json-fields.ts";
import { type ClientTool, clientToolOf } from "../responses/items/responses-client-tools.ts";
import { flatToolName } from "../responses/items/responses-namespaces.ts";
import { otherToolFields } from "../server-tool-fields.ts";

/** By the name of the function. */
export type SentClientTools = ReadonlyMap<string, ClientTool>;

interface ClientToolTranslation {
  readonly request: CanonicalRequest;
  readonly sent: SentClientTools;
}

export function openAiToolsAsFunctions(
  request: CanonicalRequest,
  wire: WireName,
  losses: Loss[],
): ClientToolTranslation {
  const sent = new Map<string, ClientTool>();
  const { tools, toolChoice } = request;
  if (wire === "responses" || tools === undefined) return { request, sent };
  const names = new Set(tools.flatMap((tool) => (tool.type === "native" ? [] : [tool.name])));
  const written = tools.flatMap((tool): readonly Tool[] => {
    const definition = definitionOf(tool);
    if (definition === undefined || tool.type !== "native") return [tool];
    const { name } = definition;
    if (names.has(name)) {
      addLoss(
        losses,
        tool.path ?? "tools",
        `Another tool of the request is named \`${name}\`, the name under which this tool is sent to the provider.`,
      );
      return [];
    }
    names.add(name);
    sent.set(name, definition);
    return [toFunction(tool, definition, losses)];
  });
  if (sent.size === 0) return { request, sent };
  return {
    request: { ...request, tools: written, toolChoice: choiceOf(toolChoice, written, sent) },
    sent,
  };
}

function definitionOf(tool: Tool): ClientTool | undefined {
  return tool.type === "native" && tool.wire === "responses" ? clientToolOf(tool.value) : undefined;
}

function toFunction({ value, path }: NativeTool, definition: ClientTool, losses: Loss[]): Tool {
  const { description, parameters } = definition.schemaOf(value);
  // A search for tools has the caller's own schema.
  checkSchema(parameters, `${path ?? "tools"}.parameters`);
  const rest = unknownFields(value, definition.fields);
  losses.push(...otherToolFields(rest, path ?? "tools", "responses"));
  return { type: "function", name: definition.name, description, parameters, path };
}

function choiceOf(
  choice: ToolChoice | undefined,
  tools: readonly Tool[],
  sent: SentClientTools,
): ToolChoice | undefined {
  if (choice?.type !== "native" || choice.wire !== "responses") return choice;
  const { value } = choice;
  if (value["type"] !== "allowed_tools") {
    const name = chosenName(value, tools, sent);
    return name === undefined ? choice : { type: "tool", name };
  }
  const allowed = arrayIn(value["tools"]).map((tool) => chosenName(tool, tools, sent));
  const names = allowed.filter((name) => name !== undefined);
  if (names.length < allowed.length) return choice;
  return { type: "allowed", mode: value["mode"] === "required" ? "required" : "auto", names };
}

/** Undefined for a tool that the provider runs. */
function chosenName(
  chosen: unknown,
  tools: readonly Tool[],
  sent: SentClientTools,
): string | undefined {
  if (!isObject(chosen)) return undefined;
  const { type, namespace } = chosen;
  const isNamed = type === "function" || type === "custom";
  const name = isNamed
    ? stringIn(chosen["name"])
    : clientToolOf({ ...chosen, execution: "client" })?.name;
  if (name === undefined) return undefined;
  if (!isNamed) return sent.has(name) ? name : undefined;
  return flatToolName(tools, { name, namespace: stringIn(namespace) });
}

/** The item of a call; undefined if the arguments do not fit an item, so that the caller gets a function call. */
function itemOf(
  { name, custom }: { readonly name: string; readonly custom?: true | undefined },
  text: string,
  sent: SentClientTools,
): JsonObject | undefined {
  const input = custom === true ? undefined : parseObject(text);
  return input && sent.get(name)?.writeCall(input);
}

export function withClientCalls(reply: CanonicalReply, sent: SentClientTools): CanonicalReply {
  const choices = reply.choices.map((choice) => ({
    ...choice,
    parts: choice.parts.map((part): Part =>
      part.type === "tool_call" ? { ...part, item: itemOf(part, part.arguments, sent) } : part,
    ),
  }));
  return { ...reply, choices };
}

/** The same for a stream. A call is passed on when it is complete. */
export function readerWithClientCalls(
  reader: WireStreamReader,
  sent: SentClientTools,
): WireStreamReader {
  const open = new Map<string, OpenCall>();
  const translate = (event: CanonicalEvent): readonly CanonicalEvent[] => {
    if (!("part" in event)) return [event];
    const key = `${event.choice} ${event.part}`;
    if (
      event.type === "part_start" &&
      event.head.type === "tool_call" &&
      sent.has(event.head.name)
    ) {
      open.set(key, { head: event.head, text: "" });
      return [];
    }
    const call = open.get(key);
    if (call === undefined) return [event];
    if (event.type === "delta") call.text += event.text;
    if (event.type !== "part_end") return [];
    open.delete(key);
    const { choice, part } = event;
    const item = itemOf(call.head, call.text, sent);
    return [
      { type: "part_start", choice, part, head: { ...call.head, item } },
      { type: "delta", choice, part, text: call.text },
      event,
    ];
  };
  return {
    push: (event) => reader.push(event).flatMap(translate),
    end: () => reader.end().flatMap(translate),
  };
}

interface OpenCall {
  readonly head: Extract<PartHead, { type: "tool_call" }>;
  text: string;
}
