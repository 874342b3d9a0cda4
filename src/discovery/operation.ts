// One route as one operation of the description.

import type { AnswerDoc, Route } from "../http/route.ts";
import type { z } from "zod";
import { curlOf, exampleOf, isRecord } from "./curl.ts";
import { errorReferences, relayedHeadersOf } from "./error-responses.ts";
import { ENVELOPES, takesIdempotencyKey } from "./errors.ts";
import type {
  HeaderObject,
  MediaType,
  Operation,
  Parameter,
  Reference,
  ResponseObject,
} from "./openapi-form.ts";
import { bindSchemas, type JsonSchema, type SchemaBook } from "./schemas.ts";
import type { DiscoverySettings } from "./settings.ts";

const IDEMPOTENCY_KEY =
  "A random text of your own. A repetition with the same key and body gets the first answer again, for 24 hours.";
const IDEMPOTENCY_KEY_MAX = 255;
const OPEN_IDEMPOTENCY_KEY_MIN = 16;
const COMPONENTS = "#/components/schemas/";

export const SECURITY_SCHEMES = {
  bearer: {
    type: "http",
    scheme: "bearer",
    description: "A gateway API key: `authorization: Bearer <API_KEY>`.",
  },
  apiKey: {
    type: "apiKey",
    in: "header",
    name: "x-api-key",
    description: "The same key, where Anthropic's SDKs put it.",
  },
} as const;

/** What an answer may also say of itself; both are optional, so a plain AnswerDoc is one. */
type FullAnswerDoc = AnswerDoc & {
  readonly headers?: Readonly<Record<string, string>>;
  /** The same answer in other content types, such as a stream or CSV. */
  readonly alternatives?: readonly Pick<AnswerDoc, "schema" | "contentType" | "example">[];
};

/** The schemas of all routes, each described once. */
export function bindRoutes(routes: readonly Route[]): SchemaBook {
  const inputs = routes.flatMap(({ params, query, body }) => [params, query, body]);
  const answers = routes.flatMap((route) => Object.values(route.answers)).flatMap(formsOf);
  const envelopes = routes.map((route) => ENVELOPES[route.dialect]);
  return bindSchemas(
    inputs.filter(isSchema),
    [...answers.map((form) => form.schema), ...envelopes].filter(isSchema),
  );
}

export function operationOf(
  route: Route,
  book: SchemaBook,
  settings: DiscoverySettings,
): Operation {
  const parameters = [
    ...parametersOf(route, book, "path"),
    ...parametersOf(route, book, "query"),
    ...headerParametersOf(route),
  ];
  return {
    operationId: route.id,
    tags: [route.tag],
    summary: route.summary,
    ...(route.description === undefined ? {} : { description: route.description }),
    security: route.auth === "key" ? [{ bearer: [] }, { apiKey: [] }] : [],
    ...(parameters.length === 0 ? {} : { parameters }),
    ...(route.body === undefined
      ? {}
      : { requestBody: requestBodyOf(route, route.body, book, settings) }),
    responses: { ...answersOf(route, book), ...errorReferences(route) },
    "x-codeSamples": [
      {
        lang: "Shell",
        label: "curl",
        source: curlOf(route, settings, { params: exampleParams(parameters) }),
      },
    ],
  };
}

function parametersOf(
  route: Route,
  book: SchemaBook,
  place: "path" | "query",
): readonly Parameter[] {
  const schema = place === "path" ? route.params : route.query;
  const fields = schema === undefined ? {} : fieldsOf(book, book.of("input", schema));
  if (place === "query")
    return Object.entries(fields).map(([name, field]) => parameter(name, place, field));
  return [...route.path.matchAll(/\{(\w+)(\+?)\}/g)].map(([, name = "", rest]) => {
    const field = fields[name]?.schema ?? { type: "string" };
    const told =
      rest === "+" ? `${field.description ?? ""} It may hold slashes.`.trim() : field.description;
    return parameter(name, place, {
      required: true,
      schema: told === undefined ? field : { ...field, description: told },
    });
  });
}

interface Field {
  readonly schema: JsonSchema;
  readonly required: boolean;
}

function parameter(name: string, place: "path" | "query", field: Field): Parameter {
  const { description, ...schema } = field.schema;
  return {
    name,
    in: place,
    ...(field.required ? { required: true } : {}),
    ...(description === undefined ? {} : { description }),
    schema,
  };
}

function fieldsOf(book: SchemaBook, schema: JsonSchema): Readonly<Record<string, Field>> {
  const whole =
    schema.$ref === undefined
      ? schema
      : (book.components[schema.$ref.slice(COMPONENTS.length)] ?? {});
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
  if (!takesIdempotencyKey(route)) return own;
  const least = route.auth === "none" ? OPEN_IDEMPOTENCY_KEY_MIN : 1;
  return [
    ...own,
    {
      name: "idempotency-key",
      in: "header",
      description:
        route.revealsSecret === true && route.auth === "key"
          ? `${IDEMPOTENCY_KEY} The answer holds a secret, so only the API key that asked first gets it again.`
          : IDEMPOTENCY_KEY,
      schema: { type: "string", minLength: least, maxLength: IDEMPOTENCY_KEY_MAX },
    },
  ];
}

function requestBodyOf(
  route: Route,
  body: z.ZodType,
  book: SchemaBook,
  settings: DiscoverySettings,
): NonNullable<Operation["requestBody"]> {
  const type = route.bodyType === "form" ? "application/x-www-form-urlencoded" : "application/json";
  const example = exampleOf(route, settings);
  const media: MediaType = {
    schema: book.of("input", body),
    ...(example === undefined ? {} : { example }),
  };
  return { required: !body.safeParse({}).success, content: { [type]: media } };
}

function answersOf(route: Route, book: SchemaBook): Readonly<Record<string, ResponseObject>> {
  const answers = Object.entries(route.answers).map(([status, answer]) => [
    status,
    answerOf(route, answer, book),
  ]);
  return Object.fromEntries(answers);
}

function answerOf(route: Route, answer: FullAnswerDoc, book: SchemaBook): ResponseObject {
  const headers: Record<string, HeaderObject | Reference> = {
    "x-request-id": { $ref: "#/components/headers/RequestId" },
  };
  if (takesIdempotencyKey(route))
    headers["idempotent-replayed"] = { $ref: "#/components/headers/Replayed" };
  for (const [name, description] of Object.entries(answer.headers ?? {}))
    headers[name] = { description, schema: { type: "string" } };
  Object.assign(headers, relayedHeadersOf(route));
  const content = formsOf(answer).map((form) => [
    form.contentType ?? "application/json",
    mediaOf(form, book),
  ]);
  return {
    description: answer.description,
    headers,
    ...(content.length === 0 ? {} : { content: Object.fromEntries(content) }),
  };
}

type Form = NonNullable<FullAnswerDoc["alternatives"]>[number];

/** The bodies that an answer can have; an answer that names neither a schema nor a content type has none. */
function formsOf(answer: FullAnswerDoc): readonly Form[] {
  return [answer, ...(answer.alternatives ?? [])].filter(
    (form) => form.schema !== undefined || form.contentType !== undefined,
  );
}

function mediaOf(form: Form, book: SchemaBook): MediaType {
  const schema: JsonSchema =
    form.schema === undefined ? { type: "string" } : book.of("output", form.schema);
  return { schema, ...(form.example === undefined ? {} : { example: form.example }) };
}

function exampleParams(parameters: readonly Parameter[]): Readonly<Record<string, string>> {
  const inPath = parameters.filter((each) => each.in === "path");
  return Object.fromEntries(inPath.map(({ name, schema }) => [name, exampleText(name, schema)]));
}

function exampleText(name: string, schema: JsonSchema): string {
  const example = schema.examples?.[0];
  return typeof example === "string" ? example : name.toUpperCase();
}

function isSchema(schema: z.ZodType | undefined): schema is z.ZodType {
  return isRecord(schema);
}
