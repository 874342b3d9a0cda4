// Converts a route to an OpenAPI operation.

import type { z } from "zod";
import { type ResponseDoc, type Route, requiresKey } from "../../http/route.ts";
import { curlCommand } from "../curl.ts";
import type { DiscoverySettings } from "../discovery-settings.ts";
import { ERROR_ENVELOPES, acceptsIdempotencyKey } from "../error-docs.ts";
import { exampleRequest, exampleResponse, withExampleModels } from "../examples.ts";
import { errorContent, errorResponseRefs, relayedHeadersOf } from "./error-responses.ts";
import { createSchemaRegistry, type JsonSchema, type SchemaRegistry } from "./json-schemas.ts";
import type {
  HeaderObject,
  MediaType,
  Operation,
  Parameter,
  Reference,
  ResponseObject,
} from "./openapi-types.ts";

const IDEMPOTENCY_KEY_DESCRIPTION =
  "A random string. For 24 hours, the same request with it and the same API key gets the first response again.";
const IDEMPOTENCY_KEY_MAX = 255;
const SECRET_IDEMPOTENCY_KEY_DESCRIPTION =
  "A random string of at least 128 bits, such as 32 hexadecimal digits or a UUID. For ten minutes, a request with the same key and body gets the first response again, with its secret; for the rest of 24 hours it is refused.";
/** 128 bits of the largest alphabet. */
const SECRET_IDEMPOTENCY_KEY_MIN = 22;
const COMPONENTS_PREFIX = "#/components/schemas/";

export const SECURITY_SCHEMES = {
  bearer: {
    type: "http",
    scheme: "bearer",
    description:
      "Your API key, a key derived from it, or a token of the issuer of a key: `authorization: Bearer <API_KEY>`. A request that is signed (RFC 9421) needs no header. See `/docs/derived-keys` and `/docs/keys-without-secrets`.",
  },
  apiKey: {
    type: "apiKey",
    in: "header",
    name: "x-api-key",
    description: "The same key in `x-api-key`, the header that Anthropic SDKs use.",
  },
  googleKey: {
    type: "apiKey",
    in: "header",
    name: "x-goog-api-key",
    description:
      "The same key in `x-goog-api-key`, the header that Google's SDKs use, or in the query parameter `key`.",
  },
  scimToken: {
    type: "http",
    scheme: "bearer",
    description: "The token of the page Directory sync of a workspace.",
  },
  metricsToken: {
    type: "http",
    scheme: "bearer",
    description: "The operator's `POSTERN_METRICS_TOKEN`.",
  },
} as const;

/** Optional details of a response. */
type FullResponseDoc = ResponseDoc & {
  readonly headers?: Readonly<Record<string, string>>;
  /** The same response in other content types, such as an event stream or CSV. */
  readonly alternatives?: readonly Pick<ResponseDoc, "schema" | "contentType" | "example">[];
};

/** A registry with the schemas of all routes. */
export function createRouteSchemas(routes: readonly Route[]): SchemaRegistry {
  const inputs = routes.flatMap(({ params, query, body }) => [params, query, body]);
  const variants = routes
    .flatMap((route) => Object.values(route.responses))
    .flatMap(responseVariants);
  const envelopes = routes.map((route) => ERROR_ENVELOPES[route.dialect]);
  return createSchemaRegistry(
    inputs.filter((schema) => schema !== undefined),
    [...variants.map((variant) => variant.schema), ...envelopes].filter(
      (schema) => schema !== undefined,
    ),
  );
}

export function routeOperation(
  route: Route,
  registry: SchemaRegistry,
  settings: DiscoverySettings,
): Operation {
  const parameters = [
    ...parametersOf(route, registry, "path"),
    ...parametersOf(route, registry, "query"),
    ...headerParametersOf(route),
  ];
  return {
    operationId: route.id,
    tags: [route.tag],
    summary: route.summary,
    ...(route.description === undefined ? {} : { description: route.description }),
    security: securityOf(route),
    ...(parameters.length === 0 ? {} : { parameters }),
    ...(route.body === undefined
      ? {}
      : { requestBody: requestBodyOf(route, route.body, registry, settings) }),
    responses: { ...successResponses(route, { registry, settings }), ...errorResponseRefs(route) },
    ...paymentInfo(route, settings),
    "x-codeSamples": [
      {
        lang: "Shell",
        label: "curl",
        source: curlCommand(route, settings, { params: exampleParams(parameters, settings) }),
      },
    ],
  };
}

/** On calls that hold credits: how a call pays for itself if the balance does not cover it. */
function paymentInfo(
  { kind }: Route,
  { paymentMethods = [] }: DiscoverySettings,
): Pick<Operation, "x-payment-info"> {
  if (kind !== "model" || paymentMethods.length === 0) return {};
  const offers = paymentMethods.map(
    (method) => ({ intent: "charge", amount: null, ...method }) as const,
  );
  return { "x-payment-info": { offers } };
}

/** OpenAPI 3.1 lists here the roles, which are our scopes, that a key needs. */
function securityOf(route: Route): Operation["security"] {
  const { credential, scope, dialect } = route;
  if (credential === "scimToken") return [{ scimToken: [] }];
  // An empty requirement: the request may have no credential.
  if (credential === "metricsToken") return [{ metricsToken: [] }, {}];
  if (!requiresKey(route) && credential === undefined) return [];
  const scopes = scope === undefined ? [] : [scope];
  const google = dialect === "google" ? [{ googleKey: scopes }] : [];
  // A wallet can pay instead of a key.
  const none = credential === "optionalKey" || route.acceptsWallets === true ? [{}] : [];
  return [{ bearer: scopes }, { apiKey: scopes }, ...google, ...none];
}

function parametersOf(
  route: Route,
  registry: SchemaRegistry,
  location: "path" | "query",
): readonly Parameter[] {
  const schema = location === "path" ? route.params : route.query;
  const fields =
    schema === undefined ? {} : fieldsOf(registry, registry.jsonSchemaFor("input", schema));
  if (location === "query")
    return Object.entries(fields).map(([name, field]) => parameter(name, location, field));
  return [...route.path.matchAll(/\{(\w+)(\+?)\}/g)].map(([, name = "", rest]) => {
    const field = fields[name]?.schema ?? { type: "string" };
    const description =
      rest === "+" ? `${field.description ?? ""} May contain slashes.`.trim() : field.description;
    return parameter(name, location, {
      required: true,
      schema: description === undefined ? field : { ...field, description },
    });
  });
}

interface Field {
  readonly schema: JsonSchema;
  readonly required: boolean;
}

function parameter(name: string, location: "path" | "query", field: Field): Parameter {
  const { description, ...schema } = field.schema;
  return {
    name,
    in: location,
    ...(field.required ? { required: true } : {}),
    ...(description === undefined ? {} : { description }),
    schema,
  };
}

/** Follows the reference to a component. */
function wholeSchema({ components }: SchemaRegistry, schema: JsonSchema): JsonSchema {
  return schema.$ref === undefined
    ? schema
    : (components[schema.$ref.slice(COMPONENTS_PREFIX.length)] ?? {});
}

function fieldsOf(registry: SchemaRegistry, schema: JsonSchema): Readonly<Record<string, Field>> {
  const whole = wholeSchema(registry, schema);
  const fields = Object.entries(whole.properties ?? {}).map(([name, property]) => [
    name,
    {
      schema: typeof property === "object" ? property : {},
      required: whole.required?.includes(name) ?? false,
    },
  ]);
  return Object.fromEntries(fields);
}

function headerParametersOf(route: Route): readonly Parameter[] {
  const own = Object.entries(route.requestHeaders ?? {}).map(([name, description]): Parameter => ({
    name,
    in: "header",
    description,
    schema: { type: "string" },
  }));
  if (!acceptsIdempotencyKey(route)) return own;
  const isSecret = route.revealsSecret === true;
  return [
    ...own,
    {
      name: "idempotency-key",
      in: "header",
      description: isSecret ? SECRET_IDEMPOTENCY_KEY_DESCRIPTION : IDEMPOTENCY_KEY_DESCRIPTION,
      schema: {
        type: "string",
        minLength: isSecret ? SECRET_IDEMPOTENCY_KEY_MIN : 1,
        maxLength: IDEMPOTENCY_KEY_MAX,
      },
    },
  ];
}

function requestBodyOf(
  route: Route,
  body: z.ZodType,
  registry: SchemaRegistry,
  settings: DiscoverySettings,
): NonNullable<Operation["requestBody"]> {
  const example = exampleRequest(route, settings);
  const schema = registry.jsonSchemaFor("input", body);
  const { required = [] } = wholeSchema(registry, schema);
  const media: MediaType = {
    schema,
    ...(example === undefined ? {} : { example }),
  };
  const content = Object.fromEntries(mediaTypesOf(route).map((type) => [type, media] as const));
  return { required: required.length > 0 || !body.safeParse({}).success, content };
}

function mediaTypesOf({ bodyType, multipart }: Route): readonly string[] {
  if (multipart === "required" || multipart === "streamed") return ["multipart/form-data"];
  if (bodyType === "form") return ["application/x-www-form-urlencoded"];
  return multipart === undefined
    ? ["application/json"]
    : ["application/json", "multipart/form-data"];
}

interface OperationContext {
  readonly registry: SchemaRegistry;
  readonly settings: DiscoverySettings;
}

function successResponses(
  route: Route,
  { registry, settings }: OperationContext,
): Readonly<Record<string, ResponseObject>> {
  const responses = Object.entries(route.responses).map(([status, response]) => [
    status,
    responseObject(route, response, { registry, settings }, Number(status) >= 400),
  ]);
  return Object.fromEntries(responses);
}

function responseObject(
  route: Route,
  response: FullResponseDoc,
  context: OperationContext,
  isError: boolean,
): ResponseObject {
  const headers: Record<string, HeaderObject | Reference> = {
    "x-request-id": { $ref: "#/components/headers/RequestId" },
  };
  if (acceptsIdempotencyKey(route))
    headers["idempotent-replayed"] = { $ref: "#/components/headers/Replayed" };
  for (const [name, description] of Object.entries(response.headers ?? {}))
    headers[name] = { description, schema: { type: "string" } };
  Object.assign(headers, relayedHeadersOf(route));
  const content = responseVariants(response).map((variant) => [
    variant.contentType ?? "application/json",
    mediaType(route, variant, context),
  ]);
  return {
    description: response.description,
    headers,
    ...(content.length === 0 ? {} : { content: Object.fromEntries(content) }),
    ...(content.length === 0 && isError
      ? { content: errorContent(route.dialect, ["method_not_allowed"], context.registry) }
      : {}),
  };
}

type ResponseVariant = NonNullable<FullResponseDoc["alternatives"]>[number];

/** The bodies that a response can have; none if it has neither a schema nor a content type. */
function responseVariants(response: FullResponseDoc): readonly ResponseVariant[] {
  return [response, ...(response.alternatives ?? [])].filter(
    (variant) => variant.schema !== undefined || variant.contentType !== undefined,
  );
}

function isJson(contentType = ""): boolean {
  return /[/+]json$/.test(contentType);
}

function mediaType(
  route: Route,
  variant: ResponseVariant,
  { registry, settings }: OperationContext,
): MediaType {
  const schema: JsonSchema =
    variant.schema === undefined
      ? { type: isJson(variant.contentType) ? "object" : "string" }
      : registry.jsonSchemaFor("output", variant.schema);
  const example = exampleResponse(route, settings, variant.example);
  return { schema, ...(example === undefined ? {} : { example }) };
}

function exampleParams(
  parameters: readonly Parameter[],
  settings: DiscoverySettings,
): Readonly<Record<string, string>> {
  const inPath = parameters.filter((each) => each.in === "path");
  return Object.fromEntries(
    inPath.map(({ name, schema }) => [
      name,
      withExampleModels(exampleText(name, schema), settings),
    ]),
  );
}

function exampleText(name: string, schema: JsonSchema): string {
  const example = schema.examples?.[0];
  return typeof example === "string" ? example : name.toUpperCase();
}
