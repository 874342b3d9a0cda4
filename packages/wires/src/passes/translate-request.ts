// Translates a request of a caller's API to a provider's, and the reply back. The steps between reading the request and writing
// it are a table: each is applied here in order, and undone here in the reply.

import { OUTBOUND_WIRES } from "../all-wires.ts";
import { addHintLoss, type Loss, addLoss } from "../canonical/canonical-losses.ts";
import type { WireName, Part, ImagePart } from "../canonical/canonical-parts.ts";
import type { CanonicalReply } from "../canonical/canonical-reply.ts";
import type { CanonicalRequest, Tool } from "../canonical/canonical-request.ts";
import { IMAGE_TOOL } from "../canonical/tools/server-tool.ts";
import type {
  Abilities,
  ReplyReadContext,
  Target,
  WireStreamReader,
  WrittenRequest,
} from "../canonical/wire-interfaces.ts";
import { type JsonObject, isObject, stringIn } from "../json-fields.ts";
import { clientToolsAsFunctions } from "../messages/messages-client-tools.ts";
import { usageOf } from "../usage/provider-usage.ts";
import type { Usage } from "../usage/usage-meters.ts";
import { type TranslatedWire, WIRE_TRAITS } from "../wire-traits.ts";
import { withClosingTurn } from "./closing-turn.ts";
import { customToolsAsFunctions } from "./custom-tools.ts";
import { askForTools } from "./forced-tools.ts";
import {
  listPartLabels,
  withAllToolsLoaded,
  withoutCompactions,
  withoutForeignCalls,
} from "./foreign-content.ts";
import { openAiToolsAsFunctions } from "./openai-client-tools.ts";
import { rejectSearchField, translateServerTools } from "./server-tools.ts";
import { withFittingNames } from "./tool-names.ts";
import {
  type ChangedRequest,
  type Translation,
  type TranslationStep,
  undoReply,
  undoStream,
  type StepContext,
} from "./translation-step.ts";

export const TRANSLATION_STEPS: readonly TranslationStep[] = [
  {
    name: "compactions",
    applies: ({ provider }) => WIRE_TRAITS[provider].ownerOfItems !== "openai",
    change: withoutCompactions,
    loss: "Only OpenAI can read it; the conversation before it is sent instead.",
  },
  {
    name: "calls of other providers",
    applies: () => true,
    change: withoutForeignCalls,
    loss: "Results of a tool belong to the provider that ran it; the text that the model wrote from them is sent.",
  },
  {
    name: "search field",
    applies: ({ caller, provider, abilities }) =>
      caller === provider && searchesOnlyOnResponses(abilities),
    change: rejectSearchField,
  },
  {
    name: "image tool",
    applies: ({ caller, provider, abilities }) =>
      caller === "chat" &&
      (WIRE_TRAITS[provider].ownerOfItems === "openai" ||
        (caller === provider && searchesOnlyOnResponses(abilities))),
    change: withImageTool,
  },
  {
    name: "server tools",
    applies: ({ caller, provider }) => caller !== provider,
    change: translateServerTools,
  },
  {
    name: "Anthropic's client tools",
    applies: ({ provider }) => WIRE_TRAITS[provider].ownerOfItems !== "anthropic",
    change: clientToolsAsFunctions,
  },
  {
    name: "OpenAI's client tools",
    applies: ({ provider }) => WIRE_TRAITS[provider].ownerOfItems !== "openai",
    change: openAiToolsAsFunctions,
  },
  {
    name: "loaded tools",
    applies: () => true,
    change: withAllToolsLoaded,
    loss: "The model gets all tools at once and calls them itself, because this provider neither loads them later nor runs programs that call them.",
  },
  {
    name: "forced tools",
    applies: ({ abilities }) =>
      abilities.forcedTools !== undefined && abilities.forcedTools !== true,
    change: askForTools,
    loss: "This model cannot be forced to call a tool; its instructions ask for the call.",
  },
  {
    name: "blocks of plain text",
    applies: ({ provider }) => WIRE_TRAITS[provider].ownerOfItems !== "anthropic",
    change: blocksAsText,
  },
  {
    name: "one call at a time",
    applies: ({ provider }) => !WIRE_TRAITS[provider].forbidsParallelCalls,
    change: withSingleCall,
  },
  {
    name: "closing turn",
    applies: ({ abilities }) => abilities.prefill === false,
    change: withClosingTurn,
  },
  {
    name: "stop sequences",
    applies: ({ provider, abilities }) =>
      !WIRE_TRAITS[provider].takesStops || abilities.stop === false,
    change: withoutStops,
  },
  {
    name: "custom tools",
    applies: ({ provider, abilities }) => !WIRE_TRAITS[provider].takesCustomTools(abilities),
    change: customToolsAsFunctions,
    loss: "This provider does not support grammars of tools; the grammar is in the description.",
  },
  { name: "tool names", applies: () => true, change: withFittingNames },
  { name: "labels", applies: () => true, change: listPartLabels },
];

export interface TranslatedRequest {
  readonly wire: TranslatedWire;
  /** With the losses of the steps, too. */
  readonly written: WrittenRequest;
  readonly readUsage: (body: JsonObject) => Usage | undefined;
  /** `replyId` is unique in the conversation. */
  readonly readReply: (body: unknown, replyId: string) => CanonicalReply;
  readonly createStreamReader: (replyId: string) => WireStreamReader;
}

export function translateRequest(
  original: CanonicalRequest,
  { caller, provider }: { readonly caller: WireName; readonly provider: TranslatedWire },
  target: Target,
): TranslatedRequest {
  const losses: Loss[] = [];
  const { abilities = {} } = target;
  const translation: Translation = { caller, provider, target, abilities, losses };
  const createUndos: NonNullable<ChangedRequest["createUndo"]>[] = [];
  let request = original;
  for (const step of TRANSLATION_STEPS) {
    if (!step.applies(translation)) continue;
    const drop = (path: string): undefined => addHintLoss(losses, path, step.loss ?? "");
    const changed = step.change(request, { ...translation, drop });
    request = changed.request;
    if (changed.createUndo !== undefined) createUndos.push(changed.createUndo);
  }
  const outbound = OUTBOUND_WIRES[provider];
  const written = outbound.writeRequest(request, target);
  const origin = { provider: target.provider, model: target.model };
  const readUsage = (body: JsonObject): Usage | undefined =>
    usageOf(provider, body, target.provider);
  const context: ReplyReadContext = { origin, emulation: written.emulation, readUsage };
  const undosFor = (replyId: string) => createUndos.map((create) => create(replyId));
  return {
    wire: provider,
    written: { ...written, losses: [...losses, ...written.losses] },
    readUsage,
    readReply: (body, replyId) => undoReply(outbound.readReply(body, context), undosFor(replyId)),
    createStreamReader: (replyId) =>
      undoStream(outbound.createStreamReader(context), undosFor(replyId)),
  };
}

/** OpenAI's models search the web on Responses; on Chat Completions, only its search models do. */
export function searchesOnlyOnResponses({ openaiFields, webSearchOptions }: Abilities): boolean {
  return openaiFields === true && webSearchOptions !== true;
}

/** For providers that cannot forbid parallel calls: the reply keeps the first. */
function withSingleCall(request: CanonicalRequest): ChangedRequest {
  return request.parallelToolCalls === false
    ? { request, createUndo: () => ({ keepsFirstCall: true }) }
    : { request };
}

/** For models and APIs without stop sequences: the reply ends at the first one here. The provider writes on, and bills it. */
function withoutStops(request: CanonicalRequest): ChangedRequest {
  const stops = request.stop?.filter((stop) => stop !== "") ?? [];
  if (stops.length === 0) return { request };
  return { request: { ...request, stop: undefined }, createUndo: () => ({ stops }) };
}

const BLOCK_REASON = "This provider has no such block; its text is sent.";

/** Blocks of Anthropic's API that contain plain text: results of searches, and summaries of compactions. */
function blocksAsText(
  request: CanonicalRequest,
  { losses }: Pick<StepContext, "losses">,
): ChangedRequest {
  const isPlain = (part: Part): boolean => textOf(part) !== undefined;
  if (!request.turns.some(({ parts }) => parts.some(isPlain))) return { request };
  const turns = request.turns.map((turn) =>
    Object.assign({}, turn, {
      parts: turn.parts.map((part): Part => {
        const text = textOf(part);
        if (text === undefined) return part;
        addHintLoss(losses, part.path ?? "messages", BLOCK_REASON);
        return { type: "text", text, path: part.path };
      }),
    }),
  );
  return { request: { ...request, turns } };
}

function textOf(part: Part): string | undefined {
  if (part.type !== "native" || part.wire !== "messages") return undefined;
  const { type, content } = part.value;
  // The encrypted form of a compaction has no text.
  if (type === "compaction")
    return typeof content === "string" && content !== "" ? content : undefined;
  return type === "search_result" ? searchText(part.value) : undefined;
}

function searchText({ source, title, content }: JsonObject): string | undefined {
  if (!Array.isArray(content)) return undefined;
  const texts = content.map((one: unknown) =>
    isObject(one) && one["type"] === "text" && typeof one["text"] === "string"
      ? one["text"]
      : undefined,
  );
  if (texts.includes(undefined)) return undefined;
  const head = [title, source].filter((one) => typeof one === "string" && one !== "");
  return [...head, ...texts].join("\n");
}

/**
 * OpenAI's tool that generates images is a tool of the Responses API. A chat asks for it by the same definition, and has the
 * images in its message.
 */
function withImageTool(
  request: CanonicalRequest,
  { caller, provider, losses }: StepContext,
): ChangedRequest {
  const { tools } = request;
  if (tools?.some((tool) => isChatImageTool(tool)) !== true) return { request };
  if (caller === provider) {
    const reason = "This model generates images only on the Responses API.";
    for (const tool of tools.filter(isChatImageTool)) addLoss(losses, tool.path ?? "tools", reason);
    return { request };
  }
  const written = tools.map(asResponsesTool);
  return {
    request: { ...request, tools: written },
    createUndo: () => ({
      translatePart: (part) => {
        const image = imageOf(part);
        return image && [image];
      },
    }),
  };
}

function asResponsesTool(tool: Tool): Tool {
  return isChatImageTool(tool) ? { ...tool, wire: "responses" } : tool;
}

function isChatImageTool(tool: Tool): tool is Extract<Tool, { type: "native" }> {
  return tool.type === "native" && tool.wire === "chat" && tool.name === IMAGE_TOOL;
}

function imageOf(part: Part): ImagePart | undefined {
  if (part.type !== "native" || part.value["type"] !== `${IMAGE_TOOL}_call`) return undefined;
  const { result, output_format: format } = part.value;
  if (typeof result !== "string") return undefined;
  const mediaType = `image/${stringIn(format) ?? "png"}`;
  return { type: "image", source: { kind: "base64", mediaType, data: result } };
}
