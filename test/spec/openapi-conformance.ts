// Holds answers against the description that the gateway gives of itself.

import { expect } from "bun:test";
import { Ajv2020 } from "ajv/dist/2020.js";
import type { Gateway } from "../support/gateway.ts";
import { type ApiResponse, valueAt, call, type Json } from "./api-client.ts";

export interface ApiDescription {
  /**
   * Fails where an answer has a status, a body, a type or a header of its own that the description does not promise for
   * this operation.
   */
  readonly expectDocumented: (method: string, path: string, answer: ApiResponse) => void;
  /** The names of an operation's parameters in a place. */
  readonly parametersOf: (method: string, path: string, place: string) => readonly unknown[];
}

/** What every HTTP server may say, and needs no description. */
const STANDARD_HEADERS =
  /^(access-control-.*|cache-control|connection|content-(length|type)|date|etag|keep-alive|pragma|transfer-encoding|vary|x-(accel-buffering|content-type-options))$/;

export async function readApiDescription(gateway: Pick<Gateway, "url">): Promise<ApiDescription> {
  const { body: document } = await call(gateway, "GET /openapi.json");
  const paths = document["paths"] as Readonly<Record<string, Json>>;
  const ajv = new Ajv2020({ strict: false, validateFormats: false });
  ajv.addSchema(document, "openapi");
  return {
    expectDocumented: (method, path, answer) => {
      const { status } = answer;
      const verb = method.toLowerCase();
      const direct = valueAt(paths[path], `${verb}.responses.${status}`);
      expect({ method, path, status, isPromised: direct !== undefined }).toEqual({
        method,
        path,
        status,
        isPromised: true,
      });
      const shared = valueAt(direct, "$ref");
      const place =
        typeof shared === "string"
          ? shared.slice(2).split("/")
          : ["paths", path, verb, "responses", String(status)];
      const response = place.reduce<unknown>((inner, name) => (inner as Json)[name], document);
      expectHeaders(`${method} ${path} ${status}`, response, answer);
      expectBody(ajv, place, response, answer);
    },
    parametersOf: (method, path, place) => {
      const found = valueAt(paths[path], `${method.toLowerCase()}.parameters`) ?? [];
      return (found as readonly Json[])
        .filter((one) => one["in"] === place)
        .map((one) => one["name"]);
    },
  };
}

function expectHeaders(what: string, response: unknown, { headers }: ApiResponse): void {
  const told = Object.keys(valueAt(response, "headers") ?? {});
  const isTold = (name: string): boolean =>
    told.some((one) => (one.endsWith("*") ? name.startsWith(one.slice(0, -1)) : one === name));
  const untold = [...headers.keys()].filter(
    (name) => !STANDARD_HEADERS.test(name) && !isTold(name),
  );
  expect({ what, untold }).toEqual({ what, untold: [] });
  const wait = headers.get("retry-after");
  if (wait !== null) expect(wait).toMatch(/^[1-9]\d*$/);
}

function expectBody(
  ajv: Ajv2020,
  place: readonly string[],
  response: unknown,
  { headers, body, text }: ApiResponse,
): void {
  const content = (valueAt(response, "content") ?? {}) as Json;
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
