// Catalogs of what this gateway offers to agents: Agentic Resource Discovery (ard.json) and RFC 9727 (api-catalog).

import { PRODUCT_NAME } from "../discovery-settings.ts";
import type { DocContext } from "../doc-context.ts";
import { PRODUCT_SUMMARY } from "../home-page.tsx";
import { hostName, MCP_CARD_TYPE, MCP_PATH } from "./mcp-card.ts";
import { SKILL_DESCRIPTION, SKILL_PATH } from "./skill.ts";

const OPENAPI_TYPE = "application/openapi+json";

export function ardManifest({ settings, isMounted }: DocContext): unknown {
  const { baseUrl, docsUrl } = settings;
  const publisher = hostName(baseUrl);
  const urn = (namespace: string, name: string): string =>
    `urn:air:${publisher}:${namespace}:${name}`;
  const mcp = {
    identifier: urn("mcp", "postern"),
    displayName: `${PRODUCT_NAME} MCP server`,
    type: MCP_CARD_TYPE,
    url: `${baseUrl}${MCP_PATH}/server-card`,
    description:
      "Tools to create an account, call language models, read usage, pay and start a claim.",
    representativeQueries: [
      "create an account for language models without a human",
      "call a language model from any provider",
      "what does this model call cost",
    ],
  };
  return {
    specVersion: "1.0",
    host: { displayName: PRODUCT_NAME, identifier: publisher, documentationUrl: docsUrl },
    entries: [
      ...(isMounted(`POST ${MCP_PATH}`) ? [mcp] : []),
      {
        identifier: urn("skills", "postern"),
        displayName: `${PRODUCT_NAME} skill`,
        type: 'text/markdown; profile="urn:air:agent-skills"',
        url: `${baseUrl}${SKILL_PATH}`,
        description: SKILL_DESCRIPTION,
        representativeQueries: [
          "how do I get an API key for language models",
          "how do I pay for language model calls as an agent",
        ],
      },
      {
        identifier: urn("api", "postern"),
        displayName: `${PRODUCT_NAME} API`,
        type: OPENAPI_TYPE,
        url: `${baseUrl}/openapi.json`,
        description: PRODUCT_SUMMARY,
        representativeQueries: [
          "OpenAI compatible API for many providers",
          "Anthropic Messages API for any model",
          "prices of language models",
        ],
      },
    ],
  };
}

export function apiCatalog({ settings: { baseUrl, docsUrl }, isMounted }: DocContext): unknown {
  const entry = {
    anchor: `${baseUrl}/v1`,
    "service-desc": [
      { href: `${baseUrl}/openapi.json`, type: OPENAPI_TYPE },
      { href: `${baseUrl}/openapi.yaml`, type: "application/yaml" },
    ],
    "service-doc": [
      { href: `${baseUrl}/auth.md`, type: "text/markdown", title: "Sign-up guide for agents" },
      { href: docsUrl, type: "text/html" },
    ],
    "service-meta": [
      { href: `${baseUrl}/.well-known/ard.json`, type: "application/json" },
      { href: `${baseUrl}/.well-known/oauth-protected-resource`, type: "application/json" },
      { href: `${baseUrl}/llms.txt`, type: "text/plain" },
    ],
    ...(isMounted("GET /healthz") ? { status: [{ href: `${baseUrl}/healthz` }] } : {}),
  };
  const mcp = {
    anchor: `${baseUrl}${MCP_PATH}`,
    "service-desc": [{ href: `${baseUrl}${MCP_PATH}/server-card`, type: MCP_CARD_TYPE }],
    "service-doc": [{ href: `${baseUrl}${SKILL_PATH}`, type: "text/markdown" }],
  };
  return { linkset: isMounted(`POST ${MCP_PATH}`) ? [entry, mcp] : [entry] };
}

/** The `Link` header of pages (RFC 8288). */
export function agentLinks(): string {
  return [
    '</.well-known/api-catalog>; rel="api-catalog"',
    `</openapi.json>; rel="service-desc"; type="${OPENAPI_TYPE}"`,
    '</auth.md>; rel="service-doc"; type="text/markdown"',
    '</.well-known/ard.json>; rel="ard"; type="application/json"',
    '<>; rel="alternate"; type="text/markdown"',
  ].join(", ");
}
