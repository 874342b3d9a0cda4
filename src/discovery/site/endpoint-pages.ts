// A page for each endpoint and one for all objects, written from the OpenAPI description.

import { endpointSlug } from "../../http/route.ts";
import { codeBlock, firstSentences, joinParagraphs, markdownTable } from "../doc-context.ts";
import {
  type MediaType,
  type OpenApiDocument,
  type Operation,
  type Parameter,
  type ResponseObject,
  listOperations,
  resolveResponse,
} from "../openapi/openapi-types.ts";
import { type SchemaRow, schemaRows, typeName } from "../openapi/schema-rows.ts";
import { pageUrl, type SitePage, type SiteSection } from "./site-types.ts";
import { type Endpoint, tryItOf } from "./try-it.tsx";

/** One section per tag. */
export function endpointSections(document: OpenApiDocument): readonly SiteSection[] {
  const operations = listOperations(document);
  return document.tags.map((tag) => ({
    title: tag.name,
    audience: "customers",
    isCollapsed: true,
    pages: operations
      .filter(({ operation }) => operation.tags.includes(tag.name))
      .map((each) => endpointPage(each, document)),
  }));
}

function endpointPage(endpoint: Endpoint, document: OpenApiDocument): SitePage {
  const { path, method, operation } = endpoint;
  const successes = Object.entries(operation.responses).flatMap(([status, response]) =>
    "$ref" in response ? [] : [[status, response] as const],
  );
  const parameters = operation.parameters ?? [];
  const isHeader = (each: Parameter): boolean => each.in === "header";
  return {
    slug: endpointSlug(operation.operationId),
    label: operation.summary,
    markdown: joinParagraphs([
      `# ${operation.summary}`,
      `**${method}** \`${path}\``,
      operation.description ?? "",
      accessText(operation),
      ...parameterSections(parameters.filter((each) => !isHeader(each))),
      bodySection(operation, document),
      ...parameterSections(parameters.filter(isHeader)),
      ...successes.map(([status, response]) => responseSection(status, response, document)),
      errorSection(operation, document),
    ]),
    examples: joinParagraphs([
      ...operation["x-codeSamples"].flatMap(({ label, source }) => [
        `**Request** (${label})`,
        codeBlock("sh", source),
      ]),
      ...successes.flatMap(([status, response]) => responseExamples(status, response)),
    ]),
    tryIt: tryItOf(endpoint),
  };
}

function accessText({ security }: Operation): string {
  const [first] = security;
  if (first === undefined) return "No API key required.";
  if ("scimToken" in first || "metricsToken" in first) return "";
  const scope = Object.values(first)[0]?.[0];
  const isOptional = scope === undefined && security.some((each) => Object.keys(each).length === 0);
  const key = `${isOptional ? "Works without an API key; with one, send it" : "Send your API key"} as \`authorization: Bearer <API_KEY>\` or \`x-api-key\``;
  return scope === undefined ? `${key}.` : `${key}, with the [scope](/docs/keys) \`${scope}\`.`;
}

const PARAMETER_LOCATIONS = [
  ["path", "Path parameters"],
  ["query", "Query parameters"],
  ["header", "Headers"],
] as const;

function parameterSections(parameters: readonly Parameter[]): readonly string[] {
  return PARAMETER_LOCATIONS.map(([location, title]) =>
    section(title, fieldTable(parameters.filter((each) => each.in === location).map(parameterRow))),
  );
}

function parameterRow(parameter: Parameter): SchemaRow {
  const { name, required = false, description, schema } = parameter;
  const property = { ...schema, ...(description === undefined ? {} : { description }) };
  const rows = schemaRows({ type: "object", properties: { [name]: property } }, {});
  return { name, type: typeName(schema), required, description: rows[0]?.description ?? "" };
}

function bodySection({ requestBody }: Operation, document: OpenApiDocument): string {
  if (requestBody === undefined) return "";
  const tables = new Set<string>();
  return section(
    "Request body",
    ...Object.entries(requestBody.content).flatMap(([type, media]) => {
      const table = mediaFields(media, document);
      const isKnown = tables.has(table);
      tables.add(table);
      const name = `\`${type}\`${requestBody.required ? "" : ", optional"}`;
      return isKnown ? [`${name}: the same fields.`] : [name, table];
    }),
  );
}

/** Headers whose names say what they are; the OpenAPI description has a sentence for each. */
const PROVIDER_HEADER = /^(?:anthropic-|openai-|x-ratelimit-|retry-after-ms$)/;

function responseSection(
  status: string,
  response: ResponseObject,
  document: OpenApiDocument,
): string {
  const all = Object.entries(response.headers ?? {});
  const relayed = all.filter(([name]) => PROVIDER_HEADER.test(name)).map(([name]) => `\`${name}\``);
  const headers = all.flatMap(([name, header]) =>
    "description" in header && !PROVIDER_HEADER.test(name)
      ? [`- \`${name}\`: ${header.description}`]
      : [],
  );
  if (relayed.length > 0) headers.push(`- As the provider sends them: ${relayed.join(", ")}.`);
  return section(
    `Response ${status}`,
    response.description,
    ...Object.entries(response.content ?? {}).flatMap(([type, media]) => [
      `\`${type}\``,
      mediaFields(media, document),
    ]),
    headers.length === 0 ? "" : "Headers:",
    headers.join("\n"),
  );
}

function mediaFields({ schema }: MediaType, document: OpenApiDocument): string {
  return schema === undefined ? "" : fieldTable(schemaRows(schema, document.components.schemas));
}

function errorSection(operation: Operation, document: OpenApiDocument): string {
  const rows = Object.entries(operation.responses).flatMap(([status, responseOrRef]) => {
    if (!("$ref" in responseOrRef) || status === "default") return [];
    const { description } = resolveResponse(document, responseOrRef);
    return [...description.matchAll(/^`(\w+)`: (.+)$/gm)].map(([, code = "", meaning = ""]) => [
      status,
      `[\`${code}\`](/docs/errors/${code})`,
      firstSentences(meaning),
    ]);
  });
  return section("Errors", markdownTable(["Status", "Code", "Meaning and fix"], rows));
}

function responseExamples(status: string, response: ResponseObject): readonly string[] {
  return Object.entries(response.content ?? {}).flatMap(([type, { example }]) => {
    if (example === undefined) return [];
    const isText = typeof example === "string";
    const text = isText ? example.trimEnd() : JSON.stringify(example, null, 2);
    return [`**Response** ${status} (\`${type}\`)`, codeBlock(isText ? "text" : "json", text)];
  });
}

/** A page for each object of requests and responses. */
export function objectSection(document: OpenApiDocument): SiteSection {
  const { schemas } = document.components;
  return {
    title: "Objects",
    audience: "customers",
    isCollapsed: true,
    pages: Object.entries(schemas).map(([name, schema]) => ({
      slug: objectSlug(name),
      label: name,
      markdown: joinParagraphs([
        `# ${name}`,
        schema.description ?? "",
        fieldTable(schemaRows(schema, schemas)),
      ]),
    })),
  };
}

function objectSlug(name: string): string {
  return `api/objects/${name.toLowerCase()}`;
}

function fieldTable(rows: readonly SchemaRow[]): string {
  return markdownTable(
    ["Field", "Description"],
    rows.map((row) => [
      `\`${row.name}\` *${typeText(row)}*`,
      row.description.replaceAll("\n", " "),
    ]),
  );
}

function typeText({ type, schemaName, required }: SchemaRow): string {
  const linked =
    schemaName === undefined
      ? type
      : type.replace(schemaName, `[${schemaName}](${pageUrl(objectSlug(schemaName))})`);
  return required ? linked : `${linked}, optional`;
}

/** Empty without content. */
function section(title: string, ...parts: readonly string[]): string {
  const content = joinParagraphs(parts);
  return content === "" ? "" : `## ${title}\n\n${content}`;
}
