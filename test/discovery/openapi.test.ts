import { describe, expect, test } from "bun:test";
import { Validator } from "@seriousme/openapi-schema-validator";
import { parse } from "yaml";
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
  ["the sample routes and the documents themselves", siteRoutes],
  ["the sample routes without claims", coreRoutes],
];

for (const [name, routes] of ROUTE_SETS) {
  const document = openApiDocument(routes, settings);
  const yaml = await openApiYaml(document);
  describe(`/openapi.yaml of ${name}`, () => {
    test("passes the schema of OpenAPI 3.1", async () => {
      const result = await new Validator({ strict: false }).validate(parse(yaml));
      expect(result.errors).toBeUndefined();
      expect(result.valid).toBe(true);
    });

    test("passes Redocly's rules, with every example valid against its schema", async () => {
      expect(await lintOpenApi(yaml)).toEqual([]);
    });

    test("has every route that is not hidden, and no other", () => {
      const described = listOperations(document).map(({ method, path }) => `${method} ${path}`);
      const mounted = routes.filter((route) => route.hidden !== true).map(routeKey);
      expect(described.toSorted()).toEqual(mounted.toSorted());
    });

    test("has every fault of every route under its status, with an example of its code", () => {
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

describe("the rules", () => {
  test("see an example that does not fit its schema", async () => {
    const yaml = await openApiYaml(openApiDocument(sampleRoutes, settings));
    const broken = yaml.replaceAll("credits: 50000", 'credits: "50000"');
    expect(broken).not.toBe(yaml);
    expect((await lintOpenApi(broken)).join("\n")).toContain("no-invalid-media-type-examples");
  });
});

describe("the description", () => {
  const document = openApiDocument(sampleRoutes, settings);
  const operation = (id: string): ReturnType<typeof listOperations>[number]["operation"] => {
    const found = listOperations(document).find((each) => each.operation.operationId === id);
    if (found === undefined) throw new Error(`no operation ${id}`);
    return found.operation;
  };

  test("names the base URL as its only server", () => {
    expect(document.servers.map((server) => server.url)).toEqual([settings.baseUrl]);
  });

  test("asks for a key in either header where a route takes one, and for none elsewhere", () => {
    expect(operation("getAccount").security).toEqual([{ bearer: [] }, { apiKey: [] }]);
    expect(operation("createAccount").security).toEqual([]);
  });

  test("describes a shared record once and refers to it", () => {
    const schema = operation("getAccount").responses["200"];
    expect(JSON.stringify(schema)).toContain('"#/components/schemas/Account"');
    expect(Object.keys(document.components.schemas)).toContain("Account");
  });

  test("tells apart what is sent and what is answered where defaults make them differ", () => {
    expect(document.components.schemas["WindowInput"]?.required).toBeUndefined();
    expect(document.components.schemas["Window"]?.required).toEqual(["unit", "count"]);
  });

  test("offers an idempotency key on POST routes that write, and only there", () => {
    const holders = listOperations(document)
      .filter((each) => each.operation.parameters?.some((field) => field.in === "header"))
      .map((each) => each.operation.operationId);
    expect(holders.toSorted()).toEqual(["createAccount", "createInvoice", "mintKey"]);
  });

  test("has query parameters with their bounds, defaults and descriptions", () => {
    expect(operation("listKeys").parameters?.[0]).toEqual({
      name: "limit",
      in: "query",
      description: "How many at most.",
      schema: { type: "integer", minimum: 1, maximum: 100, default: 20 },
    });
  });

  test("takes the rest of a path as one parameter", () => {
    expect(Object.keys(document.paths)).toContain("/v1/models/{id}");
    expect(operation("getModel").parameters?.[0]?.description).toContain("slashes");
  });

  test("sends the claim poll as a form, and keeps the route's own word on a 400", () => {
    const poll = operation("pollClaim");
    expect(Object.keys(poll.requestBody?.content ?? {})).toEqual([
      "application/x-www-form-urlencoded",
    ]);
    expect(poll.responses["400"]).not.toHaveProperty("$ref");
  });

  test("gives each dialect its own envelope", () => {
    const envelopeOf = (id: string): unknown => {
      const found = operation(id).responses["500"];
      return found && resolveResponse(document, found).content?.["application/json"]?.schema?.$ref;
    };
    expect(envelopeOf("createChatCompletion")).toEndWith("/Error");
    expect(envelopeOf("createMessage")).toEndWith("/MessagesError");
    expect(envelopeOf("startClaim")).toEndWith("/OAuthError");
  });

  test("shows headers and further content types of an answer", () => {
    const found = operation("createChatCompletion").responses["200"];
    const answer = found && resolveResponse(document, found);
    expect(answer?.headers).toHaveProperty("x-postern-cost-usd");
    expect(Object.keys(answer?.content ?? {})).toEqual(["application/json", "text/event-stream"]);
  });

  test("leaves hidden routes out", () => {
    const hidden = coreRoutes.map((route) => Object.assign({}, route, { hidden: true }));
    expect(openApiDocument(hidden, settings).paths).toEqual({});
  });

  test("has no `$defs`, dangling reference or internal name left", () => {
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
  let place: unknown = document;
  for (const step of pointer.split("/")) place = isObject(place) ? place[step] : undefined;
  return place;
}
