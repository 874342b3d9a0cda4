// The forms of each wire for tools that several providers run.

import type { Loss } from "../canonical/canonical-losses.ts";
import type { NativePart, Part, WireName } from "../canonical/canonical-parts.ts";
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

export interface ToolDirection {
  readonly caller: WireName;
  readonly provider: WireName;
}

/** The parts that the caller's API has for a part of the provider's; undefined if it is not about the tool. */
export type TranslatePart = (part: Part) => readonly NativePart[] | undefined;

export interface ServerTool {
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

export const SERVER_TOOLS: readonly ServerTool[] = [
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
