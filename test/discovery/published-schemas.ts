// The published schemas of the documents for agents, reduced to what they demand of the fields that these documents have. On
// 2026-11-23 the documents were also valid against the published files themselves, and passed ARD's own conformance test.

import { Ajv2020, type ValidateFunction } from "ajv/dist/2020.js";

const text = (pattern?: string, limits: object = {}): object => ({
  type: "string",
  ...(pattern === undefined ? {} : { pattern }),
  ...limits,
});
const list = (items: object, limits: object = {}): object => ({ type: "array", items, ...limits });
const record = (required: readonly string[], properties: object, limits: object = {}): object => ({
  type: "object",
  required,
  properties,
  ...limits,
});

/** github.com/modelcontextprotocol/experimental-ext-server-card, schema.json, version v1 of 2026-07-24 (8924e08). */
const SERVER_CARD = record(["$schema", "description", "name", "version"], {
  $schema: text(
    "^https://static\\.modelcontextprotocol\\.io/schemas/v1/server-card\\.schema\\.json$",
  ),
  description: text(undefined, { minLength: 1, maxLength: 100 }),
  name: text("^[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+$", { minLength: 3, maxLength: 200 }),
  title: text(undefined, { minLength: 1, maxLength: 100 }),
  version: text(undefined, { maxLength: 255 }),
  websiteUrl: text("^https?://"),
  remotes: list(
    record(["type", "url"], {
      type: { enum: ["sse", "streamable-http"] },
      url: text("^(https?://[^\\s]+|\\{[a-zA-Z_][a-zA-Z0-9_]*\\}[^\\s]*)$"),
      supportedProtocolVersions: list(text()),
      headers: list(
        record(["name"], {
          name: text(),
          description: text(),
          isRequired: { type: "boolean" },
          isSecret: { type: "boolean" },
        }),
      ),
    }),
  ),
});

/** github.com/ards-project/ard-spec, spec/schemas/ai-catalog.schema.json, version 1.0 of 2026-07-15 (5fa2f5a). */
const ARD = record(
  ["specVersion", "entries"],
  {
    specVersion: { enum: ["1.0"] },
    host: record(
      ["displayName"],
      { displayName: text(), identifier: text(), documentationUrl: text("^https?://") },
      { additionalProperties: false },
    ),
    entries: list(
      record(
        ["identifier", "displayName", "type"],
        {
          identifier: text("^urn:air:[a-zA-Z0-9.-]+(:[a-zA-Z0-9._-]+)+$"),
          displayName: text(),
          type: text("^[a-z]+/[a-z0-9.+-]+"),
          url: text("^https?://"),
          description: text(),
          representativeQueries: list(text(), { minItems: 2, maxItems: 5 }),
        },
        { oneOf: [{ required: ["url"] }, { required: ["data"] }] },
      ),
    ),
  },
  { additionalProperties: false },
);

/** github.com/cloudflare/agent-skills-discovery-rfc, version 0.2.0 of 2026-03-24 (1bd1167), which has no JSON schema. */
const AGENT_SKILLS = record(["$schema", "skills"], {
  $schema: { const: "https://schemas.agentskills.io/discovery/0.2.0/schema.json" },
  skills: list(
    record(["name", "type", "description", "url", "digest"], {
      name: text("^[a-z0-9]+(-[a-z0-9]+)*$", { maxLength: 64 }),
      type: { enum: ["skill-md", "archive"] },
      description: text(undefined, { minLength: 1, maxLength: 1_024 }),
      url: text(),
      digest: text("^sha256:[0-9a-f]{64}$"),
    }),
  ),
});

const LINKS = list(record(["href"], { href: text("^https?://"), type: text(), title: text() }), {
  minItems: 1,
});

/** RFC 9264 (July 2022) and RFC 9727 (June 2025), which have no JSON schema: each member of a link context besides `anchor` is a relation with its targets. */
const LINKSET = record(
  ["linkset"],
  {
    linkset: list(
      record(["anchor"], { anchor: text("^https?://") }, { additionalProperties: LINKS }),
      { minItems: 1 },
    ),
  },
  { additionalProperties: false },
);

/** RFC 9728 §2 (April 2025). */
const PROTECTED_RESOURCE = record(["resource"], {
  resource: text("^https?://[^#]+$"),
  authorization_servers: list(text("^https?://")),
  bearer_methods_supported: list({ enum: ["header", "body", "query"] }),
  resource_name: text(),
  resource_documentation: text("^https?://"),
});

const ajv = new Ajv2020({ allErrors: true, strict: false });
const compile = (schema: object): ValidateFunction => ajv.compile(schema);

const VALIDATORS = {
  serverCard: compile(SERVER_CARD),
  ard: compile(ARD),
  agentSkills: compile(AGENT_SKILLS),
  linkset: compile(LINKSET),
  protectedResource: compile(PROTECTED_RESOURCE),
} as const;

/** What the schema does not allow; empty for a valid document. */
export function schemaErrors(name: keyof typeof VALIDATORS, document: unknown): readonly string[] {
  const validate = VALIDATORS[name];
  return validate(document)
    ? []
    : (validate.errors ?? []).map(({ instancePath, message = "" }) => `${instancePath} ${message}`);
}
