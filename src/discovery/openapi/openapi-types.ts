// The part of OpenAPI 3.1 that this gateway writes and its API reference reads.

import type { JsonSchema } from "./json-schemas.ts";

export interface Reference {
  readonly $ref: string;
}

export interface MediaType {
  readonly schema?: JsonSchema;
  readonly example?: unknown;
  readonly examples?: Readonly<
    Record<string, { readonly summary: string; readonly value: unknown }>
  >;
}

export interface HeaderObject {
  readonly description: string;
  readonly schema: JsonSchema;
}

export interface ResponseObject {
  readonly description: string;
  readonly headers?: Readonly<Record<string, HeaderObject | Reference>>;
  readonly content?: Readonly<Record<string, MediaType>>;
}

export interface Parameter {
  readonly name: string;
  readonly in: "path" | "query" | "header";
  readonly required?: boolean;
  readonly description?: string;
  readonly schema: JsonSchema;
}

interface CodeSample {
  readonly lang: string;
  readonly label: string;
  readonly source: string;
}

/** How a call can pay for itself (draft-payment-discovery). The amount depends on the request. */
interface PaymentOffer {
  readonly intent: "charge";
  readonly method: string;
  readonly amount: null;
  readonly currency: string;
}

/** Describes the whole service (draft-payment-discovery). */
interface ServiceInfo {
  readonly categories: readonly string[];
  readonly docs: {
    readonly apiReference: string;
    readonly homepage: string;
    readonly llms: string;
  };
}

export interface Operation {
  readonly operationId: string;
  readonly tags: readonly string[];
  readonly summary: string;
  readonly description?: string;
  readonly security: readonly Readonly<Record<string, readonly string[]>>[];
  readonly parameters?: readonly Parameter[];
  readonly requestBody?: {
    readonly required: boolean;
    readonly content: Readonly<Record<string, MediaType>>;
  };
  readonly responses: Readonly<Record<string, ResponseObject | Reference>>;
  readonly "x-codeSamples": readonly CodeSample[];
  readonly "x-payment-info"?: { readonly offers: readonly PaymentOffer[] };
}

export interface Tag {
  readonly name: string;
  readonly description: string;
}

export interface OpenApiDocument {
  readonly openapi: "3.1.1";
  readonly info: {
    readonly title: string;
    readonly version: string;
    readonly summary: string;
    readonly description: string;
    readonly termsOfService?: string;
    readonly contact?: { readonly url: string };
  };
  readonly externalDocs: { readonly url: string; readonly description: string };
  readonly servers: readonly { readonly url: string; readonly description: string }[];
  readonly "x-service-info": ServiceInfo;
  readonly tags: readonly Tag[];
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  readonly components: {
    readonly securitySchemes: Readonly<Record<string, Readonly<Record<string, string>>>>;
    readonly headers: Readonly<Record<string, HeaderObject>>;
    readonly responses: Readonly<Record<string, ResponseObject>>;
    readonly schemas: Readonly<Record<string, JsonSchema>>;
  };
}

/** Follows a reference to a response component. */
export function resolveResponse(
  document: OpenApiDocument,
  responseOrRef: ResponseObject | Reference,
): ResponseObject {
  if (!("$ref" in responseOrRef)) return responseOrRef;
  const name = responseOrRef.$ref.slice("#/components/responses/".length);
  const response = document.components.responses[name];
  if (response === undefined) throw new Error(`no response component ${name}`);
  return response;
}

/** All operations, in the order of the routes. */
export function listOperations(
  document: OpenApiDocument,
): readonly { readonly path: string; readonly method: string; readonly operation: Operation }[] {
  return Object.entries(document.paths).flatMap(([path, item]) =>
    Object.entries(item).map(([method, operation]) => ({
      path,
      method: method.toUpperCase(),
      operation,
    })),
  );
}
