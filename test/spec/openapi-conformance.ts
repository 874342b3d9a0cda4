// Validates responses against /openapi.json of the gateway.

import { expect } from "bun:test";
import { Ajv2020 } from "ajv/dist/2020.js";
import type { Gateway } from "../support/gateway.ts";
import { type ApiResponse, valueAt, call, type Json } from "./api-client.ts";

export interface ApiDescription {
  /** Fails if the response has a status, body, content type or header that is not documented for the operation. */
  readonly expectDocumented: (method: string, path: string, response: ApiResponse) => void;
  /** The names of an operation's parameters in path, query or header. */
  readonly parametersOf: (method: string, path: string, place: string) => readonly unknown[];
}

/** Standard HTTP headers, which are not documented. */
const STANDARD_HEADERS =
  /^(access-control-.*|cache-control|connection|content-(encoding|length|type)|date|etag|keep-alive|request-id|pragma|transfer-encoding|vary|x-(accel-buffering|content-type-options))$/;

export async function readApiDescription(gateway: Pick<Gateway, "url">): Promise<ApiDescription> {
  const { body: document } = await call(gateway, "GET /openapi.json");
  const paths = document["paths"] as Readonly<Record<string, Json>>;
  const ajv = new Ajv2020({ strict: false, validateFormats: false });
  ajv.addSchema(document, "openapi");
  return {
    expectDocumented: (method, path, response) => {
      const { status } = response;
      const verb = method.toLowerCase();
      const direct = valueAt(paths[path], `${verb}.responses.${status}`);
      expect({ method, path, status, isDocumented: direct !== undefined }).toEqual({
        method,
        path,
        status,
        isDocumented: true,
      });
      const shared = valueAt(direct, "$ref");
      const place =
        typeof shared === "string"
          ? shared.slice(2).split("/")
          : ["paths", path, verb, "responses", String(status)];
      const described = place.reduce<unknown>((inner, name) => (inner as Json)[name], document);
      expectHeaders(`${method} ${path} ${status}`, described, response);
      expectBody(ajv, place, described, response);
    },
    parametersOf: (method, path, place) => {
      const found = valueAt(paths[path], `${method.toLowerCase()}.parameters`) ?? [];
      return (found as readonly Json[])
        .filter((parameter) => parameter["in"] === place)
        .map((parameter) => parameter["name"]);
    },
  };
}

function expectHeaders(operation: string, described: unknown, { headers }: ApiResponse): void {
  const documented = Object.keys(valueAt(described, "headers") ?? {});
  const isDocumented = (name: string): boolean =>
    documented.some((pattern) =>
      pattern.endsWith("*") ? name.startsWith(pattern.slice(0, -1)) : pattern === name,
    );
  const undocumented = [...headers.keys()].filter(
    (name) => !STANDARD_HEADERS.test(name) && !isDocumented(name),
  );
  expect({ operation, undocumented }).toEqual({ operation, undocumented: [] });
  const wait = headers.get("retry-after");
  if (wait !== null) expect(wait).toMatch(/^[1-9]\d*$/);
}

function expectBody(
  ajv: Ajv2020,
  place: readonly string[],
  described: unknown,
  { headers, body, text }: ApiResponse,
): void {
  const content = (valueAt(described, "content") ?? {}) as Json;
  const type = headers.get("content-type")?.split(";")[0] ?? "";
  if (text === "") return;
  const where = place.join(" ");
  expect({ where, type, types: Object.keys(content) }).toEqual({
    where,
    type,
    types: expect.arrayContaining([type]),
  });
  if (type !== "application/json") return;
  const pointer = [...place, "content", "application/json", "schema"].map(escaped).join("/");
  const validate = ajv.getSchema(`openapi#/${pointer}`);
  if (validate === undefined) throw new Error(`${where} has no schema`);
  const isValid = validate(body);
  expect({ where, isValid, errors: validate.errors, text: isValid ? "" : text }).toEqual({
    where,
    isValid: true,
    errors: null,
    text: "",
  });
}

function escaped(name: string): string {
  return encodeURIComponent(name.replaceAll("~", "~0").replaceAll("/", "~1"));
}
