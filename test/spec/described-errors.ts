// Holds answers against the description that the gateway gives of itself.

import { expect } from "bun:test";
import { Ajv2020 } from "ajv/dist/2020.js";
import type { Gateway } from "../support/gateway.ts";
import { type Answered, at, call, type Json } from "./caller.ts";

export interface Description {
  /** Fails where an answer has a status, or an error a body, that the description does not promise for this operation. */
  readonly expectDescribed: (method: string, path: string, answer: Answered) => void;
}

export async function readDescription(gateway: Pick<Gateway, "url">): Promise<Description> {
  const { body: document } = await call(gateway, "GET /openapi.json");
  const paths = document["paths"] as Readonly<Record<string, Json>>;
  const ajv = new Ajv2020({ strict: false, validateFormats: false });
  ajv.addSchema(document, "openapi");
  return {
    expectDescribed: (method, path, answer) => {
      const { status, body, text } = answer;
      const response = at(paths[path], `${method.toLowerCase()}.responses.${status}`);
      expect({ method, path, status, isPromised: response !== undefined }).toEqual({
        method,
        path,
        status,
        isPromised: true,
      });
      const shared = at(response, "$ref");
      if (typeof shared !== "string") return;
      const validate = ajv.getSchema(`openapi${shared}/content/application~1json/schema`);
      if (validate === undefined) throw new Error(`${shared} has no schema`);
      const isValid = validate(body);
      expect({ path, isValid, errors: validate.errors, text: isValid ? "" : text }).toEqual({
        path,
        isValid: true,
        errors: null,
        text: "",
      });
    },
  };
}
