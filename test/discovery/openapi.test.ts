import { describe, expect, test } from "bun:test";
import { Validator } from "@seriousme/openapi-schema-validator";
import { FAULTS } from "../../src/base/fault.ts";
import { isObject } from "../../src/base/json.ts";
import { openApiPath } from "../../src/discovery/curl.ts";
import { possibleFaults } from "../../src/discovery/error-docs.ts";
import {
  type OpenApiDocument,
  listOperations,
  resolveResponse,
} from "../../src/discovery/openapi/openapi-types.ts";
import { openApiDocument, openApiYaml } from "../../src/discovery/openapi/openapi.ts";
import type { Route } from "../../src/http/route.ts";
import { createSite } from "./harness.ts";
import { lintOpenApi } from "./lint-openapi.ts";
import { coreRoutes, sampleRoutes, settings } from "./sample-routes.ts";

const siteRoutes = createSite(sampleRoutes).routes;

const ROUTE_SETS: readonly (readonly [name: string, routes: readonly Route[]])[] = [
  ["the sample routes and the discovery routes", siteRoutes],
  ["the sample routes without claims", coreRoutes],
];

for (const [name, routes] of ROUTE_SETS) {
  const document = openApiDocument(routes, settings);
  const yaml = openApiYaml(document);
  describe(`/openapi.yaml of ${name}`, () => {
    test("is valid OpenAPI 3.1", async () => {
      const result = await new Validator({ strict: false }).validate(
        Bun.YAML.parse(yaml) as Record<string, unknown>,
      );
      expect(result.errors).toBeUndefined();
      expect(result.valid).toBe(true);
    });

    test("passes Redocly's rules, and every example matches its schema", async () => {
      expect(await lintOpenApi(yaml)).toEqual([]);
    });

    test("describes exactly the routes that are not hidden", () => {
      const described = listOperations(document).map(({ method, path }) => `${method} ${path}`);
      const mounted = routes.filter((route) => route.hidden !== true).map(routeKey);
      expect(described.toSorted()).toEqual(mounted.toSorted());
    });

    test("describes every fault of every route, with an example", () => {
      for (const route of routes.filter((each) => each.hidden !== true)) {
        const operation = document.paths[openApiPath(route.path)]?.[route.method.toLowerCase()];
        for (const code of possibleFaults(route)) {
          const status = FAULTS[code][0];
          const found = operation?.responses[String(status)];
          expect(found).toBeDefined();
          if (found === undefined || route.responses[status] !== undefined) continue;
          const { content, description } = resolveResponse(document, found);
          expect(description).toContain(`\`${code}\``);
          if (route.dialect !== "page") {
            expect(Object.keys(content?.["application/json"]?.examples ?? {})).toContain(code);
          }
        }
      }
    });
  });
}

describe("the linter", () => {
  test("rejects an example that does not match its schema", async () => {
    const yaml = openApiYaml(openApiDocument(sampleRoutes, settings));
    const broken = yaml.replaceAll("credits: 50000", 'credits: "50000"');
    expect(broken).not.toBe(yaml);
    expect((await lintOpenApi(broken)).join("\n")).toContain("no-invalid-media-type-examples");
  });
});

describe("the OpenAPI description", () => {
  const document = openApiDocument(sampleRoutes, settings);
  const operation = (id: string): ReturnType<typeof listOperations>[number]["operation"] => {
    const found = listOperations(document).find((each) => each.operation.operationId === id);
    if (found === undefined) throw new Error(`no operation ${id}`);
    return found.operation;
  };

  test("has the base URL as its only server", () => {
    expect(document.servers.map((server) => server.url)).toEqual([settings.baseUrl]);
  });

  test("accepts the key in either header on routes that need one, and names its scope", () => {
    expect(operation("getAccount").security).toEqual([
      { bearer: ["usage:read"] },
      { apiKey: ["usage:read"] },
    ]);
    expect(operation("createAccount").security).toEqual([]);
  });

  test("describes a shared schema once and refers to it", () => {
    const schema = operation("getAccount").responses["200"];
    expect(JSON.stringify(schema)).toContain('"#/components/schemas/Account"');
    expect(Object.keys(document.components.schemas)).toContain("Account");
  });

  test("has separate input and output schemas if defaults make them differ", () => {
    expect(document.components.schemas["WindowInput"]?.required).toBeUndefined();
    expect(document.components.schemas["Window"]?.required).toEqual(["unit", "count"]);
  });

  test("has the idempotency-key header only on POST routes that write", () => {
    const holders = listOperations(document)
      .filter((each) => each.operation.parameters?.some((field) => field.in === "header"))
      .map((each) => each.operation.operationId);
    expect(holders.toSorted()).toEqual(["createAccount", "createInvoice", "createKey"]);
  });

  test("has query parameters with bounds, defaults and descriptions", () => {
    expect(operation("listKeys").parameters?.[0]).toEqual({
      name: "limit",
      in: "query",
      description: "How many at most.",
      schema: { type: "integer", minimum: 1, maximum: 100, default: 20 },
    });
  });

  test("describes the rest of a path as one parameter", () => {
    expect(Object.keys(document.paths)).toContain("/v1/models/{id}");
    expect(operation("getModel").parameters?.[0]?.description).toContain("slashes");
  });

  test("describes the claim poll as a form, with the route's own 400 response", () => {
    const poll = operation("pollClaim");
    expect(Object.keys(poll.requestBody?.content ?? {})).toEqual([
      "application/x-www-form-urlencoded",
    ]);
    expect(poll.responses["400"]).not.toHaveProperty("$ref");
  });

  test("uses the error schema of each dialect", () => {
    const envelopeOf = (id: string): unknown => {
      const found = operation(id).responses["500"];
      return found && resolveResponse(document, found).content?.["application/json"]?.schema?.$ref;
    };
    expect(envelopeOf("createChatCompletion")).toEndWith("/Error");
    expect(envelopeOf("createMessage")).toEndWith("/MessagesError");
    expect(envelopeOf("startClaim")).toEndWith("/OAuthError");
  });

  test("lists headers and alternative content types of a response", () => {
    const found = operation("createChatCompletion").responses["200"];
    const response = found && resolveResponse(document, found);
    expect(response?.headers).toHaveProperty("x-postern-cost-usd");
    expect(Object.keys(response?.content ?? {})).toEqual(["application/json", "text/event-stream"]);
  });

  test("leaves out hidden routes", () => {
    const hidden = coreRoutes.map((route) => Object.assign({}, route, { hidden: true }));
    expect(openApiDocument(hidden, settings).paths).toEqual({});
  });

  test("uses the same model in the example request and response of a model call", () => {
    const { requestBody, responses } = operation("createChatCompletion");
    const response = responses["200"] && resolveResponse(document, responses["200"]);
    const model = settings.exampleModel;
    expect(requestBody?.content["application/json"]?.example).toMatchObject({ model });
    expect(response?.content?.["application/json"]?.example).toMatchObject({ model });
  });

  test("has no `$defs`, dangling reference or internal name", () => {
    const text = JSON.stringify(document);
    expect(text).not.toContain("$defs");
    expect(text).not.toContain("__schema");
    for (const [, reference = ""] of text.matchAll(/"\$ref":"#\/([^"]+)"/g)) {
      expect(resolvePointer(document, reference)).toBeDefined();
    }
  });
});

function routeKey(route: Route): string {
  return `${route.method} ${openApiPath(route.path)}`;
}

function resolvePointer(document: OpenApiDocument, pointer: string): unknown {
  let value: unknown = document;
  for (const step of pointer.split("/")) value = isObject(value) ? value[step] : undefined;
  return value;
}
