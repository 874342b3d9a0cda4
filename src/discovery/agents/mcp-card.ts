// The card of the MCP server (MCP's server card, SEP-2127), and the metadata of the protected resource `/mcp` (RFC 9728).

import { MCP_SIGN_IN_SCOPES } from "../../http/scopes.ts";
import { PRODUCT_NAME } from "../discovery-settings.ts";
import type { DocContext } from "../doc-context.ts";
import { mcpAuthorizationServerMetadata, protectedResourceMetadata } from "../oauth-metadata.ts";

export const MCP_PATH = "/mcp";
export const MCP_RESOURCE_METADATA_PATH = "/.well-known/oauth-protected-resource/mcp";
/** The metadata of the issuer `<base URL>/mcp` (RFC 8414, section 3.1). */
export const MCP_AUTHORIZATION_SERVER_PATH = "/.well-known/oauth-authorization-server/mcp";
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

/** Without a sign-in there is no authorization server: a client that looks for one would end at that of claims. */
export function mcpResourceMetadata(context: DocContext): unknown {
  const { baseUrl } = context.settings;
  const { authorization_servers: _ofClaims, ...metadata } = protectedResourceMetadata(context);
  const mcp = { ...metadata, resource: `${baseUrl}${MCP_PATH}` };
  if (mcpAuthorizationServerMetadata(context) === undefined) return mcp;
  return {
    ...mcp,
    authorization_servers: [`${baseUrl}${MCP_PATH}`],
    // Clients ask for all scopes that are listed here: those that a client needs, not all that exist.
    scopes_supported: MCP_SIGN_IN_SCOPES,
  };
}

/** The host name without a port, as identifiers of agent documents use it. */
export function hostName(baseUrl: string): string {
  return new URL(baseUrl).hostname.replaceAll(/[^a-zA-Z0-9.-]/g, "-");
}

function reverseHost(baseUrl: string): string {
  const name = hostName(baseUrl);
  return /^[\d.]+$/.test(name) ? name : name.split(".").toReversed().join(".");
}
