// Spans as OTLP has them in JSON: identifiers in hexadecimal, whole numbers of 64 bits as text.

import type { AttributeValue, Span } from "./span.ts";

const SERVER_KIND = 2;
const ERROR_STATUS = 2;

export interface Resource {
  readonly serviceName: string;
  readonly version: string;
  /** Which process of several. */
  readonly instance: string;
}

export function otlpJson(resource: Resource, spans: readonly Span[]): string {
  return JSON.stringify({
    resourceSpans: [
      {
        resource: {
          attributes: attributesOf({
            "service.name": resource.serviceName,
            "service.version": resource.version,
            "service.instance.id": resource.instance,
          }),
        },
        scopeSpans: [
          { scope: { name: "postern", version: resource.version }, spans: spans.map(spanJson) },
        ],
      },
    ],
  });
}

function spanJson(span: Span): object {
  return {
    traceId: span.traceId,
    spanId: span.spanId,
    parentSpanId: span.parentSpanId,
    name: span.name,
    kind: SERVER_KIND,
    startTimeUnixNano: toUnixNano(span.startedAt),
    endTimeUnixNano: toUnixNano(span.endedAt),
    attributes: attributesOf(span.attributes),
    status: span.error === undefined ? {} : { code: ERROR_STATUS, message: span.error },
  };
}

function attributesOf(values: Span["attributes"]): readonly object[] {
  return Object.entries(values).flatMap(([key, value]) =>
    value === undefined ? [] : [{ key, value: valueOf(key, value) }],
  );
}

// A cost is a fraction also where it is 0: a collector keeps the two kinds of numbers apart.
function valueOf(key: string, value: AttributeValue): object {
  if (typeof value === "string") return { stringValue: value };
  if (typeof value === "boolean") return { boolValue: value };
  if (typeof value !== "number")
    return { arrayValue: { values: value.map((one) => ({ stringValue: one })) } };
  return Number.isInteger(value) && !key.endsWith("_usd")
    ? { intValue: String(value) }
    : { doubleValue: value };
}

function toUnixNano(ms: number): string {
  return `${Math.round(ms)}000000`;
}
