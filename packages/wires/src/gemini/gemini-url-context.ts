// Gemini's URL context: it fetches pages that the conversation names. The reply lists them, but has no calls.
import type {
  ServerToolDefinition,
  ServerToolRequestForm,
} from "../canonical/tools/server-tool.ts";
import { findServerTool, withServerTool } from "./gemini-server-tools.ts";

export const geminiFetch: ServerToolRequestForm<ServerToolDefinition> = {
  read: (request) => findServerTool(request, /^urlContext$/),
  write: (request, tool, target, losses) =>
    withServerTool(request, { tool, title: "fetching of pages", target }, losses, {
      urlContext: {},
    }),
};
