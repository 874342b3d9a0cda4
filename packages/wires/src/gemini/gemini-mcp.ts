// MCP servers in Google's API: a list among the tools. Its replies have no calls of them.

import type { Loss } from "../canonical/canonical-losses.ts";
import type { NativeTool } from "../canonical/canonical-request.ts";
import type { McpRequestForm, McpServer } from "../canonical/tools/canonical-mcp.ts";
import {
  mustBeArray,
  mustBeName,
  mustBeObject,
  mustBeString,
  optionalObject,
  unknownFields,
} from "../json-fields.ts";
import { otherToolFields, withoutTool } from "../server-tool-fields.ts";

const FIELD = "mcpServers";
const SERVER_FIELDS: ReadonlySet<string> = new Set(["name", "streamableHttpTransport"]);
/** The limits of time are the gateway's. */
const TRANSPORT_FIELDS: ReadonlySet<string> = new Set(
  "url headers timeout sseReadTimeout terminateOnClose".split(" "),
);

export const geminiMcp: McpRequestForm = {
  read(request) {
    const tools = (request.tools ?? []).filter(
      (tool): tool is NativeTool =>
        tool.type === "native" && tool.wire === "gemini" && tool.name === FIELD,
    );
    const [first] = tools;
    if (first === undefined) return undefined;
    const losses: Loss[] = [];
    const servers = tools.flatMap(({ value, path = FIELD }) =>
      mustBeArray(value[FIELD], path).map((one, at) => readServer(one, `${path}[${at}]`, losses)),
    );
    return {
      tool: { path: first.path ?? "tools", servers, losses },
      rest: tools.reduce(withoutTool, request),
    };
  },
};

function readServer(value: unknown, path: string, losses: Loss[]): McpServer {
  const server = mustBeObject(value, path);
  const at = `${path}.streamableHttpTransport`;
  const transport = mustBeObject(server["streamableHttpTransport"], at);
  losses.push(
    ...otherToolFields(unknownFields(server, SERVER_FIELDS), path, "gemini"),
    ...otherToolFields(unknownFields(transport, TRANSPORT_FIELDS), at, "gemini"),
  );
  const headers = Object.entries(optionalObject(transport["headers"], `${at}.headers`) ?? {});
  const texts = headers.map(([name, text]) => [name, mustBeString(text, `${at}.headers.${name}`)]);
  return {
    name: mustBeName(server["name"], `${path}.name`),
    url: mustBeName(transport["url"], `${at}.url`),
    urlPath: `${at}.url`,
    headers: headers.length === 0 ? undefined : { value: Object.fromEntries(texts), path: at },
  };
}
