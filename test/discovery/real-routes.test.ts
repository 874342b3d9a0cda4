// The documents of the real service, with all of its routes.

import { afterAll, describe, expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { Validator } from "@seriousme/openapi-schema-validator";
import { readConfig } from "../../src/config/config.ts";
import type { JsonSchema } from "../../src/discovery/openapi/json-schemas.ts";
import { openApiDocument, openApiYaml } from "../../src/discovery/openapi/openapi.ts";
import type { Route } from "../../src/http/route.ts";
import { createRouter } from "../../src/http/router.ts";
import { createServer } from "../../src/server/server.ts";
import { curlCommands, createSite } from "./harness.ts";
import { lintOpenApi } from "./lint-openapi.ts";
import { settings } from "./sample-routes.ts";

const routes = await realRoutes();

const site = createSite(routes);
const yaml = openApiYaml(openApiDocument(site.routes, settings));

describe("documents of the real service", () => {
  test("pass both validators", async () => {
    const result = await new Validator({ strict: false }).validate(
      Bun.YAML.parse(yaml) as Record<string, unknown>,
    );
    expect(result.errors).toBeUndefined();
    expect(await lintOpenApi(yaml)).toEqual([]);
  });

  test("have a valid example body for each route", () => {
    for (const route of routes) {
      if (route.body === undefined) continue;
      expect(`${route.id} ${route.body.safeParse(route.requestExample).success}`).toBe(
        `${route.id} true`,
      );
    }
  });

  test("have only commands for mounted routes", async () => {
    const match = createRouter(site.routes);
    const commands = [await site.text("/auth.md"), await site.text("/llms.txt")].flatMap(
      curlCommands,
    );
    expect(commands.length).toBeGreaterThan(3);
    for (const { method, url } of commands)
      expect(`${url} ${match(method, new URL(url).pathname).kind}`).toBe(`${url} route`);
  });

  test("state the limit of a model call's body, and not that of an upload", async () => {
    expect(await site.text("/auth.md")).toContain(
      "| Maximum request body | 64 KiB; model calls 32 MiB |",
    );
  });

  test("say in whole sentences what to do after an error", async () => {
    const page = await site.text("/auth.md");
    const rows = page.split("\n").filter((line) => /^\| \d{3} \| `/.test(line));
    expect(rows.length).toBeGreaterThan(20);
    for (const row of rows) expect(row).toMatch(/[.!] \| [^|]+ \|$/);
  });

  test("describe every field and parameter", () => {
    const { components, paths } = openApiDocument(site.routes, settings);
    const operations = Object.values(paths).flatMap((path) => Object.values(path));
    const missing = [
      ...Object.entries(components.schemas).flatMap(([name, schema]) => undescribed(schema, name)),
      ...operations.flatMap(({ operationId, parameters = [], requestBody, responses }) => [
        ...parameters
          .filter(({ description, schema }) => (description ?? schema.description) === undefined)
          .map(({ name }) => `${operationId} ${name}`),
        ...[requestBody, ...Object.values(responses)].flatMap((part) =>
          part === undefined || !("content" in part)
            ? []
            : Object.values(part.content ?? {}).flatMap(({ schema = {} }) =>
                undescribed(schema, operationId),
              ),
        ),
      ]),
    ];
    expect(missing).toEqual([]);
  });

  test("name the fields of every JSON body", () => {
    const { components, paths } = openApiDocument(site.routes, settings);
    const namesFields = (schema: JsonSchema): boolean => {
      const found = components.schemas[schema.$ref?.replace("#/components/schemas/", "") ?? ""];
      if (found !== undefined) return namesFields(found);
      const options = [...(schema.anyOf ?? []), ...(schema.oneOf ?? []), ...(schema.allOf ?? [])];
      return Object.keys(schema.properties ?? {}).length > 0 || options.some(namesFields);
    };
    const unnamed = Object.values(paths)
      .flatMap((path) => Object.values(path))
      .filter(({ requestBody }) => {
        const schema = requestBody?.content["application/json"]?.schema;
        return schema !== undefined && !namesFields(schema);
      });
    expect(unnamed.map(({ operationId }) => operationId)).toEqual([]);
  });

  test("name the credential of each operation", () => {
    const { components, paths } = openApiDocument(site.routes, settings);
    const securityOf = (path: string, method = "get") => paths[path]?.[method]?.security;
    expect(securityOf("/scim/v2/Users")).toEqual([{ scimToken: [] }]);
    expect(securityOf("/metrics")).toEqual([{ metricsToken: [] }, {}]);
    expect(securityOf("/v1/models")).toEqual([{ bearer: [] }, { apiKey: [] }, {}]);
    expect(securityOf("/healthz")).toEqual([]);
    const scopes = ["models:write"];
    expect(securityOf("/v1beta/models/{model}:generateContent", "post")).toEqual([
      { bearer: scopes },
      { apiKey: scopes },
      { googleKey: scopes },
    ]);
    const named = Object.values(paths)
      .flatMap((item) => Object.values(item))
      .flatMap(({ security }) => security.flatMap((each) => Object.keys(each)));
    expect([...new Set(named)].toSorted()).toEqual(
      Object.keys(components.securitySchemes).toSorted(),
    );
  });

  test("say of every list whether more follows", () => {
    const { schemas } = openApiDocument(site.routes, settings).components;
    const lists = Object.entries(schemas).filter(([, { properties }]) => {
      const object = properties?.["object"];
      return typeof object === "object" && object.const === "list";
    });
    expect(lists.length).toBeGreaterThan(20);
    const unpaged = lists.filter(([, { properties }]) => properties?.["has_more"] === undefined);
    // OpenAI's form of a reply.
    expect(unpaged.map(([name]) => name)).toEqual(["Embeddings"]);
  });

  test("give times as RFC 3339, or say that they are Unix seconds", () => {
    const { schemas } = openApiDocument(site.routes, settings).components;
    const text = (name: string) => JSON.stringify(schemas[name]?.properties?.["created_at"]);
    expect(text("ApiKey")).toContain('"format":"date-time"');
    expect(schemas["Batch"]?.description).toContain("Unix seconds");
    expect(text("Batch")).toContain('"type":"integer"');
  });

  test("have unique operation ids", () => {
    const ids = site.routes.map((route) => route.id);
    expect(new Set(ids).size).toBe(ids.length);
  });
});

/** The paths of fields that have neither a description nor a named schema, which has a page of its own. */
function undescribed(schema: JsonSchema, path: string): readonly string[] {
  const within = (part: JsonSchema | boolean | undefined, at: string): readonly string[] =>
    typeof part === "object" ? undescribed(part, at) : [];
  return [
    ...Object.entries(schema.properties ?? {}).flatMap(([name, field]) => [
      ...(typeof field === "object" && field.description === undefined && field.$ref === undefined
        ? [`${path}.${name}`]
        : []),
      ...within(field, `${path}.${name}`),
    ]),
    ...[...(schema.allOf ?? []), ...(schema.anyOf ?? []), ...(schema.oneOf ?? [])].flatMap((part) =>
      within(part, path),
    ),
    ...(Array.isArray(schema.items) ? [] : within(schema.items, `${path}[]`)),
    ...within(schema.additionalProperties, `${path}.*`),
  ];
}

/** All routes except the discovery routes, from a server that is created and closed again. */
async function realRoutes(): Promise<readonly Route[]> {
  const folder = mkdtempSync(path.join(tmpdir(), "postern-discovery-"));
  afterAll(() => rmSync(folder, { recursive: true, force: true }));
  const read = readConfig({ env: { POSTERN_DATA_DIR: folder }, hostName: "test", providers: [] });
  if (!read.ok) throw new Error(read.errors.join("; "));
  const silent = (): void => {};
  const server = await createServer(read.config, {
    log: { debug: silent, info: silent, warn: silent, error: silent },
    now: () => Date.UTC(2026, 10, 21),
    version: "1.2.3",
    onFatal: silent,
  });
  await server.close();
  return server.routes.filter((route) => route.tag !== "Discovery");
}
