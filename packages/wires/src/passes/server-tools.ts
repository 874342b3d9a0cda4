// Tools that several providers run, such as a web search, between two APIs: the tool in the request, and its calls in the reply.

import { addLoss, type Loss } from "../canonical/canonical-losses.ts";
import type { WireName } from "../canonical/canonical-parts.ts";
import type { CanonicalRequest } from "../canonical/canonical-request.ts";
import type {
  ServerToolDefinition,
  ServerToolReplyForm,
  ServerToolRequestForm,
} from "../canonical/tools/server-tool.ts";
import type { Target } from "../canonical/wire-interfaces.ts";
import { chatSearch, chatSearchReply } from "../chat/chat-web-search.ts";
import { geminiCode, geminiCodeReply } from "../gemini/gemini-code-execution.ts";
import { geminiFetch } from "../gemini/gemini-url-context.ts";
import { geminiSearch, geminiSearchReply } from "../gemini/gemini-web-search.ts";
import { messagesCode, messagesCodeReply } from "../messages/messages-code-execution.ts";
import { messagesMcp, messagesMcpReply } from "../messages/messages-mcp.ts";
import { messagesFetch } from "../messages/messages-web-fetch.ts";
import { messagesSearch, messagesSearchReply } from "../messages/messages-web-search.ts";
import { responsesCode, responsesCodeReply } from "../responses/responses-code-interpreter.ts";
import { responsesMcp, responsesMcpReply } from "../responses/responses-mcp.ts";
import { responsesSearch, responsesSearchReply } from "../responses/responses-web-search.ts";
import type { ChangedRequest, StepContext, Translation, Undo } from "./translation-step.ts";

export function translateServerTools(
  original: CanonicalRequest,
  context: StepContext,
): ChangedRequest {
  const { provider, target, losses } = context;
  let request = original;
  // All are read before one is written, because writing drops fields of the caller's API.
  const used = SERVER_TOOLS.flatMap((tool) => {
    const found = tool.isOfferedBy(provider, target) ? tool.read(request, context) : undefined;
    if (found === undefined) return [];
    request = found.rest;
    return [{ tool, write: found.write }];
  });
  for (const { write } of used) request = write(request, target, losses);
  if (used.length === 0) return { request };
  return {
    request,
    createUndo: (replyId) => {
      const nextId = callIdsOf(replyId);
      const translations = used.map(({ tool }) => tool.createPartTranslation(context, nextId));
      return {
        translatePart(part) {
          for (const translate of translations) {
            const parts = translate(part);
            if (parts !== undefined) return parts;
          }
          return undefined;
        },
      };
    },
  };
}

function callIdsOf(replyId: string): () => string {
  const base = replyId.replaceAll(/[^A-Za-z0-9]/g, "").slice(-24);
  let count = 0;
  return () => `${base}_${count++}`;
}

/** A search in the caller's own API, at a model that searches only in another one. */
export function rejectSearchField(
  request: CanonicalRequest,
  { losses }: StepContext,
): ChangedRequest {
  const search = chatSearch.read?.(request)?.tool;
  if (search !== undefined)
    addLoss(losses, search.path, "This model searches only on the Responses API.");
  return { request };
}

type ToolDirection = Pick<Translation, "caller" | "provider">;
type TranslatePart = NonNullable<Undo["translatePart"]>;

interface ServerTool {
  readonly isOfferedBy: (wire: WireName, target: Target) => boolean;
  /** The request without the tool, and how to write it; undefined without the tool. */
  readonly read: (request: CanonicalRequest, direction: ToolDirection) => ReadTool | undefined;
  readonly createPartTranslation: (direction: ToolDirection, nextId: () => string) => TranslatePart;
}

interface ReadTool {
  readonly rest: CanonicalRequest;
  readonly write: (request: CanonicalRequest, target: Target, losses: Loss[]) => CanonicalRequest;
}

type FormByWire<F> = Readonly<Partial<Record<WireName, F>>>;

function serverTool<T extends ServerToolDefinition, C>(
  requests: FormByWire<ServerToolRequestForm<T>>,
  replies: FormByWire<ServerToolReplyForm<C>>,
): ServerTool {
  return {
    isOfferedBy: (wire, target) => {
      const form = requests[wire];
      return form?.write !== undefined && form.isOfferedBy?.(target) !== false;
    },
    read: (request, { caller, provider }) => {
      const found = requests[caller]?.read?.(request);
      if (found === undefined) return undefined;
      const { tool, rest } = found;
      return {
        rest,
        write: (before, target, losses) => {
          const written = requests[provider]?.write?.(before, tool, target, losses);
          losses.push(...tool.losses);
          return written ?? before;
        },
      };
    },
    createPartTranslation: ({ caller, provider }, nextId) => {
      const read = replies[provider]?.createReader();
      return (part) => {
        if (part.type !== "native" || part.wire !== provider) return undefined;
        const report = read?.(part);
        if (report === undefined) return undefined;
        if (report.kind === "pending") return [];
        const written = replies[caller]?.writeCall(report.call, nextId()) ?? [];
        // The caller's writer lists a part of another wire as dropped.
        return report.isPartial === true ? [...written, part] : written;
      };
    },
  };
}

const SERVER_TOOLS: readonly ServerTool[] = [
  serverTool(
    {
      chat: chatSearch,
      responses: responsesSearch,
      messages: messagesSearch,
      gemini: geminiSearch,
    },
    {
      chat: chatSearchReply,
      responses: responsesSearchReply,
      messages: messagesSearchReply,
      gemini: geminiSearchReply,
    },
  ),
  serverTool(
    { responses: responsesCode, messages: messagesCode, gemini: geminiCode },
    { responses: responsesCodeReply, messages: messagesCodeReply, gemini: geminiCodeReply },
  ),
  serverTool(
    { responses: responsesMcp, messages: messagesMcp },
    { responses: responsesMcpReply, messages: messagesMcpReply },
  ),
  serverTool({ messages: messagesFetch, gemini: geminiFetch }, {}),
];
