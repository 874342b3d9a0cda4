// A fake OTLP collector that records exports and responds as configured.

import { z } from "zod";

const Value = z.union([
  z.strictObject({ stringValue: z.string() }),
  z.strictObject({ boolValue: z.boolean() }),
  z.strictObject({ intValue: z.string().regex(/^-?\d+$/) }),
  z.strictObject({ doubleValue: z.number() }),
  z.strictObject({
    arrayValue: z.strictObject({ values: z.array(z.strictObject({ stringValue: z.string() })) }),
  }),
]);
const Attributes = z.array(z.strictObject({ key: z.string(), value: Value }));

/** OTLP 1.x JSON for spans without events and links. */
const Export = z.strictObject({
  resourceSpans: z.array(
    z.strictObject({
      resource: z.strictObject({ attributes: Attributes }),
      scopeSpans: z.array(
        z.strictObject({
          scope: z.strictObject({ name: z.string(), version: z.string() }),
          spans: z.array(
            z.strictObject({
              traceId: z.string().regex(/^[0-9a-f]{32}$/),
              spanId: z.string().regex(/^[0-9a-f]{16}$/),
              parentSpanId: z
                .string()
                .regex(/^[0-9a-f]{16}$/)
                .optional(),
              name: z.string(),
              kind: z.literal(2),
              startTimeUnixNano: z.string().regex(/^\d{19}$/),
              endTimeUnixNano: z.string().regex(/^\d{19}$/),
              attributes: Attributes,
              status: z.strictObject({
                code: z.literal(2).optional(),
                message: z.string().optional(),
              }),
            }),
          ),
        }),
      ),
    }),
  ),
});

interface ReceivedSpan extends Readonly<
  z.infer<typeof Export>["resourceSpans"][number]["scopeSpans"][number]["spans"][number]
> {
  readonly attributeValues: Readonly<Record<string, unknown>>;
}

export interface FakeCollector {
  readonly url: string;
  /** The raw request bodies. */
  readonly bodies: readonly string[];
  readonly headers: readonly Headers[];
  readonly spans: () => readonly ReceivedSpan[];
  /** The resource of the first export. */
  readonly resource: () => Readonly<Record<string, unknown>>;
  /** Handles the next requests. */
  respond: (request: Request) => Response | Promise<Response>;
  readonly stop: () => Promise<void>;
}

export function startFakeCollector(): FakeCollector {
  const bodies: string[] = [];
  const headers: Headers[] = [];
  const collector = {
    respond: (_request: Request): Response | Promise<Response> => acceptedResponse(),
  };
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    idleTimeout: 0,
    fetch: async (request) => {
      if (new URL(request.url).pathname !== "/v1/traces")
        return new Response(null, { status: 404 });
      bodies.push(await request.text());
      headers.push(request.headers);
      return collector.respond(request);
    },
  });
  const exports = () => bodies.map((text) => Export.parse(JSON.parse(text)));
  return Object.assign(collector, {
    url: `http://127.0.0.1:${server.port}`,
    bodies,
    headers,
    spans: () =>
      exports().flatMap(({ resourceSpans }) =>
        resourceSpans.flatMap(({ scopeSpans }) =>
          scopeSpans.flatMap(({ spans }) =>
            spans.map((span) => ({ ...span, attributeValues: plainAttributes(span.attributes) })),
          ),
        ),
      ),
    resource: () => plainAttributes(exports()[0]?.resourceSpans[0]?.resource.attributes ?? []),
    stop: () => server.stop(true),
  });
}

export function acceptedResponse(): Response {
  return Response.json({ partialSuccess: {} });
}

function plainAttributes(
  attributes: z.infer<typeof Attributes>,
): Readonly<Record<string, unknown>> {
  return Object.fromEntries(attributes.map(({ key, value }) => [key, plainValue(value)]));
}

function plainValue(value: z.infer<typeof Value>): unknown {
  if ("arrayValue" in value) return value.arrayValue.values.map(({ stringValue }) => stringValue);
  if ("intValue" in value) return Number(value.intValue);
  return Object.values(value)[0];
}
