// MCP servers at OpenAI and xAI: a tool for each in the request; in the reply an item for each list of tools and each call.

import type { Loss } from "../canonical/canonical-losses.ts";
import type { NativePart } from "../canonical/canonical-parts.ts";
import type { NativeTool } from "../canonical/canonical-request.ts";
import type {
  McpReplyForm,
  McpRequestForm,
  McpServer,
  McpTool,
} from "../canonical/tools/canonical-mcp.ts";
import {
  isObject,
  isSet,
  type JsonObject,
  mustBeName,
  mustBeString,
  optionalArray,
  optionalObject,
  optionalString,
  stringIn,
  unknownFields,
} from "../json-fields.ts";
import { otherToolFields, withoutTool, withTool } from "../server-tool-fields.ts";

const TYPE = "mcp";
const FIELDS: ReadonlySet<string> = new Set(
  "type server_label server_url authorization headers allowed_tools require_approval".split(" "),
);
const FILTER_FIELDS: ReadonlySet<string> = new Set(["tool_names"]);

export const responsesMcp: McpRequestForm = {
  read(request) {
    const tools = (request.tools ?? []).filter(
      (tool): tool is NativeTool =>
        tool.type === "native" &&
        tool.wire === "responses" &&
        tool.value["type"] === TYPE &&
        // A connector of OpenAI, or a tunnel to it, has no URL.
        typeof tool.value["server_url"] === "string",
    );
    const [first] = tools;
    if (first === undefined) return undefined;
    const losses: Loss[] = [];
    const servers = tools.map((tool) => readServer(tool, losses));
    return {
      tool: { path: first.path ?? "tools", servers, losses },
      rest: tools.reduce(withoutTool, request),
    };
  },
  write(request, { servers }) {
    return servers.reduce(
      (before, { name, url, token, allowedTools }) =>
        withTool(before, "responses", TYPE, {
          type: TYPE,
          server_label: name,
          server_url: url,
          authorization: token,
          allowed_tools: allowedTools,
          require_approval: "never",
        }),
      request,
    );
  },
};

// Without `require_approval`, OpenAI asks for each call.
function readServer({ value, path = "tools" }: NativeTool, losses: Loss[]): McpServer {
  losses.push(...otherToolFields(unknownFields(value, FIELDS), path, "responses"));
  return {
    name: mustBeName(value["server_label"], `${path}.server_label`),
    url: mustBeName(value["server_url"], `${path}.server_url`),
    urlPath: `${path}.server_url`,
    ...readHeaders(value, path),
    approvalPath: value["require_approval"] === "never" ? undefined : `${path}.require_approval`,
    allowedTools: readAllowed(value["allowed_tools"], `${path}.allowed_tools`, losses),
  };
}

function readHeaders(value: JsonObject, path: string): Pick<McpServer, "token" | "headers"> {
  const token = optionalString(value["authorization"], `${path}.authorization`);
  const at = `${path}.headers`;
  const headers = Object.entries(optionalObject(value["headers"], at) ?? {});
  const [only, ...others] = headers;
  const bearer =
    only?.[0].toLowerCase() === "authorization"
      ? /^Bearer (\S+)$/i.exec(String(only[1]))?.[1]
      : undefined;
  if (token === undefined && bearer !== undefined && others.length === 0) return { token: bearer };
  if (headers.length === 0) return { token };
  const texts = headers.map(([name, text]) => [name, mustBeString(text, `${at}.${name}`)]);
  return { token, headers: { value: Object.fromEntries(texts), path: at } };
}

function readAllowed(value: unknown, path: string, losses: Loss[]): readonly string[] | undefined {
  const filter = isObject(value) ? value : undefined;
  losses.push(
    ...otherToolFields(filter && unknownFields(filter, FILTER_FIELDS), path, "responses"),
  );
  const at = filter === undefined ? path : `${path}.tool_names`;
  return optionalArray(filter === undefined ? value : filter["tool_names"], at)?.map((one, index) =>
    mustBeName(one, `${at}[${index}]`),
  );
}

export const responsesMcpReply: McpReplyForm = {
  createReader:
    () =>
    ({ value }) => {
      const { type, error } = value;
      if (type === "mcp_list_tools") return { kind: "pending" };
      if (type !== "mcp_call") return undefined;
      const hasError = isSet(error);
      return {
        kind: "call",
        call: {
          server: stringIn(value["server_label"]) ?? "",
          name: stringIn(value["name"]) ?? "",
          arguments: stringIn(value["arguments"]) ?? "{}",
          output: hasError
            ? (stringIn(error) ?? JSON.stringify(error))
            : (stringIn(value["output"]) ?? ""),
          isError: hasError,
        },
      };
    },
  writeCall: ({ server, name, arguments: text, output, isError }, id) => {
    const value = {
      id: `mcp_${id}`,
      type: "mcp_call",
      status: isError ? "failed" : "completed",
      approval_request_id: null,
      server_label: server,
      name,
      arguments: text,
      output: isError ? null : output,
      error: isError ? output : null,
    };
    return [{ type: "native", wire: "responses", value }];
  },
};

/** The tools of a server, as an item of the reply. */
export function writeToolList(
  server: string,
  tools: readonly McpTool[],
  id: string,
): readonly NativePart[] {
  const listed = tools.map(({ name, description, inputSchema }) => ({
    name,
    description: description ?? null,
    input_schema: inputSchema,
    annotations: null,
  }));
  const value = { id: `mcpl_${id}`, type: "mcp_list_tools", server_label: server, tools: listed };
  return [{ type: "native", wire: "responses", value }];
}
