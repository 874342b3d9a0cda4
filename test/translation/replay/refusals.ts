// Why a recorded request is rightly refused at another model: what it asks for does not exist there, and dropping it would
// change the reply, or it refers to storage at the recorded account.

import { isObject } from "../../../src/base/json.ts";
import type { Json } from "../support/harness.ts";

/** Whether a refusal is about tools that providers run, storage at a provider, or the rest of a request. */
type Subject = "tools" | "storage" | "content";

const MEANING: readonly (readonly [reason: RegExp, why: string, subject: Subject])[] = [
  [
    /refers to an object in the provider account/,
    "A reference to state or files of a provider account",
    "storage",
  ],
  [/The server tool|server tool .* runs only/, "A server tool of another provider", "tools"],
  [/The tool .* is defined only by/, "A tool that only one API defines", "tools"],
  [
    /^400 (?:tools(?:\[\])?|web_search_options): (?:The price of this|\S+ is a tool that the provider)/,
    "A server tool without a price",
    "tools",
  ],
  [/The price of the tool .* is not known/, "A server tool without a price", "tools"],
  [/^400 tools\[\]\.model: The advisor model/, "An advisor model of another provider", "tools"],
  [
    /always live|restrict a search|restrict fetching|does not combine|tool of this model's provider has no equivalent/,
    "A setting of a web search that the provider does not have",
    "tools",
  ],
  [
    /approval|bearer token|list of allowed tools|requires an https|network access/,
    "A setting of an MCP server, or of code, that the provider does not have",
    "tools",
  ],
  [/does not connect to MCP servers/, "An MCP server that is not on the workspace's list", "tools"],
  [/^400 (?:web_search_options|mcp_servers|container):/, "A field for server tools", "tools"],
  [/^400 (?:audio|generationConfig\.speechConfig):/, "Audio output", "content"],
  [
    /This content is specific to|native content in/,
    "A call or result of a server tool in the history",
    "tools",
  ],
  [/supports only text in tool results/, "Audio or video in a tool result", "tools"],
  [/does not support (?:this )?audio/, "Audio", "content"],
  [/does not support (?:this )?video|video_url/, "Video", "content"],
  [/does not support citations|document context/, "Citations of documents", "content"],
  [/^400 n:/, "Several choices", "content"],
  [/stored at another provider|file is stored/, "A file at another provider", "storage"],
];

/** Whether the request names an object that is stored in the recorded account. */
export function isAboutAccount(reason: string): boolean {
  return subjectOf(reason) === "storage";
}

/** What the provider has, and the gateway refuses: a tool of its own API without a price, or beside functions. */
const POSSIBLE = /does not combine/;

/** Whether the API of the model's provider has nothing for it. `isOwnApi`: the request is in that API. */
export function hasNoEquivalent(reason: string, isOwnApi: boolean): boolean {
  return !isAboutAccount(reason) && !isOwnApi && !POSSIBLE.test(reason);
}

/** Calls, results and files of tools that a provider runs. The calls of others are `function_call` and `tool_use`. */
const SERVER_PART =
  /^(?!function_|custom_)\w+_call$|^server_tool_use$|^\w+_tool_result$|^mcp_|^container_upload$/;
const SERVER_FIELDS: ReadonlySet<string> = new Set([
  "web_search_options",
  "mcp_servers",
  "container",
]);

/** The name of the tool that a refusal of this field is about, if a provider runs it; undefined for anything else. */
export function refusedTool(body: Json, param: string): string | undefined {
  const [field = "", ...steps] = param.split(/[.[\]]+/).filter((step) => step !== "");
  if (SERVER_FIELDS.has(field)) return field;
  let value: unknown = body[field];
  let name: string | undefined;
  for (const step of steps) {
    value = Array.isArray(value) ? value[Number(step)] : isObject(value) ? value[step] : undefined;
    const type = isObject(value) ? (value["type"] ?? geminiTool(value)) : undefined;
    if (typeof type !== "string") continue;
    if (field === "tools" ? !/^(?:function|custom)$/.test(type) : SERVER_PART.test(type))
      name ??= type;
  }
  return name;
}

/** Google names a tool by its only key. */
function geminiTool(tool: Json): string | undefined {
  return Object.keys(tool).find((key) => GEMINI_TOOL.test(key));
}

const GEMINI_TOOL =
  /^(?:google_?[sS]earch(?:_?[rR]etrieval)?|google_?[mM]aps|url_?[cC]ontext|code_?[eE]xecution|file_?[sS]earch|computer_?[uU]se|mcp_?[sS]ervers)$/;

export const REFUSED_FOR: readonly string[] = [...new Set(MEANING.map(([, why]) => why))];

export function isAboutMeaning(reason: string): boolean {
  return MEANING.some(([pattern]) => pattern.test(reason));
}

/** Not for a tool that a provider runs, and not for storage at a provider. */
export function isAboutContent(reason: string): boolean {
  return subjectOf(reason) === "content";
}

function subjectOf(reason: string): Subject {
  return MEANING.find(([pattern]) => pattern.test(reason))?.[2] ?? "content";
}
