// The card of the MCP server (MCP's server card, SEP-2127), and the metadata of the protected resource `/mcp` (RFC 9728).

import { PRODUCT_NAME } from "../discovery-settings.ts";
import type { DocContext } from "../doc-context.ts";
import { protectedResourceMetadata } from "../oauth-metadata.ts";

export const MCP_PATH = "/mcp";
export const MCP_RESOURCE_METADATA_PATH = "/.well-known/oauth-protected-resource/mcp";
export const MCP_CARD_TYPE = "application/mcp-server-card+json";

/** Newest first. Older clients than these are served as well. */
const SUPPORTED_VERSIONS = ["2026-07-28", "2025-11-25"];

export function mcpServerCard({ settings }: DocContext): unknown {
  const { baseUrl, version } = settings;
  return {
    $schema: "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json",
    name: `${reverseHost(baseUrl)}/postern`,
    version,
    title: PRODUCT_NAME,
    description:
      "Create a funded account without a human, call any language model, pay, and start a claim.",
    websiteUrl: baseUrl,
    remotes: [
      {
        type: "streamable-http",
        url: `${baseUrl}${MCP_PATH}`,
        headers: [
          {
            name: "Authorization",
            description: "Bearer <API_KEY>. Not needed to create an account or list models.",
            isRequired: false,
            isSecret: true,
          },
        ],
        supportedProtocolVersions: SUPPORTED_VERSIONS,
      },
    ],
  };
}

export function mcpResourceMetadata(context: DocContext): unknown {
  const { baseUrl } = context.settings;
  return { ...protectedResourceMetadata(context), resource: `${baseUrl}${MCP_PATH}` };
}

/** The host name without a port, as identifiers of agent documents use it. */
export function hostName(baseUrl: string): string {
  return new URL(baseUrl).hostname.replaceAll(/[^a-zA-Z0-9.-]/g, "-");
}

function reverseHost(baseUrl: string): string {
  const name = hostName(baseUrl);
  return /^[\d.]+$/.test(name) ? name : name.split(".").toReversed().join(".");
}
