// Encodes spans and log records as OTLP JSON: ids in hexadecimal, 64-bit integers as strings.

import type { AttributeValue, Span } from "./span.ts";

const SERVER_KIND = 2;
const ERROR_STATUS = 2;

export interface Resource {
  readonly serviceName: string;
  readonly version: string;
  /** Id of this process. */
  readonly instance?: string;
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

// Costs are always doubles, also 0: collectors distinguish the two number types.
function valueOf(key: string, value: AttributeValue): object {
  if (typeof value === "string") return { stringValue: value };
  if (typeof value === "boolean") return { boolValue: value };
  if (typeof value !== "number")
    return { arrayValue: { values: value.map((item) => ({ stringValue: item })) } };
  return Number.isInteger(value) && !key.endsWith("_usd")
    ? { intValue: String(value) }
    : { doubleValue: value };
}

function toUnixNano(ms: number): string {
  return `${Math.round(ms)}000000`;
}

/** INFO of the log data model. */
const SEVERITY_INFO = 9;

interface LogRecord {
  readonly at: number;
  readonly eventName: string;
  readonly body: string;
  readonly attributes: Readonly<Record<string, AttributeValue | undefined>>;
}

export function otlpLogsJson(
  scope: { readonly serviceName: string; readonly name: string },
  records: readonly LogRecord[],
): string {
  return JSON.stringify({
    resourceLogs: [
      {
        resource: { attributes: attributesOf({ "service.name": scope.serviceName }) },
        scopeLogs: [
          {
            scope: { name: scope.name },
            logRecords: records.map(({ at, eventName, body, attributes }) => ({
              timeUnixNano: toUnixNano(at),
              observedTimeUnixNano: toUnixNano(at),
              severityNumber: SEVERITY_INFO,
              severityText: "INFO",
              eventName,
              body: { stringValue: body },
              attributes: attributesOf(attributes),
            })),
          },
        ],
      },
    ],
  });
}
